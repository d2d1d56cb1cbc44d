"""The boosting detector: the convexity ratio R_k of the round's objective (Nitro, section 5.2, equation
2)."""

import math
import time
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nitro_api import JobSpec
from nitro_api.spec.scaling import Scaling
from nitro_learner.boosting.hvp import Hessian
from nitro_learner.boosting.lanczos import Extremes, extremes
from nitro_learner.boosting.surrogate import Function, Objective, Surrogate
from nitro_learner.networks.steps import Graphs, graphs_on

RATIO_MIN, RATIO_MAX = 1e-6, 1e6

MOST_IMAGES = 128
"""M of networks with convolutions, at most. A product on an image takes as long as training on it once, and
`tuned` trains on each only 4 times: with M = I_min * T = 1,024 the detector would take three times as long as
the update. 128 is what `paper` has (docs/performance.md)."""


def transitions(spec: JobSpec) -> int:
    """M of a resolved job: I_min * T, what a round has at least, and of images no more than MOST_IMAGES."""
    least = spec.scaling.min_actors * spec.environment.rollout_length
    images = spec.network.type == "conv" or (spec.network.type == "own" and spec.environment.is_atari)
    return min(least, MOST_IMAGES) if images else least


@dataclass(frozen=True, slots=True)
class Measurement:
    """One round's extreme eigenvalues.

    Attributes:
        ratio: R_k in [1e-6, 1e6]; None when there is none (a flat or non-finite Hessian): a detector failure.
        residuals: error bounds of lambda_min and lambda_max.
        iterations: Hessian-vector products used.
        converged: whether both residuals met the tolerance; a ratio that did not converge is used all the
            same.
    """

    ratio: float | None
    lambda_min: float
    lambda_max: float
    residuals: tuple[float, float]
    iterations: int
    converged: bool
    seconds: float


class Detector:
    """Measure R_k on M transitions of each round, the same M in all rounds.

    M must not vary: the extreme eigenvalues of a sampled Hessian shrink roughly as M^-1/2, so a varying M
    would make R measure the batch size. So transitions in which nobody acted are not drawn. Where
    deaths leave fewer than M others, as in a round of minActors actors, all of these are.

        detector = Detector(job.spec.scaling, job.spec.seed, transitions(job.spec))
        measurement = detector.measure(algorithm.update(fragments, k).surrogate, k)
    """

    def __init__(self, scaling: Scaling, seed: int, transitions: int) -> None:
        self.objective: Objective = "total" if scaling.mode == "artifact" else scaling.surrogate
        self._seed = seed
        self._transitions = transitions
        self._graphs: Graphs | None = None

    def measure(self, surrogate: Surrogate, round: int) -> Measurement:
        """Draw M transitions by (seed, round) and return the extremes of the Hessian there.

        Raises:
            ValueError: the surrogate has fewer than M transitions.
        """
        begin = time.perf_counter()
        _, extremes = self.look(surrogate, round)
        return Measurement(
            ratio=convexity_ratio(extremes.smallest, extremes.largest),
            lambda_min=extremes.smallest,
            lambda_max=extremes.largest,
            residuals=extremes.residuals,
            iterations=extremes.iterations,
            converged=extremes.converged,
            seconds=time.perf_counter() - begin,
        )

    def look(self, surrogate: Surrogate, round: int, *, vectors: bool = False) -> tuple[Tensor, Extremes]:
        """What `measure` sees: the transitions drawn, int64 of M at most, and the extremes of the Hessian.

        Raises:
            ValueError: the surrogate has fewer than M transitions.
        """
        if surrogate.size < self._transitions:
            raise ValueError(
                f"round {round} has {surrogate.size} transitions, the detector needs {self._transitions} "
                "(what minActors sample)"
            )
        generator = np.random.default_rng([self._seed, round, 0x4E6974726F])
        drawable = surrogate.drawable
        count = min(self._transitions, len(drawable))
        drawn = np.sort(generator.choice(len(drawable), count, replace=False, shuffle=False))
        rows = drawable[torch.from_numpy(drawn)]
        function = surrogate.function(self.objective, rows)
        if self._graphs is None:
            self._graphs = graphs_on(function.parameters[0].device, "The detector's product")
        return rows, curvature(function, generator, self._graphs, vectors=vectors)


def curvature(
    function: Function,
    generator: np.random.Generator,
    graphs: Graphs | None = None,
    *,
    vectors: bool = False,
) -> Extremes:
    """The extremes of a function's Hessian, from a random start vector. `graphs`: see `Hessian`."""
    with Hessian(function, graphs) as operator:
        start = torch.from_numpy(generator.standard_normal(operator.size))
        return extremes(operator, start.to(operator.device, operator.dtype), vectors=vectors)


def convexity_ratio(smallest: float, largest: float) -> float | None:
    """R = -lambda_max / lambda_min where that makes sense, clipped to [1e-6, 1e6].

    A positive semi-definite Hessian has the largest R (never boost), a negative semi-definite one the
    smallest (boost most). None for a Hessian that is zero or not finite.
    """
    scale = max(abs(smallest), abs(largest))
    if not math.isfinite(smallest) or not math.isfinite(largest) or scale == 0:
        return None
    ratio = max(largest, 0.0) / max(-smallest, 1e-6 * scale)
    return min(max(ratio, RATIO_MIN), RATIO_MAX)
