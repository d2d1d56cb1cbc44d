"""Advantages: against the definition, and against rows that must not matter."""

import numpy as np
import pytest

from nitro_learner.data import gae

GAMMA, LAM = 0.97, 0.9


def by_definition(
    rewards: np.ndarray,
    values: np.ndarray,
    following: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
) -> np.ndarray:
    """Schulman et al. 2016, equation 16, summed anew for every step."""
    length, lanes = rewards.shape
    result = np.zeros((length, lanes))
    for lane in range(lanes):
        for t in range(length):
            for step, u in enumerate(range(t, length)):
                bootstrap = 0 if terminated[u, lane] else following[u, lane]
                delta = rewards[u, lane] + GAMMA * bootstrap - values[u, lane]
                result[t, lane] += (GAMMA * LAM) ** step * delta
                if terminated[u, lane] or truncated[u, lane]:
                    break
    return result


def case(seed: int, ends: float) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    shape = (40, 5)
    terminated, truncated = rng.random(shape) < ends, rng.random(shape) < ends
    return *(rng.normal(size=shape) for _ in range(3)), terminated, truncated


@pytest.mark.parametrize("ends", [0.0, 0.05, 0.5, 1.0])
def test_equals_the_definition(ends: float) -> None:
    for seed in range(5):
        arrays = case(seed, ends)
        actual = gae.advantages(*arrays, gamma=GAMMA, lam=LAM)
        np.testing.assert_allclose(actual, by_definition(*arrays), rtol=1e-5, atol=1e-5)
        assert actual.dtype == np.float32


def test_no_value_leaks_across_the_end_of_an_episode() -> None:
    rewards, values, following, terminated, truncated = case(0, 0.0)
    terminated[12, 0] = truncated[20, 1] = True
    clean = gae.advantages(rewards, values, following, terminated, truncated, gamma=GAMMA, lam=LAM)
    for array in (rewards, values, following):
        array[13:, 0] = array[21:, 1] = 1e9
    following[12, 0] = 1e9  # the value of a terminal state
    garbage = gae.advantages(rewards, values, following, terminated, truncated, gamma=GAMMA, lam=LAM)
    np.testing.assert_array_equal(garbage[:13, 0], clean[:13, 0])
    np.testing.assert_array_equal(garbage[:21, 1], clean[:21, 1])
    np.testing.assert_array_equal(garbage[:, 2:], clean[:, 2:])


def test_lambda_zero_is_the_temporal_difference_and_lambda_one_the_return() -> None:
    rewards, values, following, terminated, truncated = case(3, 0.0)
    td = gae.advantages(rewards, values, following, terminated, truncated, gamma=GAMMA, lam=0.0)
    np.testing.assert_allclose(td, rewards + GAMMA * following - values, rtol=1e-5)
    following = np.concatenate([values[1:], following[-1:]])
    full = gae.advantages(rewards, values, following, terminated, truncated, gamma=GAMMA, lam=1.0)
    discounted = (rewards * GAMMA ** np.arange(40)[:, None]).sum(0) + GAMMA**40 * following[-1]
    np.testing.assert_allclose(full[0] + values[0], discounted, rtol=1e-5)


def test_the_next_value_of_a_step_depends_on_how_the_step_ended() -> None:
    values = np.arange(8.0).reshape(4, 2)
    terminated, truncated = np.zeros((4, 2), bool), np.zeros((4, 2), bool)
    truncated[0, 1] = truncated[2, 0] = truncated[3, 1] = True
    terminated[1, 0] = truncated[1, 0] = True  # both: terminal, and without a final observation
    following = gae.next_values(
        values, np.array([100.0, 101.0]), np.array([-1.0, -2.0, -3.0]), terminated, truncated
    )
    np.testing.assert_array_equal(following, [[2, -1], [4, 5], [-2, 7], [100, -3]])
    with pytest.raises(ValueError, match="3 episodes were truncated but there are 2"):
        gae.next_values(values, np.zeros(2), np.zeros(2), terminated, truncated)
