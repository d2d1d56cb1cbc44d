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
from nitro_learner.boosting.surrogate import Function, Objective, Surrogate


@dataclass(frozen=True, slots=True)
class GradientNoise:
    """Signal and noise of one round's gradient.

    With B_big transitions in all, g_big their gradient, and |g_small|^2 the mean over parts of B_small
    transitions each:

        G = (B_big |g_big|^2 - B_small |g_small|^2) / (B_big - B_small)
        S = (|g_small|^2 - |g_big|^2) / (1 / B_small - 1 / B_big)

    Attributes:
        signal: G, an unbiased estimate of the expected gradient's squared norm; below zero where noise hides
            it.
        noise: S, of the trace of the covariance of one transition's gradient; never below zero.
    """

    signal: float
    noise: float

    def snr(self, transitions: int) -> float | None:
        """Signal-to-noise ratio of the gradient of a batch: G over S / transitions. None without noise."""
        return self.signal * transitions / self.noise if self.noise > 0 else None


def estimate(small: float, big: float, small_size: int, big_size: int) -> GradientNoise:
    """G and S from the squared norms |g_small|^2 and |g_big|^2."""
    return GradientNoise(
        signal=(big_size * big - small_size * small) / (big_size - small_size),
        noise=(small - big) / (1 / small_size - 1 / big_size),
    )


def gradient_noise(function: Function, size: int) -> GradientNoise | None:
    """G and S of a function of `size` transitions, of which each term has an equal part.

    None with fewer than two terms, or where a gradient is not finite.
    """
    parts = len(function.terms)
    if parts < 2:
        return None
    total: list[Tensor] = [torch.zeros_like(p, dtype=torch.float64) for p in function.parameters]
    squares = 0.0
    for term in function.terms:
        with torch.enable_grad():
            gradients = torch.autograd.grad(term(), list(function.parameters), materialize_grads=True)
        for sum_, gradient in zip(total, gradients, strict=True):
            sum_ += gradient
        # A term is its part's share of the mean: the part's own gradient is `parts` times as long.
        squares += parts * _square(gradients)
    big = _square(total)
    if not math.isfinite(squares) or not math.isfinite(big):
        return None
    return estimate(squares, big, size // parts, size)


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
        noise = gradient_noise(surrogate.trajectories(self._objective), surrogate.size)
        snr = noise.snr(self._transitions) if noise else None
        return NoiseMeasurement(noise, snr, time.perf_counter() - begin)
