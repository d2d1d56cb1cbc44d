"""Why a fragment is dropped: the reasons of `nitro_fragments_dropped_total`."""

from typing import Literal, get_args

Reason = Literal[
    "duplicate",
    "garbage",
    "inconsistent",
    "not_finite",
    "other_round",
    "other_run",
    "stale",
    "stale_weights",
    "too_large",
    "truncated",
    "wrong_seed",
    "wrong_shape",
    "wrong_slot",
]

DROP_REASONS: tuple[Reason, ...] = get_args(Reason)
