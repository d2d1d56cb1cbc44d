"""Decoding of messages from Redis into checked fragments that the learner may train on.

A message is not trusted: its size is checked before it is decompressed, then its run, round and slot, then
every dtype, shape and value. A message that does not fit exactly is refused, with a reason of a bounded set.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
import zstandard
from numpy.typing import NDArray

from nitro_actor import masks, wire
from nitro_actor.actions import WholeNumbers, action_space
from nitro_actor.protocol import state
from nitro_actor.protocol.agents import AgentClass
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.protocol.fields import MetadataError
from nitro_actor.protocol.fragment import (
    INFO_METRICS,
    FragmentContainer,
    byte_limit,
    evaluation_specs,
    tensor_specs,
)
from nitro_actor.wire import TensorSpec, WireError
from nitro_learner.backends.tasks.task import ResultRefused
from nitro_learner.data.batch import Fragment
from nitro_learner.data.stacks import restack
from nitro_learner.sampling.drop_reasons import Reason


class FragmentRefused(ResultRefused):
    """A message is no fragment of this round, or is damaged."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(reason, f"{reason}: {message}")


@dataclass(frozen=True)
class SlotRequest:
    """The request of one slot: its seed, and whether it resumes an end state."""

    seed: int
    resumed: bool = False
    episodes: int = 0


@dataclass(frozen=True)
class Expectation:
    """What the fragments of one list must match; ``slots`` may grow while they arrive.

    ``environment`` is that of the actors; ``steps`` (T) and ``envs`` (E) are 0 for evaluations, which have
    no ``optional_tensors`` either. ``memory`` (H) is the numbers that the policies remember. ``kwargs`` are
    an evaluation's own.
    """

    kind: Literal["rollout", "evaluate"]
    run: str
    round: int
    weights_version: int
    environment: DescribedEnvironment
    steps: int = 0
    envs: int = 0
    optional_tensors: frozenset[str] = frozenset()
    memory: int = 0
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    slots: dict[int, SlotRequest] = field(default_factory=dict)

    @cached_property
    def tensors(self) -> dict[str, TensorSpec]:
        """Dtypes and shapes of the tensors of a rollout's message, without the end state."""
        return tensor_specs(self.environment, self.steps, self.envs, self.optional_tensors, self.memory)

    @cached_property
    def byte_limit(self) -> int:
        """Largest message worth reading."""
        steps, specs = max(self.steps, 1), self.tensors.values()
        elements = sum(math.prod(steps if n is None else n for n in spec.shape) for spec in specs)
        return byte_limit(elements, self.envs)


def read(data: bytes, expect: Expectation) -> Fragment:
    """Decode and check one message. Raises FragmentRefused."""
    sent = _decode(data, expect.byte_limit)
    _check_identity(sent, expect)
    try:
        _check_request(sent, expect, expect.slots[sent.slot])
        if expect.kind == "rollout":
            _check_rollout(sent.tensors, expect)
        else:
            _check_evaluation(sent.tensors, expect, expect.slots[sent.slot])
    except FragmentRefused as refusal:
        refusal.task, refusal.attempt = sent.slot, sent.attempt
        raise
    tensors = dict(sent.tensors)
    # By name: the actors of a function that somebody else has made may tell other entries than the job's.
    info = dict(zip(expect.environment.info_metrics, tensors.pop(INFO_METRICS, ()), strict=False))
    once, by_class = _parted(tensors, expect.environment.classes)
    return Fragment(sent.meta, once, by_class, info)


def end_state(fragment: Fragment) -> dict[str, NDArray[Any]]:
    """The environment's end state, tensors named ``state/...``; empty where it cannot be resumed."""
    return {name: array for name, array in fragment.tensors.items() if name.startswith(state.PREFIX)}


def _parted(
    tensors: Mapping[str, NDArray[Any]], classes: tuple[AgentClass, ...]
) -> tuple[dict[str, NDArray[Any]], dict[str, dict[str, NDArray[Any]]]]:
    """The arrays that an environment has once, and those of each class by field; no classes in an
    evaluation."""
    once, by_class = {}, {agent_class.name: dict[str, NDArray[Any]]() for agent_class in classes}
    for name, array in tensors.items():
        group, _, field_name = name.partition("/")
        if group in by_class:
            by_class[group][field_name] = array
        else:
            once[name] = array
    if "terminated" not in once:
        return once, {}
    ends = once["terminated"], once["truncated"]
    return once, {name: restack(fields, *ends) for name, fields in by_class.items()}


def _decode(data: bytes, limit: int) -> FragmentContainer:
    compressed = data[:4] == zstandard.FRAME_HEADER
    try:
        size = zstandard.get_frame_parameters(data).content_size if compressed else len(data)
    except zstandard.ZstdError:
        size = 0  # decode says what is wrong
    if max(size, len(data)) > limit and size != zstandard.CONTENTSIZE_UNKNOWN:
        raise FragmentRefused("too_large", f"{max(size, len(data))} bytes where at most {limit} make sense")
    try:
        return FragmentContainer.decode(data, limit=limit)
    except MetadataError as error:
        raise FragmentRefused("garbage", str(error)) from error
    except WireError as error:
        # It begins like one of our messages, so its end is missing or damaged.
        began_well = compressed or data[8:9] == b"{"
        raise FragmentRefused("truncated" if began_well else "garbage", str(error)) from error


def _check_identity(sent: FragmentContainer, expect: Expectation) -> None:
    """Whether it is of this run, round and kind, and of a slot that was asked for."""
    if sent.run != expect.run:
        raise FragmentRefused("other_run", f"run {sent.run!r} instead of {expect.run!r}")
    if (sent.kind, sent.round) != (expect.kind, expect.round):
        raise FragmentRefused(
            "other_round", f"{sent.kind} {sent.round} instead of {expect.kind} {expect.round}"
        )
    if sent.slot not in expect.slots:
        raise FragmentRefused("wrong_slot", f"slot {sent.slot} was not asked for")


def _check_request(sent: FragmentContainer, expect: Expectation, request: SlotRequest) -> None:
    """Whether it is what the slot was asked for."""
    if sent.weights_version != expect.weights_version:
        raise FragmentRefused(
            "stale_weights", f"weights {sent.weights_version} instead of {expect.weights_version}"
        )
    if sent.seed != request.seed:
        raise FragmentRefused("wrong_seed", f"seed {sent.seed} instead of {request.seed}")
    if expect.kind == "rollout":
        if (sent.steps, sent.envs) != (expect.steps, expect.envs):
            raise FragmentRefused(
                "wrong_shape",
                f"{sent.steps} steps of {sent.envs} environments instead of {expect.steps} of {expect.envs}",
            )
        if sent.resumed is not request.resumed:
            raise FragmentRefused(
                "inconsistent", f"resumed is {sent.resumed!r}, asked for was {request.resumed}"
            )


def _check_rollout(tensors: Mapping[str, NDArray[Any]], expect: Expectation) -> None:
    plain = {name: array for name, array in tensors.items() if not name.startswith(state.PREFIX)}
    _check_tensors(plain, expect.tensors)
    ends = {name: array for name, array in tensors.items() if name.startswith(state.PREFIX)}
    if bool(ends) != expect.environment.resumable:
        raise FragmentRefused(
            "inconsistent", f"{len(ends)} end state tensors of an environment that says otherwise"
        )
    for name, array in ends.items():
        # Only the user's own environment reads what it kept; there infinity may mean "none so far".
        if not name.startswith(state.OWN_PREFIX) and array.dtype.kind == "f" and not np.isfinite(array).all():
            raise FragmentRefused("not_finite", f"tensor {name}: holds NaN or infinity")
    ended = tensors["terminated"] | tensors["truncated"]
    _check_counts(tensors, episodes=int(ended.sum()))
    if wrong := _contradiction(tensors, expect.environment.classes):
        raise FragmentRefused("inconsistent", wrong)


def _check_evaluation(tensors: Mapping[str, NDArray[Any]], expect: Expectation, request: SlotRequest) -> None:
    _check_tensors(tensors, evaluation_specs(expect.environment, request.episodes))
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


def _contradiction(tensors: Mapping[str, NDArray[Any]], classes: Sequence[AgentClass]) -> str | None:
    """What is wrong with a rollout's tensors, whose dtypes and shapes are right; None where nothing is."""
    contradictions = (text for agent_class in classes for text in _of_class(tensors, agent_class))
    return next(contradictions, None) or next(_rows(tensors, ("final_global_state",)), None)


def _of_class(tensors: Mapping[str, NDArray[Any]], agent_class: AgentClass) -> Iterator[str]:
    space, name = action_space(agent_class.action), agent_class.name
    if isinstance(space, WholeNumbers):
        actions = tensors[f"{name}/actions"]
        if not ((actions >= 0) & (actions < space.counts)).all():
            yield f"{name}/actions: an action outside 0..{(space.counts - 1).tolist()}"
            return
        masked = agent_class.action.get("masked")
        if masked and not masks.allow(tensors[f"{name}/available"], space, actions):
            yield f"{name}/actions: an action that {name}/available does not allow"
    yield from _rows(tensors, (f"{name}/final_observations", f"{name}/final_available"))
    if agent_class.mortal:
        yield from _lives(tensors, name)


def _rows(tensors: Mapping[str, NDArray[Any]], names: Sequence[str]) -> Iterator[str]:
    """Whether a row stands for each truncated step."""
    cut = int((tensors["truncated"] & ~tensors["terminated"]).sum())
    for name in names:
        if name in tensors and len(tensors[name]) != cut:
            yield f"{name}: {len(tensors[name])} rows for {cut} truncated steps"


def _lives(tensors: Mapping[str, NDArray[Any]], name: str) -> Iterator[str]:
    """Whether agents are born, act and die in a possible order."""
    alive, died = tensors[f"{name}/alive"], tensors[f"{name}/died"]
    terminated = tensors["terminated"][..., None]
    goes_on = alive & ~died & ~(terminated | tensors["truncated"][..., None])
    if (died & ~alive).any():
        yield f"{name}/died: an agent that was not alive"
    if (alive & ~died & terminated).any():
        yield f"{name}/died: the episode terminated, but an agent goes on"
    if (goes_on[:-1] & ~alive[1:]).any():
        yield f"{name}/alive: an agent left without {name}/died"
    if not alive.all():
        for field in ("rewards", "observations"):
            if tensors[f"{name}/{field}"][~alive].any():
                yield f"{name}/{field}: not 0 for an agent that is not alive"
