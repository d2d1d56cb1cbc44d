"""Nitro's scaler: more actors where a round's data says that they pay most, fewer as training goes on (Nitro,
section 5.3).

    W_n = the last n values of the statistic x, x_k among them
    S_k = (max W - x_k) / (max W - min W) * d^k
    I_{k+1} = clip(floor(I_max * S_k), I_min, I_max)

The paper's x is the convexity ratio R. The other modes put another statistic in its place, each one with the
sign that a low value calls for more actors:

    lambda-min          the Hessian's smallest eigenvalue. R = -lambda_max / lambda_min rises with it. Of the
                        two eigenvalues, samples show this one's changes from round to round best.
    noise               the signal-to-noise ratio of a round's gradient with I_min actors. The lower it is,
                        the more one additional actor adds to an update's gain: the gain with B samples is the
                        greatest gain times 1 / (1 + B_noise / B) (McCandlish et al. 2018, equation 2.6).
    explained-variance  the critic's. The unexplained part of the returns' variance is the variance of the
                        advantages. It makes the policy's gradient noisy; more samples average the noise out.

Where the paper has no rule: without x_k the score is 0 and W stays as it is; with fewer than two values in W
the quotient is 1; with equal values it is 0.5.
"""

import math
from collections import deque
from typing import Any

import numpy as np

from nitro_api import JobSpec
from nitro_learner.scalers.base import Decision, Need, RoundOutcome, Scaler

STATISTICS = {
    "paper": "convexity_ratio",
    "artifact": "convexity_ratio",
    "lambda-min": "lambda_min",
    "noise": "gradient_snr",
    "explained-variance": "explained_variance",
}
"""The statistic that each mode scores, by its name in metrics.csv."""

_LOWEST = {"explained_variance": -1.0}
"""Lower limits of statistics that have no lower bound: one far value would hide all other differences."""

_NEEDS: dict[str, frozenset[Need]] = {
    "paper": frozenset({"curvature"}),
    "artifact": frozenset({"curvature"}),
    "lambda-min": frozenset({"curvature"}),
    "noise": frozenset({"gradient-noise"}),
    "explained-variance": frozenset(),
}


class NitroScaler(Scaler):
    """The boosting score. `mode: artifact` is the formula of the authors' released code instead of the
    paper's."""

    def __init__(self, spec: JobSpec) -> None:
        super().__init__(spec)
        self.needs = _NEEDS[self.scaling.mode]
        self._window: deque[float] = deque(maxlen=self.scaling.window)

    def decide(self, outcome: RoundOutcome) -> Decision:
        value = self.statistic(outcome)
        return (
            self._artifact(outcome, value) if self.scaling.mode == "artifact" else self._paper(outcome, value)
        )

    def statistic(self, outcome: RoundOutcome) -> float | None:
        """x_k; None when it was not measured."""
        name = STATISTICS[self.scaling.mode]
        value = outcome.statistics.get(name)
        return max(value, _LOWEST[name]) if value is not None and name in _LOWEST else value

    def _paper(self, outcome: RoundOutcome, value: float | None) -> Decision:
        if value is None:
            return Decision(self.scaling.min_actors, 0.0)
        self._window.append(value)
        position = self._position(value)
        quotient = 1.0 if position is None else 1 - position
        score = quotient * self.scaling.decay**outcome.round
        return Decision(self.clip(self.scaling.max_actors * score), score)

    def _artifact(self, outcome: RoundOutcome, ratio: float | None) -> Decision:
        """Compare R d^k. Large values give more actors, and no round gets fewer than I_max d^(k^2).

        The released code appends both R d^k and R, so that W holds n / 2 rounds of both. This method does the
        same.
        """
        floor = self.clip(self.scaling.max_actors * self.scaling.decay ** (outcome.round**2))
        if ratio is None:
            return Decision(floor, 0.0)
        decayed = ratio * self.scaling.decay**outcome.round
        self._window.append(decayed)
        position = self._position(decayed)
        score = 1.0 if position is None else position
        self._window.append(ratio)
        return Decision(max(floor, self.clip(self.scaling.max_actors * score)), score)

    def _position(self, value: float) -> float | None:
        """Where a value lies between the window's least (0) and largest (1); None with nothing to compare
        with."""
        if len(self._window) < 2:
            return None
        scale = math.log if self.scaling.normalise == "log" else float
        low, high = scale(min(self._window)), scale(max(self._window))
        if high - low <= 1e-9 * max(1.0, abs(high)):
            return 0.5
        return (scale(value) - low) / (high - low)

    def state_dict(self) -> dict[str, Any]:
        return {"window": list(self._window)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._window = deque(state["window"], maxlen=self.scaling.window)


class RandomScoreScaler(NitroScaler):
    """The control experiment, NitroScaler on a statistic without information: in place of x_k, a value drawn
    uniformly from x_1..x_k by (seed, k), where x is the statistic of the mode. All else is equal.

    Only the comparison with this scaler shows whether the detector helps: both spend the same. The formula
    alone, which gives early rounds more actors by d^k, may beat a fixed number of actors."""

    def __init__(self, spec: JobSpec) -> None:
        super().__init__(spec)
        self._history: list[float] = []

    def statistic(self, outcome: RoundOutcome) -> float | None:
        value = super().statistic(outcome)
        if value is None:
            return None
        self._history.append(value)
        generator = np.random.default_rng([self.seed, outcome.round])
        return float(generator.choice(self._history))

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"history": list(self._history)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._history = list(state["history"])
