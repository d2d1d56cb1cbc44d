"""Running statistics of observations and returns."""

import numpy as np
import pytest

from learner_support import fragment, lanes_of, plain
from nitro_learner.data.batch import RewardLanes
from nitro_learner.networks.normalise import Moments, ObservationNormaliser, RewardNormaliser


def test_moments_equal_those_of_all_rows() -> None:
    rng = np.random.default_rng(0)
    parts = [rng.normal(1e4, 3, (n, 4)) for n in (1, 7, 0, 100, 1)]
    moments = Moments((4,))
    for part in parts:
        moments.merge(part)
    rows = np.concatenate(parts)
    np.testing.assert_allclose(moments.mean, rows.mean(0), rtol=1e-12)
    np.testing.assert_allclose(moments.variance, rows.var(0), rtol=1e-9)


def test_observations_are_standardised_only_with_merged_statistics() -> None:
    normaliser = ObservationNormaliser((11,))
    f = fragment(length=500)
    plain(f)["observations"][:] = 5 + 3 * plain(f)["observations"]
    raw = plain(f)["observations"][:, 0]
    np.testing.assert_array_equal(normaliser(raw), np.clip(raw, -10, 10))  # before the first round: unchanged
    normaliser.merge(raw)
    x = normaliser(raw)
    np.testing.assert_allclose(x.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(x.std(0), 1, atol=1e-5)
    assert x.dtype == np.float32
    assert np.abs(normaliser(1e6 * raw)).max() == 10
    tensors = normaliser.tensors()
    assert tensors["observation.mean"].dtype == tensors["observation.var"].dtype == np.float64


def rewards_of(slot: int, rewards: list[float], *, resumed: bool, ends: tuple[int, ...] = ()) -> RewardLanes:
    ended = np.zeros((len(rewards), 1), bool)
    ended[list(ends)] = True
    column = np.array(rewards, np.float32)[:, None]
    return RewardLanes(slot, resumed, column, ended, np.ones_like(ended))


def test_rewards_are_divided_by_the_deviation_of_the_discounted_return() -> None:
    normaliser = RewardNormaliser(gamma=0.5)
    (scaled,) = normaliser([rewards_of(0, [1, 2, 3, 4], resumed=False, ends=(1,))])
    returns = [1, 2.5, 3, 5.5]  # the third begins a new episode
    np.testing.assert_allclose(scaled[:, 0], np.array([1, 2, 3, 4]) / np.std(returns), rtol=1e-6)


def test_discounted_returns_continue_in_a_slot_with_its_episodes() -> None:
    whole, halves = RewardNormaliser(gamma=0.5), RewardNormaliser(gamma=0.5)
    whole([rewards_of(0, [1, 2, 3, 4], resumed=False)])
    halves([rewards_of(0, [1, 2], resumed=False)])
    halves([rewards_of(7, [9, 9], resumed=False), rewards_of(8, [1], resumed=True)])
    halves.load_state_dict(halves.state_dict())
    before = halves.state_dict()["moments"]["count"]
    halves([rewards_of(0, [3, 4], resumed=True)])
    assert before == 5
    assert halves.state_dict()["running"]["0"] == whole.state_dict()["running"]["0"]
    halves([rewards_of(0, [4], resumed=False)])
    assert halves.state_dict()["running"]["0"] == 4


def test_continues_to_the_bit() -> None:
    one, two = RewardNormaliser(0.9), RewardNormaliser(0.9)
    one([lanes_of(fragment(slot, envs=4)) for slot in range(3)])
    two.load_state_dict(one.state_dict())
    following = [lanes_of(fragment(slot, envs=4, resumed=True, seed=1)) for slot in range(3)]
    for a, b in zip(one(following), two(following), strict=True):
        np.testing.assert_array_equal(a, b)


def test_refuses_statistics_of_another_environment() -> None:
    with pytest.raises(ValueError, match="shape"):
        ObservationNormaliser((3,)).load_state_dict(ObservationNormaliser((4,)).state_dict())


def test_steps_of_agents_that_are_dead_say_nothing_of_returns() -> None:
    """Two lanes of 10 steps. One agent dies at its fifth step, and another begins to act at the fifth."""
    draws = np.random.default_rng(0)
    rewards = draws.normal(size=(10, 2)).astype(np.float32)
    rewards[5:, 0] = 0
    alive, died = np.ones((10, 2), bool), np.zeros((10, 2), bool)
    alive[5:, 0], died[4, 0], alive[:4, 1] = False, True, False
    normaliser = RewardNormaliser(0.9)
    normaliser([RewardLanes(0, False, rewards, died, alive)])
    returns, running = [], np.zeros(2)
    for step in range(10):
        running = 0.9 * running + rewards[step]
        returns.extend(running[alive[step]])
        running[died[step]] = 0
    assert normaliser.scale == pytest.approx(1 / np.sqrt(np.var(returns) + 1e-8))
