"""Whether an object on the server still says what we want. Pure; fields that we do not set are not ours to
judge."""

from __future__ import annotations

from typing import Any

from nitro_api.quantities import amount_of


def drifted(desired: Any, observed: Any) -> bool:
    """Whether any field of `desired` is missing or different in `observed`; quantities compare by value."""
    if observed is None and desired in ({}, [], ""):
        return False  # the API drops what is empty
    if isinstance(desired, dict):
        return not isinstance(observed, dict) or any(drifted(v, observed.get(k)) for k, v in desired.items())
    if isinstance(desired, list):
        if not isinstance(observed, list) or len(desired) != len(observed):
            return True
        return any(drifted(mine, theirs) for mine, theirs in zip(desired, observed, strict=True))
    return bool(desired != observed) and not _same_quantity(desired, observed)


def projection(desired: Any, observed: Any) -> Any:
    """The part of `observed` that `desired` speaks about: what the server made of our words."""
    if isinstance(desired, dict) and isinstance(observed, dict):
        return {key: projection(value, observed.get(key)) for key, value in desired.items()}
    if isinstance(desired, list) and isinstance(observed, list) and len(desired) == len(observed):
        return [projection(mine, theirs) for mine, theirs in zip(desired, observed, strict=True)]
    return observed


def _same_quantity(desired: Any, observed: Any) -> bool:
    try:
        return amount_of(desired) == amount_of(observed)
    except (TypeError, ValueError):
        return False
