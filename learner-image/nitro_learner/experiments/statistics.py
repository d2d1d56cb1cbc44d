"""Statistics of few seeds as the field recommends them (Agarwal et al., NeurIPS 2021; their library rliable).

Scores are f64 [seeds]. Where two variants are compared, both have the same seeds in the same order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
RESAMPLES = 10_000
_SEED = 0x4E6974726F
# Resamples at a time: all pairs of 100 seeds are then 40 MB.
_CHUNK = 500


@dataclass(frozen=True)
class Interval:
    """A statistic and its 95 % interval by percentile bootstrap over seeds; NaN limits where there is one
    seed."""

    value: float
    low: float
    high: float

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0


def interquartile_mean(scores: Floats) -> float:
    """Mean of the middle half: a quarter of the scores, rounded down, is left out at each end."""
    cut = len(scores) // 4
    return float(np.sort(scores)[cut : len(scores) - cut].mean())


def mean(scores: Floats) -> Interval:
    """The mean and its interval."""
    return _bootstrap(len(scores), lambda rows: scores[rows].mean(axis=-1))


def mean_band(curves: Floats) -> tuple[Floats, Floats, Floats]:
    """`mean` of each column of f64 [seeds, n]: the means and both limits, f64 [n] each."""
    count = len(curves)
    if count < 2:
        nothing = np.full(curves.shape[1], np.nan)
        return curves.mean(axis=0), nothing, nothing
    rows = np.random.default_rng(_SEED).integers(0, count, (RESAMPLES, count))
    # How often each seed was drawn, so that no resample of whole curves is ever in memory.
    weights = np.stack([(rows == seed).mean(axis=1) for seed in range(count)], axis=1)
    low, high = np.quantile(weights @ curves, [0.025, 0.975], axis=0)
    return curves.mean(axis=0), low, high


def paired_difference(scores: Floats, others: Floats) -> Interval:
    """Mean of scores - others, seed by seed."""
    return mean(scores - others)


def relative_difference(scores: Floats, others: Floats) -> Interval:
    """Difference of the means, seeds paired. Unit: percent of the mean of `others`."""

    def statistic(rows: NDArray[np.int64]) -> Floats:
        return np.asarray(100 * (scores[rows].mean(axis=-1) / others[rows].mean(axis=-1) - 1))

    return _bootstrap(len(scores), statistic)


def probability_of_improvement(scores: Floats, others: Floats) -> Interval:
    """P(X > Y) over all pairs of runs, where a tie counts half.

    It is the Mann-Whitney U statistic divided by its largest value. Each side is resampled separately, as
    rliable does; otherwise a run drawn for both sides would be compared with itself.
    """

    def statistic(rows: NDArray[np.int64], other_rows: NDArray[np.int64]) -> Floats:
        difference = scores[rows][..., :, None] - others[other_rows][..., None, :]
        return np.asarray((np.sign(difference) / 2 + 0.5).mean(axis=(-2, -1)))

    return _bootstrap(len(scores), statistic, draws=2)


def _bootstrap(count: int, statistic: Callable[..., Floats], draws: int = 1) -> Interval:
    """A statistic at all rows, with its interval over resamples of the rows.

    The resamples are the same every time, so that a report can be repeated.

    Args:
        count: number of rows.
        statistic: takes `draws` arrays of row indices [..., count], and returns a value for each resample.
        draws: how many sides are resampled separately.
    """
    value = float(statistic(*[np.arange(count)] * draws))
    if count < 2:
        return Interval(value, float("nan"), float("nan"))
    rows = np.random.default_rng(_SEED).integers(0, count, (draws, RESAMPLES, count))
    values = np.concatenate(
        [statistic(*rows[:, start : start + _CHUNK]) for start in range(0, RESAMPLES, _CHUNK)]
    )
    low, high = np.quantile(values, [0.025, 0.975])
    return Interval(value, float(low), float(high))
