"""Statistics of few seeds.

Scores are f64 [seeds]. Where two variants are compared, both have the same seeds in the same order.

Intervals are Student's t over seeds. Percentile and BCa bootstrap intervals are too narrow with 5 to 20
seeds, because resamples of few seeds spread too little. Tests simulate how often an interval holds the true
value.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

Floats = NDArray[np.float64]
_UPPER = 0.975


@dataclass(frozen=True)
class Interval:
    """A statistic and its 95 % interval over seeds, by Student's t.

    Attributes:
        p: the two-sided p-value of the hypothesis that the true value is 0. Limits and p are NaN where there
            is one seed.
    """

    value: float
    low: float
    high: float
    p: float


def interquartile_mean(scores: Floats) -> float:
    """Mean of the middle half: a quarter of the scores, rounded down, is left out at each end."""
    cut = len(scores) // 4
    return float(np.sort(scores)[cut : len(scores) - cut].mean())


def mean(scores: Floats) -> Interval:
    """The mean and its interval."""
    return _interval(float(scores.mean()), scores)


def mean_band(curves: Floats) -> tuple[Floats, Floats, Floats]:
    """`mean` of each column of f64 [seeds, n]: the means and both limits, f64 [n] each."""
    middle = curves.mean(axis=0)
    half = _half_width(curves)
    return middle, middle - half, middle + half


def paired_difference(scores: Floats, others: Floats) -> Interval:
    """Mean of scores - others, seed by seed."""
    return mean(scores - others)


def relative_difference(scores: Floats, others: Floats) -> Interval:
    """Difference of the means, seeds paired. Unit: percent of the mean of `others`.

    The interval is that of a ratio estimator: the ratio r of the means has the error of the mean of
    scores - r others, divided by the mean of `others`.
    """
    ratio = float(scores.mean() / others.mean())
    return _interval(100 * (ratio - 1), 100 * (scores - ratio * others) / others.mean())


def probability_of_improvement(scores: Floats, others: Floats) -> float:
    """P(X > Y) over all pairs of runs, where a tie counts half: the Mann-Whitney U statistic divided by its
    largest value (Agarwal et al., NeurIPS 2021)."""
    return float((np.sign(scores[:, None] - others) / 2 + 0.5).mean())


def holm(values: Sequence[float]) -> list[float]:
    """P-values of several hypotheses, corrected for their number by Holm's method.

    If those below 0.05 are rejected, the chance that any true hypothesis is among them is at most 5 %.
    """
    corrected, highest = [1.0] * len(values), 0.0
    for rank, index in enumerate(np.argsort(values)):
        highest = max(highest, min(1.0, (len(values) - rank) * values[index]))
        corrected[index] = highest
    return corrected


def _interval(value: float, deviating: Floats) -> Interval:
    """The interval of a statistic that varies over seeds as the mean of `deviating` does."""
    half = float(_half_width(deviating))
    if half == 0:  # No seed differs from another.
        return Interval(value, value, value, 0.0 if value else 1.0)
    freedom = len(deviating) - 1
    p = 2 * stdtr(freedom, -abs(value) * stdtrit(freedom, _UPPER) / half) if freedom else math.nan
    return Interval(value, value - half, value + half, float(p))


def _half_width(values: Floats) -> Floats:
    """Half the width of the interval of each column's mean; NaN where there is one seed."""
    count = len(values)
    if count < 2:
        return np.full(values.shape[1:], np.nan)
    return np.asarray(stdtrit(count - 1, _UPPER) * values.std(axis=0, ddof=1) / math.sqrt(count))
