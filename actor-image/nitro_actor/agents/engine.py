"""The interface of engines of several agents: E copies of one environment, stepped without time limits.

    engine.reset(seeds)
    while True:
        step = engine.step(actions)  # engine.observations, alive and available now show what follows
        for i in finished: engine.reset_one(i)

Agents of equal spaces form a class. Arrays are per class, with one entry for each of its n_c agents.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nitro_actor.engines.base import Snapshot
from nitro_actor.engines.info_metrics import InfoMetrics
from nitro_actor.protocol.agents import AgentClass


@dataclass(frozen=True, slots=True)
class AgentsStep:
    """The result of one step of all copies. The next step may overwrite the arrays.

    Attributes:
        rewards: f64 [E, n_c] by class; 0 for an agent that did not act.
        died: bool [E, n_c] by class: the agent ended by itself in this step, so nothing follows for it.
        terminated: bool [E], the episode ended because no agent goes on.
        truncated: bool [E], the episode was cut by the environment itself, not by its time limit.
    """

    rewards: Mapping[str, NDArray[np.float64]]
    died: Mapping[str, NDArray[np.bool_]]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]


class AgentsEngine(ABC):
    """E copies of one environment of several agents.

    Attributes:
        count: E.
        classes: the agent classes, ordered by name, of single frames.
        observations: [E, n_c, *observation shape], f32 or u8, by class. The current ones, updated in place; 0
            for an agent that is not alive.
        alive: bool [E, n_c] by class, who acts in the next step; updated in place.
        available: bool [E, n_c, C] by class, for classes whose action space is masked; updated in place. An
            agent that is not alive has all actions available.
        state_size: S of the environment's own global state; None if it has no state, or if its state is the
            concatenation of all observations.
        time_limit: steps after which `AgentsEnvironment` cuts an episode; None for no limit.
        resumable: whether `snapshot` and `restore` are exact.
        info: takes in the infos of each step, where the job names entries of them.
    """

    count: int
    info: InfoMetrics | None = None
    classes: tuple[AgentClass, ...]
    observations: Mapping[str, np.ndarray]
    alive: Mapping[str, NDArray[np.bool_]]
    available: Mapping[str, NDArray[np.bool_]]
    state_size: int | None
    time_limit: int | None
    resumable: bool

    @abstractmethod
    def reset(self, seeds: Sequence[int]) -> None:
        """Begin new episodes in all copies. The random generator of copy i is seeded anew with seeds[i]."""

    @abstractmethod
    def reset_one(self, index: int) -> None:
        """Begin a new episode in one copy; its random generator goes on."""

    @abstractmethod
    def step(self, actions: Mapping[str, np.ndarray]) -> AgentsStep:
        """Step all copies once.

        Args:
            actions: by class, [E, n_c, *action shape] within the action space, see `nitro_actor.actions`.
                Those of agents that are not alive are ignored.
        """

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """The state from which `restore` goes on. Empty if the environment is not resumable."""

    @abstractmethod
    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        """Go on from a snapshot of an engine of the same environment and E.

        Raises:
            WireError: the tensors are no snapshot of such an engine.
        """

    def state(self) -> NDArray[np.float32] | None:
        """The environment's own global state, f32 [E, S]; None where `state_size` is None."""
        return None

    def picture(self, index: int) -> NDArray[np.uint8] | None:  # noqa: ARG002
        """A picture of one copy now, u8 [height, width, 3]; None where the engine draws nothing."""
        return None

    def raw(self) -> Any:
        """The first copy, as its package made it; None where the engine computes the environment itself."""
        return None

    def close(self) -> None:
        """Release what the environment holds."""
        return
