"""Agreement of repeated measurements, and rank correlation. Measurements are f64 [rounds, repeats]."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_MOST_HALVINGS = 2000
"""Over more ways to halve them the mean hardly changes, and of 32 repeats there are 300 million."""


def intraclass_correlation(values: Floats) -> float:
    """ICC(1), the share of a single measurement's variance that is between rounds and not between repeats
    (Shrout and Fleiss 1979, one-way random effects); 1 - ICC is the share that is sampling noise. NaN with
    fewer than two rounds or repeats, or without any variance.
    """
    if min(values.shape) < 2:
        return float("nan")
    return _share(*_mean_squares(values), values.shape[1])


def correlation_of_changes(values: Floats) -> float:
    """`intraclass_correlation` of the differences from each round to the next.

    Neighbouring differences hold the same measurement with opposite signs. Noise therefore spreads the means
    of m differences 1 + 1/m times as much as the means of independent ones. The surplus is subtracted. With
    few rounds the result tends to be too low, like that of `intraclass_correlation`.
    """
    changes = values[1:] - values[:-1]
    if min(changes.shape) < 2:
        return float("nan")
    between, within = _mean_squares(changes)
    return _share(between - within / len(changes), within, values.shape[1])


def _mean_squares(values: Floats) -> tuple[float, float]:
    """The mean squares between rounds and within them, from the one-way analysis of variance."""
    rounds, repeats = values.shape
    means = values.mean(axis=1)
    between = repeats * float(means.var(ddof=1))
    within = float(((values - means[:, None]) ** 2).sum()) / (rounds * (repeats - 1))
    return between, within


def _share(between: float, within: float, repeats: int) -> float:
    """The ICC, computed from the mean squares."""
    total = between + (repeats - 1) * within
    return (between - within) / total if total > 0 else float("nan")


def split_half(values: Floats) -> float:
    """Spearman's correlation over rounds between the means of one half of the repeats and of the other,
    averaged over all ways to halve them; with an odd number one repeat is left out. Of more than 2,000 ways,
    it is averaged over 2,000 random ones. NaN with fewer than three rounds or two repeats."""
    rounds, repeats = values.shape
    if rounds < 3 or repeats < 2:
        return float("nan")
    halves = (tuple(values[:, half].mean(axis=1) for half in pair) for pair in _halvings(repeats))
    return float(np.mean([spearman(first, second) for first, second in halves]))


def _halvings(repeats: int) -> Iterator[tuple[list[int], list[int]]]:
    """Pairs of halves of the repeats' indices: every way to halve them, or random ones, which may recur.

    The random ones are the same in every call, so that equal measurements give equal figures.
    """
    half = repeats // 2
    if comb(repeats, half) * comb(repeats - half, half) // 2 > _MOST_HALVINGS:
        rng = np.random.default_rng(0)
        for _ in range(_MOST_HALVINGS):
            order = rng.permutation(repeats).tolist()
            yield order[:half], order[half : 2 * half]
        return
    for first in combinations(range(repeats), half):
        rest = [index for index in range(repeats) if index not in first]
        for second in combinations(rest, half):
            if first < second:
                yield list(first), list(second)


def spearman(x: Floats, y: Floats) -> float:
    """Spearman's rank correlation, ties sharing their mean rank; NaN with fewer than three points or where
    one side does not vary."""
    if len(x) < 3:
        return float("nan")
    a, b = (_ranks(side) for side in (x, y))
    a, b = a - a.mean(), b - b.mean()
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / scale if scale > 0 else float("nan")


def _ranks(values: Floats) -> Floats:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]
