"""The interface of scenarios: bodies of a world, starts of episodes, agents' observations and rewards."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nitro_actor.agents.mpe.world import Array, Bodies, World

Options = Mapping[str, Any]
Check = Callable[[object], bool]


def is_count(value: object) -> bool:
    return type(value) is int and value >= 1


def is_flag(value: object) -> bool:
    return type(value) is bool


def is_off(value: object) -> bool:
    return value is False


def is_share(value: object) -> bool:
    return type(value) in (int, float) and 0.0 <= value <= 1.0  # type: ignore[operator]


class Scenario(ABC):
    """One scenario; it holds no state of an episode.

    Attributes:
        defaults: the keyword arguments that are honoured, with mpe2's defaults.
        checks: for each of these arguments, a test of the values that are honoured. Other values are left to
            mpe2.
        bodies: the bodies of its world.
        teams: the agents of each class, as numbers of bodies; ordered by the classes' names and the bodies.
        colors: u8 [M, 3] of the bodies in a picture.
    """

    defaults: ClassVar[dict[str, Any]]
    checks: ClassVar[dict[str, Check]]
    bodies: Bodies
    teams: dict[str, range]
    colors: NDArray[np.uint8]

    @classmethod
    def supports(cls, options: Options) -> bool:
        """Whether the scenario is computed here with these keyword arguments."""
        checks = _COMMON_CHECKS | cls.checks
        return all(name in checks and checks[name](value) for name, value in options.items())

    @abstractmethod
    def begin(self, generator: np.random.Generator) -> Array:
        """Positions at the start of an episode, f64 [M, 2], drawn as mpe2 draws them."""

    @abstractmethod
    def view(self, agent: int) -> "View":
        """What an agent sees."""

    @abstractmethod
    def outcome(self, world: World, rewards: Array) -> NDArray[np.bool_] | None:
        """Write the rewards of the last step, f64 [n, E], by agents in the bodies' order.

        Returns:
            bool [E], the copies whose episode ended; None where episodes only end by their time limit.
        """


class View:
    """An agent's observation: each value is one row of the world's state minus another one."""

    def __init__(self, bodies: Bodies, agent: int) -> None:
        self.rows: list[int] = []
        self.subtracted: list[int] = []
        self._bodies = bodies
        self._agent = agent

    def absolute(self, rows: list[int]) -> "View":
        """Add rows as they are."""
        self.rows += rows
        self.subtracted += [self._bodies.zero] * len(rows)
        return self

    def own(self) -> "View":
        """Add the agent's velocity and position."""
        return self.absolute(self._bodies.velocity(self._agent)).absolute(self._bodies.position(self._agent))

    def offsets(self, bodies: range) -> "View":
        """Add the positions of other bodies as the agent sees them from its own."""
        for body in bodies:
            if body != self._agent:
                self.rows += self._bodies.position(body)
                self.subtracted += self._bodies.position(self._agent)
        return self


def palette(*colors: tuple[tuple[int, int, int], int]) -> NDArray[np.uint8]:
    """Colours of bodies, u8 [M, 3], from pairs of a colour and how many bodies have it."""
    return np.concatenate([np.full((count, 3), color, np.uint8) for color, count in colors])


_COMMON_CHECKS: dict[str, Check] = {
    "max_cycles": is_count,
    "continuous_actions": is_off,
    "render_mode": lambda value: value is None,
    # These two change mpe2's pictures and infos, which are not used.
    "dynamic_rescaling": is_flag,
    "benchmark_data": is_flag,
    "num_agent_neighbors": lambda value: value is None,
    "num_landmark_neighbors": lambda value: value is None,
}
