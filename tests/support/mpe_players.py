"""Players that learn nothing. Their returns are the scale for reading the returns of learners.

In simple_spread, agents that stand still score more than agents that act at random. So a return above that of
random agents does not prove learning.
"""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from nitro_actor.agents.mpe.engine import MpeEngine
from nitro_actor.agents.mpe.world import ACTIONS

Actions = NDArray[np.int64]
Player = Callable[[NDArray[np.float32], np.random.Generator], Actions]
"""From a class's observations [E, n_c, size] to its actions, i64 [E, n_c]."""

_COPIES = 64
_COASTING = 0.25
"""How far an agent looks ahead along its velocity, seconds, so that it brakes in time."""
_NEAR = 0.03
"""Distance along an axis that is not worth a push. Both values were chosen for the highest return."""


def play_random(observations: NDArray[np.float32], generator: np.random.Generator) -> Actions:
    """Choose uniformly random actions."""
    return generator.integers(0, ACTIONS, observations.shape[:2])


def play_still(observations: NDArray[np.float32], generator: np.random.Generator) -> Actions:  # noqa: ARG001
    """Choose to stand still."""
    return np.zeros(observations.shape[:2], np.int64)


def play_assigned(observations: NDArray[np.float32], generator: np.random.Generator) -> Actions:  # noqa: ARG001
    """Send each agent of simple_spread to its own landmark, with the smallest sum of distances."""
    agents = observations.shape[1]
    velocities = observations[:, :, :2]
    landmarks = observations[:, :, 4 : 4 + 2 * agents].reshape(*observations.shape[:2], agents, 2)
    ways = np.hypot(landmarks[..., 0], landmarks[..., 1])
    chosen = np.array([linear_sum_assignment(of_copy)[1] for of_copy in ways])
    goals = np.take_along_axis(landmarks, chosen[:, :, None, None], axis=2)[:, :, 0]
    left = goals - _COASTING * velocities
    axis = np.abs(left).argmax(axis=2)
    along = np.take_along_axis(left, axis[:, :, None], axis=2)[:, :, 0]
    push = 1 + 2 * axis + (along > 0)
    return np.where(np.abs(along) > _NEAR, push, 0)


PLAYERS: Mapping[str, Player] = {"random": play_random, "still": play_still, "assigned": play_assigned}


def play(
    environment: str, options: Mapping[str, object], player: Player, episodes: int, seed: int
) -> dict[str, NDArray[np.float64]]:
    """Play whole episodes, all classes by the same player.

    Args:
        environment, options: what `scenarios.supports` knows.
        episodes: rounded up to a multiple of the 64 copies.

    Returns:
        by class, the return of every agent in every episode, f64 [episodes, n_c].
    """
    engine = MpeEngine(environment, _COPIES, options)
    generator = np.random.default_rng(seed)
    batches = -(-episodes // _COPIES)
    returns = {name: np.zeros((batches, *alive.shape)) for name, alive in engine.alive.items()}
    engine.reset(range(seed, seed + _COPIES))
    for batch in range(batches):
        running = np.ones(_COPIES, bool)
        for _ in range(engine.time_limit):
            step = engine.step({name: player(seen, generator) for name, seen in engine.observations.items()})
            for name, rewards in step.rewards.items():
                returns[name][batch] += rewards * running[:, None]
            running &= ~step.terminated
        for index in range(_COPIES):
            engine.reset_one(index)
    return {name: values.reshape(-1, values.shape[-1]) for name, values in returns.items()}
