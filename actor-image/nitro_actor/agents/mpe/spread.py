"""simple_spread_v3: N agents shall cover N landmarks without touching each other."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from nitro_actor.agents.mpe.scenario import (
    Options,
    Scenario,
    View,
    is_count,
    is_flag,
    is_off,
    is_share,
    palette,
)
from nitro_actor.agents.mpe.world import Array, Bodies, World

_COVERED = 0.1
"""Distance below which an agent covers a landmark."""
_RADIUS = 0.15
_FORCE = 5.0


class Spread(Scenario):
    """All agents are rewarded if agents are near all landmarks. Each agent pays for its own collisions."""

    defaults: ClassVar = {"N": 3, "local_ratio": 0.5, "max_cycles": 25, "terminate_on_success": False}
    checks: ClassVar = {
        "N": is_count,
        "local_ratio": is_share,
        "curriculum": is_off,
        "terminate_on_success": is_flag,
    }

    def __init__(self, options: Options) -> None:
        self._agents = agents = options["N"]
        self._local_ratio = options["local_ratio"]
        self._ends = options["terminate_on_success"]
        self.bodies = Bodies(
            agents=agents,
            radii=(_RADIUS,) * agents + (0.05,) * agents,
            forces=(_FORCE,) * agents,
            speeds=None,
            colliders=agents,
        )
        self.teams = {"agent": range(agents)}
        self.colors = palette(((90, 90, 217), agents), ((64, 64, 64), agents))

    def begin(self, generator: np.random.Generator) -> Array:
        return generator.uniform(-1, 1, (2 * self._agents, 2))

    def view(self, agent: int) -> View:
        agents = self._agents
        view = View(self.bodies, agent).own().offsets(range(agents, 2 * agents)).offsets(range(agents))
        # The other agents' messages, which are always zero.
        return view.absolute([self.bodies.zero] * 2 * (agents - 1))

    def outcome(self, world: World, rewards: Array) -> NDArray[np.bool_] | None:
        agents = self._agents
        nearest = np.minimum.reduce(world.distances[agents:], axis=1)
        common = np.subtract.reduce(nearest, axis=0, initial=0.0)
        common *= 1 - self._local_ratio
        collisions = world.distances[:agents] < _RADIUS + _RADIUS
        np.add.reduce(collisions, axis=0, dtype=np.float64, out=rewards)
        rewards *= -self._local_ratio
        rewards += common
        return (nearest < _COVERED).all(axis=0) if self._ends else None
