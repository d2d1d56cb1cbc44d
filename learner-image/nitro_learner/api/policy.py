"""The policy of a run, to be played anywhere: NumPy only, with the numbers that an actor computes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nitro_actor.protocol.agents import AgentClass, agent_classes
from nitro_actor.protocol.weights import PolicyWeights, WeightsContainer
from nitro_actor.stacking import join
from nitro_learner.api.players import Action, AgentPlayer, TeamPlayer


class TrainedPolicy:
    """What actors play after a round: one policy, or the policies of all agents.

    Normalisation, agent ids and masks are inside. Where the policy sees the last k frames, `act` wants them
    together, as `PlayedEpisode` puts them; `episode()` takes one frame at a time.

        policy = nitro.load("runs/hopper-20260101-120000")
        action = policy.act(observation)            # of shape [*shape]
        actions = policy.act(observations)          # a batch, of shape [B, *shape]
        actions = policy.act({agent: observation})  # of several agents: {agent: action}

    Attributes:
        round: after which it was saved.
        agents: who plays, in the order of the environment.
        environment: the spaces of the environment, as the actors tell them.
        weights: the policies' networks and tensors, and which agent plays which of them.
    """

    def __init__(self, played: Mapping[str, Any], round: int, seed: int | None = None) -> None:
        """See `nitro_learner.load`; `played` is a part of a checkpoint."""
        self.round = round
        self.environment: Mapping[str, Any] = played["environment"]
        self.spaces = {agent: one for one in agent_classes(self.environment) for agent in one.agents}
        self.agents = tuple(self.spaces)
        policies = {
            name: PolicyWeights.of(one["meta"], one["tensors"]) for name, one in played["policies"].items()
        }
        self.weights = WeightsContainer("", played["version"], policies, played["agents"])
        several = "classes" in self.environment
        self._players = (
            TeamPlayer(self.environment, self.weights)
            if several
            else AgentPlayer(self.environment, self.weights)
        )
        self._generator = np.random.default_rng(seed)

    @overload
    def act(
        self,
        observation: Mapping[str, ArrayLike],
        *,
        deterministic: bool = ...,
        available: Mapping[str, ArrayLike] | None = ...,
    ) -> dict[str, Action]: ...

    @overload
    def act(self, observation: ArrayLike, *, deterministic: bool = ...) -> Action: ...

    def act(
        self,
        observation: ArrayLike | Mapping[str, ArrayLike],
        *,
        deterministic: bool = True,
        available: Mapping[str, ArrayLike] | None = None,
    ) -> Action | dict[str, Action]:
        """Choose the action for an observation, or the actions for a batch.

        Args:
            observation: raw, of the environment's shape, or with a batch axis before it. Of several agents a
                mapping with the observations of those that act now.
            deterministic: take the most probable or most valuable action. Otherwise draw one, as the policy
                does in training.
            available: of several agents: which actions each may take, bool [N] or [B, N]; all by default.

        Returns:
            The action, or with a batch axis the actions; of several agents a mapping.

        Raises:
            ValueError: names the agent, the shape that came and the shape that is allowed.
        """
        generator = None if deterministic else self._generator
        if isinstance(self._players, AgentPlayer):
            if isinstance(observation, Mapping) or available is not None:
                raise ValueError(
                    "the policy is of one agent: give one observation (an array; of a Dict or Tuple space "
                    "what gymnasium.spaces.flatten makes of it), and no available actions"
                )
            (one,) = self.spaces.values()
            rows, single = _batch(observation, one, "shape")
            actions = self._players.act(rows, generator)
            return actions[0] if single else actions
        if not isinstance(observation, Mapping):
            raise ValueError(
                f"the agents are {list(self.agents)}: give a mapping from agents to observations"
            )
        seen = {agent: _batch(rows, self.of(agent), "shape") for agent, rows in observation.items()}
        count, single = _alike(seen)
        masks = {agent: self._mask(agent, mask, count) for agent, mask in (available or {}).items()}
        chosen = self._players.act(
            {agent: rows for agent, (rows, _) in seen.items()}, masks, count, generator
        )
        return {agent: actions[0] if single else actions for agent, actions in chosen.items()}

    def episode(self) -> PlayedEpisode:
        """Begin an episode that is told frame by frame."""
        return PlayedEpisode(self)

    def of(self, agent: str) -> AgentClass:
        """The spaces of an agent. Raises ValueError for an unknown one."""
        if agent not in self.spaces:
            raise ValueError(f"there is no agent {agent!r}; the agents are {list(self.agents)}")
        return self.spaces[agent]

    def _mask(self, agent: str, mask: ArrayLike, count: int) -> NDArray[np.bool_]:
        action = self.of(agent).action
        if action["kind"] != "discrete":
            raise ValueError(
                f"available: the actions of {agent} are not Discrete, so there is no choice of some"
            )
        rows = np.asarray(mask, bool)
        shape = (count, action["n"])
        if rows.shape not in (shape, shape[1:]):
            raise ValueError(f"available: {agent} needs the shape {list(shape)}, not {list(rows.shape)}")
        return np.broadcast_to(rows, shape)


class PlayedEpisode:
    """An episode, or a batch of them in step, told frame by frame: it keeps the last frames for the policy.

        episode = policy.episode()
        frame, _ = environment.reset()
        while not over:
            frame, reward, ended, cut, _ = environment.step(episode.act(frame))

    An episode's first frame takes the places of the missing earlier ones, as in training.
    """

    def __init__(self, policy: TrainedPolicy) -> None:
        self._policy = policy
        self._stacks: dict[str, NDArray[Any]] = {}

    @overload
    def act(
        self,
        frame: Mapping[str, ArrayLike],
        *,
        begins: ArrayLike = ...,
        deterministic: bool = ...,
        available: Mapping[str, ArrayLike] | None = ...,
    ) -> dict[str, Action]: ...

    @overload
    def act(self, frame: ArrayLike, *, begins: ArrayLike = ..., deterministic: bool = ...) -> Action: ...

    def act(
        self,
        frame: ArrayLike | Mapping[str, ArrayLike],
        *,
        begins: ArrayLike = False,
        deterministic: bool = True,
        available: Mapping[str, ArrayLike] | None = None,
    ) -> Action | dict[str, Action]:
        """Choose the action for the newest frame, or the actions for a batch of them.

        Args:
            frame: what the environment shows now; as `observation` of `TrainedPolicy.act`.
            begins: whether a new episode begins with this frame; of a batch, bool [B].
            deterministic: see `TrainedPolicy.act`.
            available: see `TrainedPolicy.act`.

        Raises:
            ValueError: as `TrainedPolicy.act`; or the batch has another size than before.
        """
        seen: Any = frame
        if isinstance(frame, Mapping):
            seen = {agent: self._stacked(agent, rows, begins) for agent, rows in frame.items()}
        elif len(self._policy.agents) == 1:
            seen = self._stacked(self._policy.agents[0], frame, begins)
        chosen: Action | dict[str, Action] = self._policy.act(
            seen, deterministic=deterministic, available=available
        )
        return chosen

    def _stacked(self, agent: str, frame: ArrayLike, begins: ArrayLike) -> NDArray[Any]:
        one = self._policy.of(agent)
        rows, single = _batch(frame, one, "frame")
        if (stack := one.observation["stack"]) > 1:
            first = np.repeat(rows[:, None], stack, axis=1)
            before = self._stacks.get(agent, first)
            if before.shape != first.shape:
                raise ValueError(
                    f"{len(rows)} frames, but before there were {len(before)}: begin an episode()"
                )
            later = np.concatenate([before[:, 1:], rows[:, None]], axis=1)
            fresh = np.broadcast_to(np.asarray(begins, bool), len(rows)) | (agent not in self._stacks)
            self._stacks[agent] = np.where(fresh.reshape(-1, *[1] * (first.ndim - 1)), first, later)
            rows = join(self._stacks[agent], 1)
        return rows[0] if single else rows


def _batch(observation: ArrayLike, one: AgentClass, kind: str) -> tuple[NDArray[Any], bool]:
    """Observations or frames with a batch axis, and whether there was none."""
    dtype, shape = np.dtype(one.observation["dtype"]), tuple(one.observation[kind])
    rows = np.asarray(observation)
    if rows.ndim - len(shape) not in (0, 1) or rows.shape[rows.ndim - len(shape) :] != shape or not rows.size:
        hint = " For one frame at a time use episode()." if one.observation["stack"] > 1 else ""
        raise ValueError(
            f"{one.name}: {'a frame' if kind == 'frame' else 'an observation'} has the shape {list(shape)}, "
            f"a batch [B, {', '.join(map(str, shape))}]; this is {list(rows.shape)}.{hint}"
        )
    if dtype == np.uint8 and rows.dtype != dtype:
        raise ValueError(f"{one.name}: observations are uint8, not {rows.dtype}: give them as they are")
    single = rows.ndim == len(shape)
    return (rows[None] if single else rows).astype(dtype, copy=False), single


def _alike(seen: Mapping[str, tuple[NDArray[Any], bool]]) -> tuple[int, bool]:
    """The number of rows of all agents, and whether each gave one observation without a batch axis."""
    found = {(len(rows), single) for rows, single in seen.values()}
    if len(found) != 1:
        shapes = {agent: list(rows.shape) for agent, (rows, _) in seen.items()}
        raise ValueError(f"the observations of all agents must be equally many, at least one; got {shapes}")
    return found.pop()
