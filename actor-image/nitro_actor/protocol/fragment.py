"""The fragment: what an actor sampled for one request, its names, dtypes and shapes.

Per-agent arrays are grouped by agent class and named `{class}/{field}`. The axis after the environments' is
the class's: one entry for each of its n_c agents. An array that an environment has once is named without a
class. A rollout of L steps of E environments:

    {class}/observations            [L, E, n_c, *frame]        f32 or u8
    {class}/actions                 [L, E, n_c, *action]       f32 or i64
    {class}/log_probs               [L, E, n_c]                f32, if the request asks for it
    {class}/distribution            [L, E, n_c, P]             f32, likewise
    {class}/rewards                 [L, E, n_c]                f32
    {class}/last_observations       [E, n_c, *frame]           after the last step
    {class}/final_observations      [n, n_c, *frame]           of truncated episodes, see below
    {class}/earlier_observations    [E, n_c, k - 1, *frame]    where the policy sees stacks of k frames
    {class}/memory                  [E, n_c, H]                f32, before the first step; see below
    {class}/alive                   [L, E, n_c]                bool, who acted; where there are classes
    {class}/died                    [L, E, n_c]                bool, who ended by itself in the step; likewise
    {class}/available               [L, E, n_c, C]             bool, where the action space is masked
    {class}/last_available          [E, n_c, C]                bool, likewise
    {class}/final_available         [n, n_c, C]                bool, likewise
    terminated, truncated           [L, E]                     bool
    global_state                    [L, E, S]                  f32, if asked for, and if there is one
    last_global_state               [E, S]                     f32, likewise
    final_global_state              [n, S]                     f32, likewise
    episode_returns                 [m, agents]                f64, agents by class, then in the class's order
    episode_lengths                 [m]                        i64
    info_metrics                    [M, 2]                     f64, sum and count, where the job names any
    state/*                         end state, where the environment can be resumed

An episode that ends begins anew in the same step, so the observation after a truncated step is in
final_observations: one row for each truncated step that did not terminate, by step, then environment. The
observations are not one array of L + 1 steps. So the first L of them lie in memory as the rows that the
network needs, and neither side copies them.

An episode of several agents is terminated in a step after which no agent goes on, and truncated where it was
cut before. An agent that died does not act until it is alive again, in the same episode or in the next. Where
an agent is not alive its rewards and observations are 0, all of its actions are available, and the action
that it took is ignored.

`nitro_actor.actions` says how an action and the P parameters of its distribution lie in these arrays, and
`nitro_actor.masks` how its C choices do.

A policy with a recurrent layer remembers H numbers of an episode. They are 0 as an episode begins, and where
an agent was not alive in the step before. The end state has the memory after the last step, as state/memory
of one agent, or state/memory/{class} of several.

info_metrics has a row for each of the M entries of infoMetrics in the EnvironmentSpec: the sum of the numbers
that steps of the rollout gave for it in their info, and how many there were.

An evaluation has episode_returns and episode_lengths alone.

An environment of one agent is one class of one agent, both named `agent`.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nitro_actor import PROTOCOL_VERSION, wire
from nitro_actor.actions import action_space
from nitro_actor.masks import choices
from nitro_actor.protocol import fields
from nitro_actor.protocol.agents import AGENT, AgentClass
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.protocol.fields import MetadataError
from nitro_actor.protocol.request import KINDS
from nitro_actor.wire import TensorSpec

EARLIER = "earlier_observations"
INFO_METRICS = "info_metrics"

AGENT_AXIS = {
    "observations": 2,
    "actions": 2,
    "log_probs": 2,
    "distribution": 2,
    "rewards": 2,
    "alive": 2,
    "died": 2,
    "available": 2,
    "last_observations": 1,
    "last_available": 1,
    "memory": 1,
    "final_observations": 1,
    "final_available": 1,
    EARLIER: 1,
}
"""The number of the class axis in each per-agent field."""

STATE_BYTES = 2**20
"""Room for the end state of one environment, generously: a MuJoCo snapshot takes a few kilobytes."""

_PREFIX = f"{AGENT}/"


@dataclass(frozen=True)
class FragmentContainer:
    """One fragment.

    Attributes:
        kind: "rollout" or "evaluate".
        steps: T for a rollout; for an evaluation, the steps that its episodes took.
        envs: E.
        resumed: whether the environments went on from an end state.
        tensors: by their names in the message.
    """

    kind: str
    run: str
    round: int
    slot: int
    attempt: int
    weights_version: int
    seed: int
    steps: int
    envs: int
    resumed: bool
    tensors: Mapping[str, np.ndarray]

    @property
    def meta(self) -> dict[str, Any]:
        """The message's metadata."""
        return {
            "protocol": PROTOCOL_VERSION,
            "kind": self.kind,
            "run": self.run,
            "round": self.round,
            "slot": self.slot,
            "attempt": self.attempt,
            "weightsVersion": self.weights_version,
            "seed": self.seed,
            "steps": self.steps,
            "envs": self.envs,
            "resumed": self.resumed,
        }

    def encode(self) -> bytes:
        """Write the message."""
        return wire.encode(self.meta, self.tensors)

    @classmethod
    def decode(cls, data: bytes, *, limit: int = wire.MAX_BYTES) -> "FragmentContainer":
        """Read a message. This does not check the tensors; `tensor_specs` says what a rollout's tensors are.

        Raises:
            ProtocolError: it is of another protocol version.
            MetadataError: its metadata is wrong; the text names the field.
            WireError: the bytes are no whole, consistent message of at most `limit` bytes.
        """
        meta, tensors = wire.decode(data, limit=limit)
        fields.require_version(meta, "the fragment", "learner")
        if meta.get("kind") not in KINDS:
            raise MetadataError(f"kind: {meta.get('kind')!r} is neither 'rollout' nor 'evaluate'")
        container = cls(
            kind=meta["kind"],
            run=fields.matching(meta, "run", fields.RUN, "a run"),
            round=fields.whole(meta, "round"),
            slot=fields.whole(meta, "slot"),
            attempt=fields.whole(meta, "attempt"),
            weights_version=fields.whole(meta, "weightsVersion"),
            seed=fields.whole(meta, "seed", high=2**63 - 1),
            steps=fields.whole(meta, "steps"),
            envs=fields.whole(meta, "envs"),
            resumed=fields.truth(meta, "resumed"),
            tensors=tensors,
        )
        if unknown := meta.keys() - container.meta.keys():
            raise MetadataError(f"unknown fields {sorted(unknown)}")
        return container


def tensor_specs(
    environment: DescribedEnvironment,
    steps: int,
    envs: int,
    optional_tensors: Collection[str],
    memory: int = 0,
) -> dict[str, TensorSpec]:
    """Dtypes and shapes of a rollout's tensors, end state apart (None: any length).

    Args:
        steps: T, a multiple of E.
        envs: E.
        memory: H, numbers that the policies remember.
    """
    length = steps // envs if envs else 0
    specs = {
        "terminated": TensorSpec("bool", (length, envs)),
        "truncated": TensorSpec("bool", (length, envs)),
        "episode_returns": TensorSpec("float64", (None, len(environment.agents))),
        "episode_lengths": TensorSpec("int64", (None,)),
    }
    if environment.info_metrics:
        specs[INFO_METRICS] = TensorSpec("float64", (len(environment.info_metrics), 2))
    size = environment.state_size if "global_state" in optional_tensors else None
    if size is not None:
        specs |= {
            "global_state": TensorSpec("float32", (length, envs, size)),
            "last_global_state": TensorSpec("float32", (envs, size)),
            "final_global_state": TensorSpec("float32", (None, size)),
        }
    for one in environment.classes:
        fields_of_class = _class_specs(one, length, envs, optional_tensors)
        specs |= {f"{one.name}/{field}": spec for field, spec in fields_of_class}
        if memory:
            specs[f"{one.name}/memory"] = TensorSpec("float32", (envs, len(one.agents), memory))
    return specs


def step_bytes(classes: Sequence[AgentClass], state: int | None) -> int:
    """The largest number of bytes that a step of one environment adds to a fragment.

    Args:
        state: numbers of the global state.
    """
    several = classes[0].mortal
    total = (8 * (state or 0) + 8 * sum(len(one.agents) for one in classes) + 64) if several else 0
    for one in classes:
        row = math.prod(one.observation["frame"]) * np.dtype(one.observation["dtype"]).itemsize
        action = action_space(one.action)
        # A step adds at most an observation, a final observation, the action and its distribution, and some
        # numbers; and which actions there were, twice.
        masks = 2 * choices(action) if several or one.action.get("masked") else 0
        total += len(one.agents) * (2 * row + action.bytes + masks + 64)
    return total


def byte_limit(elements: int, envs: int) -> int:
    """The largest message that the learner reads: the tensors, twice, and room for end states and header.

    Args:
        elements: numbers in all tensors but those of the end state.
        envs: E.
    """
    return min(wire.MAX_BYTES, 16 * elements + (envs + 1) * STATE_BYTES)


def evaluation_specs(environment: DescribedEnvironment, episodes: int) -> dict[str, TensorSpec]:
    """Dtypes and shapes of an evaluation's tensors."""
    return {
        "episode_returns": TensorSpec("float64", (episodes, len(environment.agents))),
        "episode_lengths": TensorSpec("int64", (episodes,)),
    }


def _class_specs(
    one: AgentClass, length: int, envs: int, optional_tensors: Collection[str]
) -> Iterator[tuple[str, TensorSpec]]:
    frame, stack = tuple(one.observation["frame"]), one.observation["stack"]
    dtype, action, count = one.observation["dtype"], action_space(one.action), len(one.agents)
    steps = (length, envs, count)
    yield "observations", TensorSpec(dtype, (*steps, *frame))
    yield "last_observations", TensorSpec(dtype, (envs, count, *frame))
    yield "final_observations", TensorSpec(dtype, (None, count, *frame))
    if stack > 1:
        yield EARLIER, TensorSpec(dtype, (envs, count, stack - 1, *frame))
    yield "actions", TensorSpec(np.dtype(action.dtype).name, (*steps, *action.shape))
    parameters = action.parameters
    if "distribution" in optional_tensors:
        yield "distribution", TensorSpec("float32", (*steps, parameters))
    if "log_probs" in optional_tensors:
        yield "log_probs", TensorSpec("float32", steps)
    yield "rewards", TensorSpec("float32", steps)
    if one.mortal:
        yield "alive", TensorSpec("bool", steps)
        yield "died", TensorSpec("bool", steps)
    if one.action.get("masked"):
        each = choices(action)
        yield "available", TensorSpec("bool", (*steps, each))
        yield "last_available", TensorSpec("bool", (envs, count, each))
        yield "final_available", TensorSpec("bool", (None, count, each))
