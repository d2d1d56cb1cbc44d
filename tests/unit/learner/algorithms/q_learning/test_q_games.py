"""Q-learners in games whose best joint actions are known."""

import numpy as np
import pytest

from agents_support import team
from nitro_learner.algorithms.q_learning.learning import QLearner
from q_learning_support import MatrixGame

pytestmark = pytest.mark.slow

TWO_STEPS = MatrixGame([np.full((2, 2), 7.0), np.array([[0.0, 1.0], [1.0, 8.0]])], first=True)
"""Rashid et al. 2018, section 6.1: the first agent's first action chooses a safe game or one worth 8."""

CLIMBING = np.array([[11.0, -30.0, 0.0], [-30.0, 7.0, 6.0], [0.0, 0.0, 5.0]])
"""Claus and Boutilier 1998: the best joint action, worth 11, is next to the worst ones."""


def _trained(algorithm: str, game: MatrixGame, seed: int, rounds: int = 30) -> float:
    """The reward of the best actions after training on random play."""
    settings = {
        "learningRate": 0.005,
        "learningRateAnneal": False,
        "batchSize": 64,
        "replayRatio": 8.0,
        "bufferSize": 5_000,
        # Every joint action is equally likely, so that the fixed points are known.
        "priorityAlpha": 0.0,
        "epsilonFinal": 1.0,
        "targetUpdateSteps": 50,
        "normaliseRewards": False,
    }
    learner = QLearner(
        team(game.agents, algorithm=algorithm, settings=settings, hidden=(32,), seed=seed, rounds=rounds)
    )
    for round in range(1, rounds + 1):
        learner.update([game.play(learner, 64, 1000 * seed + round)], round)
    return game.reward(learner)


@pytest.mark.parametrize(("algorithm", "reward"), [("vdn", 7.0), ("qmix", 8.0)])
def test_a_monotonic_mix_takes_the_risk_of_the_two_step_game_and_a_sum_does_not(
    algorithm: str, reward: float
) -> None:
    # A sum fits the risky game by row and column means: 4.5 + 4.5 - 2.5 = 6.5 < 7 (Rashid et al. 2018, table
    # 1). A monotonic mix fits it exactly.
    assert _trained(algorithm, TWO_STEPS, 0) == reward


def test_independent_learners_do_not_take_the_risk_either() -> None:
    # Of random play the last action of the risky game is worth (1 + 8) / 2 < 7.
    assert _trained("iql", TWO_STEPS, 0) == 7.0


@pytest.mark.parametrize("algorithm", ["iql", "vdn"])
def test_values_of_single_agents_do_not_climb(algorithm: str) -> None:
    # Of random play the first agent's actions are worth -6.3, -5.7 and 1.7 in the mean, the second's -6.3,
    # -7.7 and 3.7: both prefer the third. Rewards this small are in the squared part of Huber's loss.
    assert _trained(algorithm, MatrixGame([CLIMBING / 100]), 0) == 5.0 / 100


@pytest.mark.parametrize("algorithm", ["iql", "vdn"])
def test_where_rewards_are_large_hubers_loss_compares_medians(algorithm: str) -> None:
    # 0, 6 and 0 of the first agent's actions, 0, 0 and 5 of the second's.
    assert _trained(algorithm, MatrixGame([CLIMBING]), 0) == 6.0


def test_a_monotonic_mix_does_not_climb() -> None:
    # Whether the first action is the best depends on what the other agent does, which no monotonic function
    # can say (Rashid et al. 2020, "Weighted QMIX", section 4). So the optimum is not found.
    assert _trained("qmix", MatrixGame([CLIMBING]), 0) in (5.0, 6.0, 7.0)
