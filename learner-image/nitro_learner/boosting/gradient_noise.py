"""How much of a round's gradient is noise: the gradient noise scale (McCandlish et al. 2018, appendix A.1).

The scalers `kungfu` and `efficient` and the mode `noise` of Nitro's read it.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nitro_api.spec.scaling import Scaling
from nitro_learner.boosting.surrogate import Objective, Surrogate, Trajectories


@dataclass(frozen=True, slots=True)
class GradientNoise:
    """Signal and noise of one round's gradient.

    With g_i the gradient's part of trajectory i, which has n_i of the round's K summands:

        G = (|sum g_i|^2 - sum |g_i|^2) / (1 - q),  q = sum (n_i / K)^2
        S = (sum |g_i|^2 - G q) K

    because E |g_i|^2 = G (n_i / K)^2 + S n_i / K^2. Where all n_i are equal, these are the paper's estimates
    with batches of n_i and K.

    Attributes:
        signal: G, an unbiased estimate of the expected gradient's squared norm; below zero where noise hides
            it.
        noise: S, of the trace of the covariance of one transition's gradient; never below zero. A transition
            is the environment's: where agents are not alive, or several share a policy, it stands for fewer
            or more summands than one.
    """

    signal: float
    noise: float

    def snr(self, transitions: int) -> float | None:
        """Signal-to-noise ratio of the gradient of a batch: G over S / transitions. None without noise."""
        return self.signal * transitions / self.noise if self.noise > 0 else None


def gradient_noise(trajectories: Trajectories) -> GradientNoise | None:
    """G and S of a round's objective.

    None where fewer than two trajectories have summands, or where a gradient is not finite.
    """
    function, sizes = trajectories.mean, trajectories.sizes
    if sum(size > 0 for size in sizes) < 2:
        return None
    total: list[Tensor] = [torch.zeros_like(p, dtype=torch.float64) for p in function.parameters]
    squares = 0.0
    for term in function.terms:
        with torch.enable_grad():
            gradients = torch.autograd.grad(term(), list(function.parameters), materialize_grads=True)
        for sum_, gradient in zip(total, gradients, strict=True):
            sum_ += gradient
        squares += _square(gradients)
    whole = _square(total)
    if not math.isfinite(squares) or not math.isfinite(whole):
        return None
    summands = sum(sizes)
    q = sum((size / summands) ** 2 for size in sizes)
    signal = (whole - squares) / (1 - q)
    return GradientNoise(signal, noise=max(0.0, squares - signal * q) * trajectories.transitions)


def _square(tensors: Sequence[Tensor]) -> float:
    """The squared norm of all together, in float64: G is a small difference of such."""
    return sum(float(torch.linalg.vector_norm(t, dtype=torch.float64)) ** 2 for t in tensors)


@dataclass(frozen=True, slots=True)
class NoiseMeasurement:
    """A measurement of a round's gradient noise; see `GradientNoise`.

    Attributes:
        noise: None where there is none: a round of a single trajectory, or a gradient that is not finite.
        snr: of a round with minActors actors.
        seconds: wall time.
    """

    noise: GradientNoise | None
    snr: float | None
    seconds: float


class NoiseMeter:
    """Measure a round's gradient noise at theta_k, the parameters that sampled it.

    Not at the updated parameters, where the detector measures: those were fitted to the same data, so their
    gradient says little about its expectation. A small batch is one environment's trajectory in one fragment,
    rolloutLength / envsPerActor transitions; the big one is the round. Transitions of a trajectory depend on
    each other (they share their episodes' returns), so batches drawn at random from them would look less
    noisy than what another actor brings.

        meter = NoiseMeter(job.spec.scaling, min_actors * rollout_length)
        measurement = meter.measure(algorithm.update(fragments, k).surrogate)
    """

    def __init__(self, scaling: Scaling, transitions: int) -> None:
        """
        Args:
            scaling: resolved. KungFu sees the whole loss, as its workers do, the others the policy's
                objective.
            transitions: of a round with minActors.
        """
        self._objective: Objective = "total" if scaling.scaler == "kungfu" else scaling.surrogate
        self._transitions = transitions

    def measure(self, surrogate: Surrogate) -> NoiseMeasurement:
        begin = time.perf_counter()
        noise = gradient_noise(surrogate.trajectories(self._objective))
        snr = noise.snr(self._transitions) if noise else None
        return NoiseMeasurement(noise, snr, time.perf_counter() - begin)
