"""V-trace against its definition, summed up step by step in float64."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nitro_learner.algorithms.impact.vtrace import vtrace
from nitro_learner.data import gae


def case(seed: int, length: int, lanes: int, ends: float) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)

    def normal() -> np.ndarray:
        return rng.standard_normal((length, lanes)).astype(np.float32)

    return {
        "log_ratios": normal(),
        "rewards": normal(),
        "values": normal(),
        "next_values": normal(),
        "terminated": rng.random((length, lanes)) < ends,
        "truncated": rng.random((length, lanes)) < ends,
    }


def by_definition(data: dict[str, np.ndarray], lane: int, gamma: float, lam: float) -> tuple[list, list]:
    """v_s = V_s + sum_t gamma^(t-s) (prod_{s <= i < t} c_i) rho_t (r_t + gamma V_{t+1} - V_t) within an
    episode, and A_s = rho_s (r_s + gamma v_{s+1} - V_s)."""
    d = {name: array[:, lane].tolist() for name, array in data.items()}
    length = len(d["rewards"])
    rho = [min(1.0, math.exp(x)) for x in d["log_ratios"]]
    ended = [a or b for a, b in zip(d["terminated"], d["truncated"], strict=True)]
    after = [0.0 if end else v for end, v in zip(d["terminated"], d["next_values"], strict=True)]
    targets = []
    for s in range(length):
        total, product = d["values"][s], 1.0
        for t in range(s, length):
            total += (
                gamma ** (t - s) * product * rho[t] * (d["rewards"][t] + gamma * after[t] - d["values"][t])
            )
            product *= lam * rho[t]
            if ended[t]:
                break
        targets.append(total)
    advantages = []
    for s in range(length):
        inside = s + 1 < length and not ended[s]
        # What follows in the same lane is v_{s+1} - V_{s+1} beyond the value of the next observation.
        following = after[s] + (targets[s + 1] - d["values"][s + 1] if inside else 0.0)
        advantages.append(rho[s] * (d["rewards"][s] + gamma * following - d["values"][s]))
    return targets, advantages


@given(
    seed=st.integers(0, 10**6),
    length=st.integers(1, 40),
    lanes=st.integers(1, 3),
    ends=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    gamma=st.sampled_from([0.0, 0.9, 1.0]),
    lam=st.sampled_from([0.0, 0.8, 1.0]),
)
def test_equals_its_definition(
    seed: int, length: int, lanes: int, ends: float, gamma: float, lam: float
) -> None:
    data = case(seed, length, lanes, ends)
    given = {name: array.copy() for name, array in data.items()}
    result = vtrace(**data, gamma=gamma, lam=lam)
    for lane in range(lanes):
        targets, advantages = by_definition(data, lane, gamma, lam)
        np.testing.assert_allclose(result.targets[:, lane], targets, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(result.advantages[:, lane], advantages, rtol=1e-5, atol=1e-5)
    for name, array in given.items():
        np.testing.assert_array_equal(data[name], array, err_msg=f"{name} was changed")


@pytest.mark.parametrize("length", [1, 2, 63, 64, 65, 512])
def test_on_policy_with_full_traces_it_is_the_discounted_return(length: int) -> None:
    """Then rho = c = 1, and V-trace's target is GAE's with lambda 1 (both bootstrap alike)."""
    data = case(1, length, 4, 0.05) | {"log_ratios": np.zeros((length, 4), np.float32)}
    # Within an episode the next observation's value is the next row's.
    open_ends = ~(data["terminated"] | data["truncated"])[:-1]
    data["next_values"][:-1][open_ends] = data["values"][1:][open_ends]
    result = vtrace(**data, gamma=0.99)
    rest = {name: data[name] for name in ("rewards", "values", "next_values", "terminated", "truncated")}
    advantages = gae.advantages(**rest, gamma=0.99, lam=1.0)
    np.testing.assert_allclose(result.targets, data["values"] + advantages, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(result.advantages, advantages, rtol=1e-4, atol=1e-4)


def test_values_after_a_terminal_state_are_not_used() -> None:
    data = case(2, 50, 3, 0.2)
    expected = vtrace(**data, gamma=0.9)
    data["next_values"][data["terminated"]] = np.nan
    result = vtrace(**data, gamma=0.9)
    np.testing.assert_array_equal(result.targets, expected.targets)
    np.testing.assert_array_equal(result.advantages, expected.advantages)


def test_unbounded_ratios_stay_finite() -> None:
    data = case(3, 50, 3, 0.1)
    data["log_ratios"] *= 1e4
    result = vtrace(**data, gamma=0.99)
    assert np.isfinite(result.targets).all()
    assert np.isfinite(result.advantages).all()
