"""V-trace (Espeholt et al. 2018, equation 1): values and advantages of a target policy from the rollouts of
another one, over parallel lanes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from nitro_learner.algorithms.ppo.rollouts import PolicyRollouts, When
from nitro_learner.data.shapes import check


@dataclass(frozen=True, slots=True)
class VTrace:
    """The results of V-trace, both float32 [L, lanes].

    Attributes:
        targets: v_s, which the critic learns.
        advantages: A_s = rho_s (r_s + gamma v_{s+1} - V(s)).
    """

    targets: np.ndarray
    advantages: np.ndarray


def vtrace(
    log_ratios: np.ndarray,
    rewards: np.ndarray,
    values: np.ndarray,
    next_values: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
    *,
    gamma: float,
    lam: float = 1.0,
) -> VTrace:
    """v_s = V(s) + delta_s + gamma c_s (v_{s+1} - V(s+1)), delta_s = rho_s (r_s + gamma V(s+1) - V(s)),
    rho = min(1, target / behaviour), c = lam rho.

    Args:
        log_ratios: log of target over behaviour policy at the action taken, float [L, lanes].
        rewards: r_s, float [L, lanes].
        values: V(s), float [L, lanes].
        next_values: V of the observation that followed the step, before any reset, float [L, lanes]; see
            `gae.next_values`. Not read where terminated.
        terminated: the step ended its episode in a terminal state, bool [L, lanes].
        truncated: the step ended its episode by a limit, bool [L, lanes]. The step bootstraps, but traces
            stop there.
        gamma: discount per step.
        lam: shortens the traces (ibid., remark 2); 1 is plain V-trace.

    Raises:
        ValueError: the arrays differ in shape.
    """
    check(
        rewards.shape,
        "rewards",
        {
            "log_ratios": log_ratios,
            "values": values,
            "next_values": next_values,
            "terminated": terminated,
            "truncated": truncated,
        },
    )
    rho = np.exp(np.minimum(log_ratios, 0.0), dtype=np.float64)
    bootstraps = np.where(terminated, 0.0, next_values)
    delta = rho * (rewards + gamma * bootstraps - values)
    ended = terminated | truncated
    excess = _backward_sums(delta.copy(), np.where(ended, 0.0, gamma * lam * rho))  # v_s - V(s)
    # v_{s+1} - V(s+1) is zero after the end of an episode or of the fragment, where V itself bootstraps.
    following = np.concatenate([excess[1:], np.zeros_like(excess[:1])])
    advantages = delta + gamma * rho * np.where(ended, 0.0, following)
    return VTrace((values + excess).astype(np.float32), advantages.astype(np.float32))


@dataclass(frozen=True, slots=True)
class TracedRollouts:
    """V-trace of fragments, by row, f32 [N] each.

    Attributes:
        values: V(s) of the critic.
        targets: see `VTrace`.
        advantages: see `VTrace`; not standardised.
    """

    values: np.ndarray
    targets: np.ndarray
    advantages: np.ndarray


def traced(
    rollouts: PolicyRollouts,
    rewards: Sequence[np.ndarray],
    log_ratios: np.ndarray,
    critic: Callable[[When], np.ndarray],
    *,
    gamma: float,
    lam: float = 1.0,
) -> TracedRollouts:
    """`vtrace` of fragments.

    Args:
        rewards: f32 [L, lanes] of each fragment, as the critic sees them.
        log_ratios: log of target over behaviour policy at the actions taken, f32 [N].
        critic: V of the observations of that kind, f32 [n].
        gamma: discount per step.
        lam: shortens the traces.
    """
    values, following = rollouts.valued(critic)
    trace = vtrace(
        rollouts.by_lane(log_ratios),
        np.concatenate(rewards, axis=1),
        values,
        following,
        rollouts.terminated,
        rollouts.truncated,
        gamma=gamma,
        lam=lam,
    )
    return TracedRollouts(*map(rollouts.by_row, (values, trace.targets, trace.advantages)))


def _backward_sums(terms: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """x_t = terms_t + factors_t x_{t+1} along the first axis, x = 0 behind the end; float64.

    Doubles the span of each sum until it covers the lane, log2 L vectorised passes instead of L steps of a
    Python loop, which take several times as long. Destroys its arguments.
    """
    span, length = 1, len(terms)
    while span < length:
        terms[:-span] += factors[:-span] * terms[span:]
        factors[:-span] *= factors[span:]
        factors[-span:] = 0.0
        span *= 2
    return terms
