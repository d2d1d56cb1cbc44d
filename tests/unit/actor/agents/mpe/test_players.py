"""The players that learn nothing score what mpe2's own environments pay them."""

import numpy as np
import pytest

from mpe_players import PLAYERS, play, play_assigned


@pytest.mark.parametrize(
    ("agents", "player", "expected", "tolerance"),
    [
        # 512 episodes; the tolerances are about four standard errors.
        (3, "random", -78, 5),
        (3, "still", -73, 5),
        (3, "assigned", -23, 3),
        (6, "random", -234, 10),
        (6, "still", -208, 10),
        (6, "assigned", -75, 5),
    ],
)
def test_scale_of_simple_spread(agents: int, player: str, expected: float, tolerance: float) -> None:
    """Returns summed over the agents, 25 steps."""
    returns = play("mpe2/simple_spread_v3", {"N": agents}, PLAYERS[player], 512, seed=1)
    assert returns["agent"].shape == (512, agents)
    assert abs(returns["agent"].sum(axis=1).mean() - expected) < tolerance


def test_scale_of_simple_adversary() -> None:
    returns = play("mpe2/simple_adversary_v3", {}, PLAYERS["random"], 512, seed=1)
    assert abs(returns["adversary"].mean() + 29) < 3
    assert abs(returns["agent"].mean() - 7) < 3


def test_assigned_agents_take_the_landmarks_that_make_the_ways_shortest() -> None:
    """Each alone would go to the left landmark; together the one on the right goes right."""
    observations = np.zeros((1, 2, 12), np.float32)
    # Velocity, position, then both landmarks as seen from the agent.
    observations[0, 0, 4:8] = [-0.2, 0.0, 1.5, 0.0]
    observations[0, 1, 4:8] = [-0.3, 0.0, 1.0, 0.0]
    assert play_assigned(observations, np.random.default_rng(0)).tolist() == [[1, 2]]
    observations[0, 0, 4:8] = [0.0, 0.01, 1.5, 0.0]
    observations[0, 1, 4:8] = [-0.3, 0.0, 0.1, -0.6]
    assert play_assigned(observations, np.random.default_rng(0)).tolist() == [[0, 3]]
