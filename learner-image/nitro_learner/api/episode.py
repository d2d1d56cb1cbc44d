"""An episode that a policy plays frame by frame."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Protocol, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nitro_actor.protocol.agents import AgentClass
from nitro_actor.stacking import join
from nitro_learner.api.players import Action, State
from nitro_learner.api.rows import batch_of


class EpisodePolicy(Protocol):
    """What an episode asks of the policy that plays it: `TrainedPolicy`."""

    @property
    def agents(self) -> tuple[str, ...]: ...

    @property
    def memory(self) -> Mapping[str, int]: ...

    def of(self, agent: str) -> AgentClass: ...

    def act(self, observation: Any, *, state: Any, deterministic: bool, available: Any) -> Any: ...


class _Turn:
    """The turn to tell an episode's next frame: one thread has it. A copy's is free."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[_Turn], tuple[()]]:
        return _Turn, ()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise RuntimeError(
                "another thread tells this episode a frame now, and frames have an order: give each thread "
                "an episode() of its own"
            )

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class PlayedEpisode:
    """An episode, or a batch of them in step, told frame by frame. It keeps the last frames for the policy,
    and what the policy remembers.

        episode = policy.episode()
        frame, _ = environment.reset()
        while not over:
            frame, reward, ended, cut, _ = environment.step(episode.act(frame))

    As in training, an episode's first frame takes the places of the missing earlier ones, and an agent that
    is left out of a mapping gets a frame of zeros. Threads may have episodes of one policy, but one episode
    belongs to one thread at a time.
    """

    def __init__(self, policy: EpisodePolicy) -> None:
        self._policy = policy
        self._turn = _Turn()
        self._stacks: dict[str, NDArray[Any]] = {}
        self._states: dict[str, State] = {}

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
    def act(
        self,
        frame: ArrayLike,
        *,
        begins: ArrayLike = ...,
        deterministic: bool = ...,
        available: ArrayLike | None = ...,
    ) -> Action: ...

    def act(
        self,
        frame: ArrayLike | Mapping[str, ArrayLike],
        *,
        begins: ArrayLike = False,
        deterministic: bool = True,
        available: Any = None,
    ) -> Action | dict[str, Action]:
        """Choose the action for the newest frame, or the actions for a batch of them.

        Args:
            frame: what the environment shows now; as `observation` of `TrainedPolicy.act`.
            begins: whether a new episode begins with this frame; of a batch, bool [B].
            deterministic: see `TrainedPolicy.act`.
            available: see `TrainedPolicy.act`.

        Raises:
            ValueError: as `TrainedPolicy.act`; or the batch has another size than before.
            RuntimeError: another thread is in the middle of a call.
        """
        with self._turn:
            return self._act(frame, begins, deterministic, available)

    def _act(
        self,
        frame: ArrayLike | Mapping[str, ArrayLike],
        begins: ArrayLike,
        deterministic: bool,
        available: Any,
    ) -> Action | dict[str, Action]:
        policy = self._policy
        if isinstance(frame, Mapping):
            seen = {agent: self._stacked(agent, rows, begins) for agent, rows in frame.items()}
            for agent in set(policy.agents) - set(frame):
                self._pass_over(agent, begins)
            states = {agent: self._remembered(agent, rows, begins) for agent, rows in seen.items()}
            chosen: dict[str, Action]
            # An agent that does not act now has left, and its memory with it.
            chosen, self._states = policy.act(
                seen, state=states, deterministic=deterministic, available=available
            )
            return chosen
        agent = policy.agents[0]
        stacked = self._stacked(agent, frame, begins)
        before = self._remembered(agent, stacked, begins)
        action: Action
        action, after = policy.act(stacked, state=before, deterministic=deterministic, available=available)
        self._states = {agent: after}
        return action

    def _remembered(self, agent: str, seen: NDArray[Any], begins: ArrayLike) -> State:
        """The state before the newest observations, as many as there are."""
        lead = seen.shape[: seen.ndim - len(self._policy.of(agent).observation["shape"])]
        shape = (*lead, self._policy.memory[agent])
        state = self._states.get(agent, np.zeros(shape, np.float32))
        if state.shape != shape:
            raise ValueError(f"{lead or 1} frames, but before there were others: begin an episode()")
        return np.where(np.broadcast_to(np.asarray(begins, bool), lead)[..., None], np.float32(0), state)

    def _pass_over(self, agent: str, begins: ArrayLike) -> None:
        """Give an agent that does not act now a frame of zeros, as in training."""
        observation = self._policy.of(agent).observation
        if observation["stack"] > 1 and self._stacks:
            count = len(next(iter(self._stacks.values())))
            self._stacked(agent, np.zeros((count, *observation["frame"]), observation["dtype"]), begins)

    def _stacked(self, agent: str, frame: ArrayLike, begins: ArrayLike) -> NDArray[Any]:
        spaces = self._policy.of(agent)
        rows, single = batch_of(frame, spaces, "frame")
        if (stack := spaces.observation["stack"]) > 1:
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
