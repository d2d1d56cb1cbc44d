"""What a learner may ask of an actor: the request's metadata, read strictly."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nitro_actor import PROTOCOL_VERSION, keys, wire

_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_MAX_TTL_SECONDS = 7 * 86400
_MAX_EPISODES = 1000
_MAX_STEPS = 10**7
_STATE = "state/"


class ProtocolError(Exception):
    """The learner speaks another version. The text names both."""


@dataclass(frozen=True)
class Request:
    """One slot of a round, or one evaluation.

    Attributes:
        kind: "rollout" or "evaluate".
        steps: T of a rollout, 0 for an evaluation.
        episodes, max_steps: of an evaluation, 0 for a rollout.
        state: end state of this slot's last fragment, without its prefix; empty for a fresh start.
        result_key, ttl: the Redis list that the fragment is appended to, and the seconds it lives.
    """

    kind: str
    run: str
    round: int
    slot: int
    attempt: int
    seed: int
    weights_version: int
    weights_key: str
    steps: int
    episodes: int
    max_steps: int
    result_key: str
    ttl: int
    state: Mapping[str, np.ndarray]


def parse(body: bytes) -> Request:
    """Read a request.

    Raises:
        ProtocolError: it is of another protocol version.
        WireError: anything else is wrong; the text names the field.
    """
    meta, tensors = wire.decode(body)
    if meta.get("protocol") != PROTOCOL_VERSION:
        raise ProtocolError(
            f"the request is of protocol {meta.get('protocol')!r}, this actor speaks {PROTOCOL_VERSION}; "
            "use learner and actor images of one release"
        )
    kind = meta.get("kind")
    if kind not in ("rollout", "evaluate"):
        raise wire.WireError(f"kind: {kind!r} is neither 'rollout' nor 'evaluate'")
    run = meta.get("run")
    if not isinstance(run, str) or not _RUN.fullmatch(run):
        raise wire.WireError(f"run: {run!r} is no name of a run")
    weights, result = _object(meta, "weights"), _object(meta, "result")
    training = kind == "rollout"
    if not training and tensors:
        raise wire.WireError("an evaluation takes no state")
    for name in tensors:
        if not name.startswith(_STATE):
            raise wire.WireError(f"tensor {name}: not expected here")
    return Request(
        kind=kind,
        run=run,
        round=_whole(meta, "round"),
        slot=_whole(meta, "slot"),
        attempt=_whole(meta, "attempt"),
        seed=_whole(meta, "seed", high=2**63 - 1),
        weights_version=_whole(weights, "version"),
        weights_key=_key(weights, "weights", run),
        steps=_whole(meta, "steps", low=1, high=_MAX_STEPS) if training else 0,
        episodes=0 if training else _whole(meta, "episodes", low=1, high=_MAX_EPISODES),
        max_steps=0 if training else _whole(meta, "maxSteps", low=1, high=_MAX_STEPS),
        result_key=_key(result, "result", run),
        ttl=_whole(result, "ttl", low=1, high=_MAX_TTL_SECONDS),
        state={name.removeprefix(_STATE): array for name, array in tensors.items()},
    )


def _object(meta: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = meta.get(name)
    if not isinstance(value, dict):
        raise wire.WireError(f"{name}: must be an object")
    return value


def _whole(meta: Mapping[str, Any], name: str, *, low: int = 0, high: int = 2**53) -> int:
    value = meta.get(name)
    if type(value) is not int or not low <= value <= high:
        raise wire.WireError(f"{name}: {value!r} is no whole number from {low} to {high}")
    return value


def _key(part: Mapping[str, Any], name: str, run: str) -> str:
    """A Redis key, which must be the run's own."""
    value = part.get("key")
    if not isinstance(value, str) or not value.startswith(keys.prefix(run)) or len(value) > 512:
        raise wire.WireError(f"{name}.key: {value!r} is no key of run {run!r}")
    return value
