"""The unit of a Q-learner's values: standardised rewards that leave the best actions the best."""

import numpy as np
import pytest

from agents_support import agent_class, agents_fragment, team
from nitro_learner.algorithms.q_learning.learning import QLearner
from nitro_learner.algorithms.q_learning.rewards import ValueUnits
from q_learning_support import targets_one_by_one

GAMMA = 0.9
STATES, ACTIONS = 6, 3


def _solved(rewards: np.ndarray, following: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Q [states, actions] of a deterministic decision problem, by value iteration."""
    q = np.zeros((STATES, ACTIONS))
    for _ in range(500):
        q = rewards + GAMMA * ~ends * q.max(1)[following]
    return q


@pytest.mark.parametrize("part", [0.0, 0.3])
def test_values_in_a_units_rewards_are_the_returns_in_that_unit(part: float) -> None:
    rng = np.random.default_rng(1)
    rewards = rng.normal(-5, 2, (STATES, ACTIONS))
    following = rng.integers(0, STATES, (STATES, ACTIONS))
    ends = rng.random((STATES, ACTIONS)) < part
    flat = rewards.reshape(-1, 1).astype(np.float32), ends.reshape(-1, 1)
    units = ValueUnits.standard(*flat, np.ones_like(flat[1]), GAMMA)
    inner = units(rewards, ends, np.zeros_like(following))
    assert np.isclose(inner.mean(), 0, atol=1e-6)
    assert np.isclose(inner.std(), 1, atol=1e-6)
    expected = (_solved(rewards, following, ends) - units.level[0]) / units.scale[0]
    assert np.allclose(_solved(inner, following, ends), expected, atol=1e-5)


def test_without_ends_it_is_the_standardised_reward_of_the_rows_that_count() -> None:
    rng = np.random.default_rng(2)
    rewards, learnable = rng.normal(3, 2, (400, 2)).astype(np.float32), rng.random((400, 2)) < 0.7
    units = ValueUnits.standard(rewards, np.zeros_like(learnable), learnable, GAMMA)
    for column in (0, 1):
        own = rewards[learnable[:, column], column].astype(np.float64)
        found = units(own, np.zeros(len(own), bool), np.full(len(own), column))
        assert np.allclose(found, (own - own.mean()) / own.std(), atol=1e-9)


@pytest.mark.parametrize("gamma", [0.9, 1.0])
def test_rewards_without_spread_keep_their_scale(gamma: float) -> None:
    rewards = np.full((50, 1), 0.1, np.float32)
    nothing = np.zeros((50, 1), bool)
    units = ValueUnits.standard(rewards, nothing, ~nothing, gamma)
    assert units.scale[0] == 1
    assert np.isfinite(units.level[0])


def test_targets_are_in_the_unit_of_what_the_buffer_holds() -> None:
    built = team(agent_class("agent", 3, size=4), algorithm="iql", settings={"normaliseRewards": True})
    learner = QLearner(built)
    target = learner.weights()
    shape = {"length": 9, "envs": 3, "ends": 0.15, "deaths": 0.1}
    rounds = [[agents_fragment(*built.classes, seed=seed, **shape)] for seed in (1, 2)]
    learner.update(rounds[0], 1)
    # Too few gradient steps for the target networks to follow.
    results = learner.update(rounds[1], 2)
    fields = [fragments[0].by_class["agent"] for fragments in rounds]
    ended = [fragments[0].tensors["terminated"] for fragments in rounds]
    _, following = targets_one_by_one(
        rounds[1], built, learner.agents, learner.weights(), target, gamma=built.settings.gamma
    )
    for i, agent in enumerate(built.agents):
        counts = [own["alive"][..., i] for own in fields]
        rewards = [own["rewards"][..., i].astype(np.float64) for own in fields]
        last = [own["died"][..., i] | end for own, end in zip(fields, ended, strict=True)]
        seen, seen_last = (
            np.concatenate([one[count] for one, count in zip(part, counts, strict=True)])
            for part in (rewards, last)
        )
        level = seen.mean() / (1 - built.settings.gamma * (1 - seen_last.mean()))
        scale = (seen + built.settings.gamma * level * ~seen_last - level).std()
        expected = (rewards[1] + built.settings.gamma * level * ~last[1] - level) / scale + following[
            i
        ].reshape(last[1].shape)
        found = results[agent].surrogate.targets.numpy()[0].reshape(last[1].shape)
        assert np.allclose(found[counts[1]], expected[counts[1]], atol=1e-4)
