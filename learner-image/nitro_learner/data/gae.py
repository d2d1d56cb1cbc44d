"""Generalised advantage estimation (Schulman et al. 2016, equation 16) over parallel lanes."""

import numpy as np

from nitro_learner.data.shapes import check


def advantages(
    rewards: np.ndarray,
    values: np.ndarray,
    next_values: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
    *,
    gamma: float,
    lam: float,
) -> np.ndarray:
    """A_t = delta_t + gamma lambda A_{t+1} within an episode, delta_t = r_t + gamma V(s_{t+1}) - V(s_t).

    Args:
        rewards: r_t, float [L, lanes].
        values: V(s_t), float [L, lanes].
        next_values: V of the observation that followed the step, before any reset, float [L, lanes]; see
            `next_values`. Not read where terminated: the value of a terminal state is 0.
        terminated: the step ended its episode in a terminal state, bool [L, lanes].
        truncated: the step ended its episode by a limit, bool [L, lanes]. Bootstraps, but the sum stops
            there.
        gamma: discount per step.
        lam: lambda.

    Returns:
        float32 [L, lanes]; the returns that a critic learns are advantages + values.

    Raises:
        ValueError: the arrays differ in shape.
    """
    check(
        rewards.shape,
        "rewards",
        {"values": values, "next_values": next_values, "terminated": terminated, "truncated": truncated},
    )
    delta = rewards + gamma * np.where(terminated, 0.0, next_values) - values
    decay = gamma * lam * ~(terminated | truncated)
    result = np.empty(delta.shape, np.float32)
    running = np.zeros(delta.shape[1:], delta.dtype)
    for t in range(len(delta) - 1, -1, -1):
        running = delta[t] + decay[t] * running
        result[t] = running
    return result


def next_values(
    values: np.ndarray,
    last_values: np.ndarray,
    final_values: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
) -> np.ndarray:
    """V of the observation that followed each step, as `advantages` wants it.

    Args:
        values: V(s_t), float [L, lanes].
        last_values: V of the observation after the last step, float [lanes]: the cut tail's bootstrap.
        final_values: V of the true last observation of each truncated and not terminated step, float [n] in
            order of (t, lane).
        terminated: bool [L, lanes].
        truncated: bool [L, lanes].

    Raises:
        ValueError: `final_values` is not one for each such step, or the arrays differ in shape.
    """
    check(values.shape, "values", {"terminated": terminated, "truncated": truncated})
    check(values.shape[1:], "a step of values", {"last_values": last_values})
    result = np.concatenate([values[1:], last_values[None]])
    cut = truncated & ~terminated
    if cut.sum() != len(final_values):
        raise ValueError(
            f"{cut.sum()} episodes were truncated but there are {len(final_values)} final observations"
        )
    check(
        (len(final_values),), "there is one value for each final observation:", {"final_values": final_values}
    )
    result[cut] = final_values
    return result


def through_waiting(
    rewards: np.ndarray,
    values: np.ndarray,
    following: np.ndarray,
    alive: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
    *,
    gamma: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Values of lanes whose agents do not act in every step.

    The value of a step in which an agent waits is its reward and the value after it: r_t + gamma V(s_{t+1}).
    So its delta is zero, and an earlier step bootstraps from the next one in which the agent acts.

    Args:
        rewards, values, terminated, truncated: as `advantages` has them.
        following: as `next_values` gives them.
        alive: the agent acts in the step, bool [L, lanes].
        gamma: discount per step.

    Returns:
        `values` and `next_values` for `advantages`, float [L, lanes].
    """
    check(rewards.shape, "rewards", {"values": values, "following": following, "alive": alive})
    values, following = values.copy(), following.copy()
    for t in range(len(values) - 1, -1, -1):
        worth = rewards[t] + gamma * np.where(terminated[t], 0.0, following[t])
        values[t] = np.where(alive[t], values[t], worth)
        if t > 0:
            waits = ~alive[t] & ~(terminated[t - 1] | truncated[t - 1])
            following[t - 1] = np.where(waits, values[t], following[t - 1])
    return values, following


def level(rewards: np.ndarray, ends: np.ndarray, gamma: float) -> float:
    """The constant c that solves the mean of Bellman's equation, c = mean(r) + gamma (1 - part of ends) c.

    Args:
        rewards: float [n].
        ends: nothing follows the step, bool [n].
        gamma: discount per step.

    Returns:
        c, or 0 where no constant solves it.
    """
    left = 1 - gamma * (1 - ends.mean())
    return float(rewards.mean(dtype=np.float64) / left) if left > 0 else 0.0
