"""simple_adversary_v3: N good agents know which landmark is the goal; an adversary must guess it."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from nitro_actor.agents.mpe.scenario import Options, Scenario, View, is_count, palette
from nitro_actor.agents.mpe.world import Array, Bodies, World

_RADIUS = 0.15
_MARK = 0.08
_FORCE = 5.0


class Adversary(Scenario):
    """An adversary is rewarded for being near the goal. The good agents are rewarded for how near their
    nearest one is to the goal, and for how far the adversary is from it.

    The last body marks the goal: it lies on one of the landmarks.
    """

    defaults: ClassVar = {"N": 2, "max_cycles": 25}
    checks: ClassVar = {"N": is_count}

    def __init__(self, options: Options) -> None:
        good = options["N"]
        self._agents = agents = good + 1
        self._landmarks = range(agents, agents + good)
        self._goal = agents + good
        self.bodies = Bodies(
            agents=agents,
            radii=(_RADIUS,) * agents + (_MARK,) * (good + 1),
            forces=(_FORCE,) * agents,
            speeds=None,
            colliders=0,
        )
        self.teams = {"adversary": range(1), "agent": range(1, agents)}
        self.colors = palette(
            ((217, 90, 90), 1), ((90, 90, 217), good), ((38, 38, 38), good), ((38, 166, 38), 1)
        )

    def begin(self, generator: np.random.Generator) -> Array:
        goal = self._landmarks[int(generator.integers(len(self._landmarks)))]
        positions = generator.uniform(-1, 1, (self._goal, 2))
        return np.concatenate([positions, positions[goal : goal + 1]])

    def view(self, agent: int) -> View:
        view = View(self.bodies, agent)
        if agent > 0:
            view.offsets(range(self._goal, self._goal + 1))
        return view.offsets(self._landmarks).offsets(range(self._agents))

    def outcome(self, world: World, rewards: Array) -> NDArray[np.bool_] | None:
        distances = world.distances[self._goal]
        np.negative(distances[0], out=rewards[0])
        np.subtract(distances[0], np.minimum.reduce(distances[1:], axis=0), out=rewards[1:])
        return None
