"""The request of a learner to an actor: one slot of a round, or one evaluation."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nitro_actor import PROTOCOL_VERSION, keys, wire
from nitro_actor.protocol import fields, state
from nitro_actor.protocol.fields import MetadataError

KINDS = ("rollout", "evaluate")

OPTIONAL_TENSORS = ("log_probs", "distribution", "global_state")
"""Optional tensors of a rollout: they are sent only where the request names them."""

_MAX_TTL_SECONDS = 7 * 86400
_MAX_EPISODES = 1000
_MAX_STEPS = 10**7
_MAX_KEY_LENGTH = 512


@dataclass(frozen=True)
class Request:
    """One slot of a round, or one evaluation.

    Attributes:
        kind: "rollout" or "evaluate".
        weights_version, weights_key: which weights to use, and the Redis key where they lie.
        steps: T of a rollout, 0 for an evaluation.
        optional_tensors: those of OPTIONAL_TENSORS that the fragment must hold; none for an evaluation.
        episodes, max_steps: of an evaluation, 0 for a rollout.
        kwargs: of an evaluation's environment, where they differ from the actor's; empty for a rollout.
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
    result_key: str
    ttl: int
    steps: int = 0
    optional_tensors: frozenset[str] = frozenset()
    episodes: int = 0
    max_steps: int = 0
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    state: Mapping[str, np.ndarray] = field(default_factory=dict)

    def encode(self) -> bytes:
        """Write the message."""
        meta: dict[str, Any] = {
            "protocol": PROTOCOL_VERSION,
            "kind": self.kind,
            "run": self.run,
            "round": self.round,
            "slot": self.slot,
            "attempt": self.attempt,
            "seed": self.seed,
            "weights": {"version": self.weights_version, "key": self.weights_key},
            "result": {"key": self.result_key, "ttl": self.ttl},
        }
        if self.kind == "rollout":
            meta |= {"steps": self.steps, "optionalTensors": sorted(self.optional_tensors)}
        else:
            meta |= {"episodes": self.episodes, "maxSteps": self.max_steps}
            meta |= {"kwargs": dict(self.kwargs)} if self.kwargs else {}
        return wire.encode(meta, state.prefixed(self.state))

    @classmethod
    def decode(cls, data: bytes) -> "Request":
        """Read a message.

        Raises:
            ProtocolError: it is of another protocol version.
            WireError: anything else is wrong; the text names the field.
        """
        meta, tensors = wire.decode(data)
        fields.require_version(meta, "the request", "actor")
        kind = meta.get("kind")
        if kind not in KINDS:
            raise MetadataError(f"kind: {kind!r} is neither 'rollout' nor 'evaluate'")
        run = fields.matching(meta, "run", fields.RUN, "a run")
        weights, result = fields.mapping(meta, "weights"), fields.mapping(meta, "result")
        training = kind == "rollout"
        if not training and tensors:
            raise MetadataError("an evaluation takes no state")
        for name in tensors:
            if not name.startswith(state.PREFIX):
                raise MetadataError(f"tensor {name}: not expected here")
        return cls(
            kind=kind,
            run=run,
            round=fields.whole(meta, "round"),
            slot=fields.whole(meta, "slot"),
            attempt=fields.whole(meta, "attempt"),
            seed=fields.whole(meta, "seed", high=2**63 - 1),
            weights_version=fields.whole(weights, "version"),
            weights_key=_key(weights, "weights", run),
            result_key=_key(result, "result", run),
            ttl=fields.whole(result, "ttl", low=1, high=_MAX_TTL_SECONDS),
            steps=fields.whole(meta, "steps", low=1, high=_MAX_STEPS) if training else 0,
            optional_tensors=_optional_tensors(meta) if training else frozenset(),
            episodes=0 if training else fields.whole(meta, "episodes", low=1, high=_MAX_EPISODES),
            max_steps=0 if training else fields.whole(meta, "maxSteps", low=1, high=_MAX_STEPS),
            kwargs=fields.mapping(meta, "kwargs") if "kwargs" in meta and not training else {},
            state=state.bare(tensors),
        )


def _optional_tensors(meta: Mapping[str, Any]) -> frozenset[str]:
    """Read which optional tensors the learner wants."""
    names = meta.get("optionalTensors")
    if not isinstance(names, list):
        raise MetadataError(f"optionalTensors: {names!r} is no list; each entry is one of {OPTIONAL_TENSORS}")
    for index, name in enumerate(names):
        if name not in OPTIONAL_TENSORS:
            raise MetadataError(f"optionalTensors: {name!r} is none of {OPTIONAL_TENSORS}")
        if name in names[:index]:
            raise MetadataError(f"optionalTensors: {name!r} occurs twice")
    return frozenset(names)


def _key(part: Mapping[str, Any], name: str, run: str) -> str:
    """Read a Redis key, which must be the run's own."""
    value = part.get("key")
    if not isinstance(value, str) or not value.startswith(keys.prefix(run)) or len(value) > _MAX_KEY_LENGTH:
        raise MetadataError(f"{name}.key: {value!r} is no key of run {run!r}")
    return value
