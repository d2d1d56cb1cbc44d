"""simple_tag_v3: slow adversaries hunt fast good agents among obstacles."""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from nitro_actor.agents.mpe.scenario import Options, Scenario, View, is_count, is_flag, is_off, palette
from nitro_actor.agents.mpe.world import Array, Bodies, World

_HUNTER, _PREY, _OBSTACLE = 0.075, 0.05, 0.2
"""Radii."""
_CATCH = 10.0


def _is_number(value: object) -> bool:
    return type(value) is int and value >= 0


class Tag(Scenario):
    """Each contact of an adversary with a good agent rewards all adversaries and costs the good agent.

    A good agent also pays for being outside of the field.
    """

    defaults: ClassVar = {
        "num_good": 1,
        "num_adversaries": 3,
        "num_obstacles": 2,
        "max_cycles": 25,
        "terminate_on_success": False,
    }
    checks: ClassVar = {
        "num_good": is_count,
        "num_adversaries": is_count,
        "num_obstacles": _is_number,
        "curriculum": is_off,
        "terminate_on_success": is_flag,
    }

    def __init__(self, options: Options) -> None:
        good, hunters, obstacles = (options[f"num_{name}"] for name in ("good", "adversaries", "obstacles"))
        self._hunters, self._agents = hunters, hunters + good
        self._ends = options["terminate_on_success"]
        self.bodies = Bodies(
            agents=self._agents,
            radii=(_HUNTER,) * hunters + (_PREY,) * good + (_OBSTACLE,) * obstacles,
            forces=(3.0,) * hunters + (4.0,) * good,
            speeds=(1.0,) * hunters + (1.3,) * good,
            colliders=self._agents + obstacles,
        )
        self.teams = {"adversary": range(hunters), "agent": range(hunters, self._agents)}
        self.colors = palette(((217, 90, 90), hunters), ((90, 217, 90), good), ((64, 64, 64), obstacles))

    def begin(self, generator: np.random.Generator) -> Array:
        agents = generator.uniform(-1, 1, (self._agents, 2))
        obstacles = generator.uniform(-0.9, 0.9, (self.bodies.count - self._agents, 2))
        return np.concatenate([agents, obstacles])

    def view(self, agent: int) -> View:
        bodies, agents = self.bodies, self._agents
        view = View(bodies, agent).own().offsets(range(agents, bodies.count)).offsets(range(agents))
        for other in range(self._hunters, agents):
            if other != agent:
                view.absolute(bodies.velocity(other))
        return view

    def outcome(self, world: World, rewards: Array) -> NDArray[np.bool_] | None:
        hunters, agents = self._hunters, self._agents
        caught = world.distances[:hunters, hunters:agents] < _HUNTER + _PREY
        catches = np.add.reduce(caught, axis=0, dtype=np.float64)
        catches *= _CATCH
        rewards[:hunters] = np.add.reduce(catches, axis=0)
        x, y = _outside(np.abs(world.positions[:, hunters:agents]))
        good = rewards[hunters:]
        np.negative(catches, out=good)
        good -= x
        good -= y
        if not self._ends:
            return None
        all_caught: NDArray[np.bool_] = np.logical_and.reduce(np.logical_or.reduce(caught, axis=0), axis=0)
        return all_caught


def _outside(reach: Array) -> Array:
    """Cost of being that far from the centre along an axis, of the same shape: 0 up to 0.9, at most 10."""
    # The exponent is cut, so that it cannot overflow; from 2.31 on the cost is 10 anyway.
    steep = np.minimum(np.exp(np.minimum(2 * reach - 2, 3.0)), 10.0)
    cost: Array = np.where(reach < 0.9, 0.0, np.where(reach < 1.0, (reach - 0.9) * 10, steep))
    return cost
