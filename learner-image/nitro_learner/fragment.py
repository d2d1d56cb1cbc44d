"""From bytes that lay in Redis to a Fragment that the learner may train on.

Nothing of a message is believed: sizes are checked before anything is decompressed, then whose it is, then
every dtype, shape and value. What does not fit exactly is refused with a reason of a bounded set.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import zstandard
from numpy.typing import NDArray

from nitro_actor import wire
from nitro_actor.wire import TensorSpec, WireError
from nitro_learner.batch import Fragment
from nitro_learner.stacks import EARLIER, restack

SCHEMA = 1

Reason = Literal[
    "garbage",
    "truncated",
    "too_large",
    "other_run",
    "other_round",
    "wrong_slot",
    "stale",
    "stale_weights",
    "wrong_seed",
    "duplicate",
    "wrong_shape",
    "inconsistent",
    "not_finite",
]
"""Why a fragment was dropped (the metric's label)."""

STATE_PREFIX = "state/"
_OWN_PREFIX = STATE_PREFIX + "own/"
_STATE_BYTES = 2**20  # of one environment, generously: a MuJoCo snapshot takes a few kilobytes
_META_KEYS = frozenset(
    [
        "schema",
        "run",
        "round",
        "slot",
        "attempt",
        "weightsVersion",
        "seed",
        "kind",
        "steps",
        "envs",
        "resumed",
    ],
)


class FragmentRefused(Exception):  # noqa: N818
    """A message that is no fragment of this round, or not a whole and sound one.

    ``slot`` and ``attempt`` are known when the message is this round's, whatever else is wrong with it.
    """

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message
        self.slot: int | None = None
        self.attempt: int | None = None


@dataclass(frozen=True)
class SlotRequest:
    """What one slot was asked: its seed, and whether it resumes an end state."""

    seed: int
    resumed: bool = False
    episodes: int = 0


@dataclass(frozen=True)
class Expectation:
    """What the fragments of one list must be; ``slots`` may grow while they arrive.

    ``environment`` is the EnvironmentSpec; ``steps`` (T) and ``envs`` (E) are 0 for evaluations.
    """

    kind: Literal["rollout", "evaluate"]
    run: str
    round: int
    weights_version: int
    environment: Mapping[str, Any]
    steps: int = 0
    envs: int = 0
    slots: dict[int, SlotRequest] = field(default_factory=dict)

    @cached_property
    def tensors(self) -> dict[str, TensorSpec]:
        """What a rollout fragment's tensors must be, end state apart."""
        return tensor_specs(self.environment, self.steps, self.envs)

    @cached_property
    def byte_limit(self) -> int:
        """Largest message worth reading: the tensors, twice, and room for end states."""
        steps, specs = max(self.steps, 1), self.tensors.values()
        elements = sum(math.prod(steps if n is None else n for n in spec.shape) for spec in specs)
        return min(wire.MAX_BYTES, 16 * elements + (self.envs + 1) * _STATE_BYTES)


def read(data: bytes, expect: Expectation) -> Fragment:
    """Decodes and checks one message. Raises FragmentRefused."""
    meta, tensors = _decode(data, expect.byte_limit)
    slot, attempt = _check_identity(meta, expect)
    try:
        _check_meta(meta, expect, expect.slots[slot])
        if expect.kind == "rollout":
            _check_rollout(tensors, expect)
        else:
            _check_evaluation(tensors, expect.slots[slot])
    except FragmentRefused as refusal:
        refusal.slot, refusal.attempt = slot, attempt
        raise
    return Fragment(meta, restack(tensors))


def end_state(fragment: Fragment) -> dict[str, NDArray[Any]]:
    """The environment's end state, tensors named ``state/...``; empty where it cannot be resumed."""
    return {name: array for name, array in fragment.tensors.items() if name.startswith(STATE_PREFIX)}


def tensor_specs(environment: Mapping[str, Any], steps: int, envs: int) -> dict[str, TensorSpec]:
    """Dtypes and shapes of a rollout fragment's tensors, end state apart (None: any length)."""
    observation = tuple(environment["observation"]["frame"])
    stack = environment["observation"]["stack"]
    kind = environment["observation"]["dtype"]
    action = environment["action"]
    length = steps // envs if envs else 0
    if action["kind"] == "continuous":
        actions = TensorSpec("float32", (length, envs, action["size"]))
        parameters = 2 * action["size"]
    else:
        actions = TensorSpec("int64", (length, envs))
        parameters = action["n"]
    return {
        "observations": TensorSpec(kind, (length, envs, *observation)),
        "actions": actions,
        "log_probs": TensorSpec("float32", (length, envs)),
        "distribution": TensorSpec("float32", (length, envs, parameters)),
        "rewards": TensorSpec("float32", (length, envs)),
        "terminated": TensorSpec("bool", (length, envs)),
        "truncated": TensorSpec("bool", (length, envs)),
        "last_observations": TensorSpec(kind, (envs, *observation)),
        "final_observations": TensorSpec(kind, (None, *observation)),
        "episode_returns": TensorSpec("float64", (None,)),
        "episode_lengths": TensorSpec("int64", (None,)),
    } | ({EARLIER: TensorSpec(kind, (envs, stack - 1, *observation))} if stack > 1 else {})


def _decode(data: bytes, limit: int) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    compressed = data[:4] == zstandard.FRAME_HEADER
    try:
        size = zstandard.get_frame_parameters(data).content_size if compressed else len(data)
    except zstandard.ZstdError:
        size = 0  # decode says what is wrong
    if max(size, len(data)) > limit and size != zstandard.CONTENTSIZE_UNKNOWN:
        raise FragmentRefused("too_large", f"{max(size, len(data))} bytes where at most {limit} make sense")
    try:
        return wire.decode(data, limit=limit)
    except WireError as error:
        # What began like one of our messages was one once: its end is missing or damaged.
        began_well = compressed or data[8:9] == b"{"
        raise FragmentRefused("truncated" if began_well else "garbage", str(error)) from error


def _check_identity(meta: Mapping[str, Any], expect: Expectation) -> tuple[int, int]:
    """Whether it is of this run, round and kind, and of a slot that was asked for: its slot and attempt."""
    if set(meta) != _META_KEYS or meta["schema"] != SCHEMA:
        raise FragmentRefused(
            "garbage", f"metadata is not a fragment's of schema {SCHEMA}: {str(meta)[:200]}"
        )
    for name in ("round", "slot", "attempt", "weightsVersion", "seed", "steps", "envs"):
        if type(meta[name]) is not int or meta[name] < 0:
            raise FragmentRefused("garbage", f"metadata {name} is {meta[name]!r}, not a whole number >= 0")
    if meta["run"] != expect.run:
        raise FragmentRefused("other_run", f"run {meta['run']!r} instead of {expect.run!r}")
    if (meta["kind"], meta["round"]) != (expect.kind, expect.round):
        raise FragmentRefused(
            "other_round", f"{meta['kind']} {meta['round']} instead of {expect.kind} {expect.round}"
        )
    if meta["slot"] not in expect.slots:
        raise FragmentRefused("wrong_slot", f"slot {meta['slot']} was not asked for")
    return meta["slot"], meta["attempt"]


def _check_meta(meta: Mapping[str, Any], expect: Expectation, request: SlotRequest) -> None:
    if meta["weightsVersion"] != expect.weights_version:
        raise FragmentRefused(
            "stale_weights", f"weights {meta['weightsVersion']} instead of {expect.weights_version}"
        )
    if meta["seed"] != request.seed:
        raise FragmentRefused("wrong_seed", f"seed {meta['seed']} instead of {request.seed}")
    if expect.kind == "rollout":
        if (meta["steps"], meta["envs"]) != (expect.steps, expect.envs):
            raise FragmentRefused(
                "wrong_shape",
                f"{meta['steps']} steps of {meta['envs']} environments "
                f"instead of {expect.steps} of {expect.envs}",
            )
        if meta["resumed"] is not request.resumed:
            raise FragmentRefused(
                "inconsistent", f"resumed is {meta['resumed']!r}, asked for was {request.resumed}"
            )


def _check_rollout(tensors: Mapping[str, NDArray[Any]], expect: Expectation) -> None:
    plain = {name: array for name, array in tensors.items() if not name.startswith(STATE_PREFIX)}
    _check_tensors(plain, expect.tensors)
    state = {name: array for name, array in tensors.items() if name.startswith(STATE_PREFIX)}
    if bool(state) != bool(expect.environment["resumable"]):
        raise FragmentRefused(
            "inconsistent", f"{len(state)} end state tensors of an environment that says otherwise"
        )
    for name, array in state.items():
        # What a user's own environment keeps, only it reads again: "none so far" may be infinite.
        if not name.startswith(_OWN_PREFIX) and array.dtype.kind == "f" and not np.isfinite(array).all():
            raise FragmentRefused("not_finite", f"tensor {name}: holds NaN or infinity")
    action = expect.environment["action"]
    if action["kind"] == "discrete":
        actions = tensors["actions"]
        if actions.size and not 0 <= actions.min() <= actions.max() < action["n"]:
            raise FragmentRefused("inconsistent", f"an action outside 0..{action['n'] - 1}")
    ended = tensors["terminated"] | tensors["truncated"]
    cut = tensors["truncated"] & ~tensors["terminated"]
    _check_counts(tensors, episodes=int(ended.sum()))
    if len(tensors["final_observations"]) != int(cut.sum()):
        raise FragmentRefused(
            "inconsistent",
            f"{len(tensors['final_observations'])} final observations for {int(cut.sum())} truncated steps",
        )


def _check_evaluation(tensors: Mapping[str, NDArray[Any]], request: SlotRequest) -> None:
    spec = TensorSpec("float64", (request.episodes,)), TensorSpec("int64", (request.episodes,))
    _check_tensors(tensors, dict(zip(("episode_returns", "episode_lengths"), spec, strict=True)))
    _check_counts(tensors, episodes=request.episodes)


def _check_tensors(tensors: Mapping[str, NDArray[Any]], specs: Mapping[str, TensorSpec]) -> None:
    try:
        wire.check(tensors, specs)
    except WireError as error:
        floats = (array for array in tensors.values() if array.dtype.kind == "f")
        finite = all(np.isfinite(array).all() for array in floats)
        raise FragmentRefused("wrong_shape" if finite else "not_finite", str(error)) from error


def _check_counts(tensors: Mapping[str, NDArray[Any]], episodes: int) -> None:
    returns, lengths = tensors["episode_returns"], tensors["episode_lengths"]
    if not len(returns) == len(lengths) == episodes:
        raise FragmentRefused(
            "inconsistent", f"{len(returns)} returns, {len(lengths)} lengths of {episodes} finished episodes"
        )
    if len(lengths) and lengths.min() < 1:
        raise FragmentRefused("inconsistent", "an episode of no step")
