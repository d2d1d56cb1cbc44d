"""Runs as curves over what they have spent, and their values at exactly the budget.

A run ends with the round in which it reaches its budget, so it overshoots by up to a round's actors, and
variants by different amounts. Every curve is therefore read at the budget by linear interpolation between the
rounds before and after it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nitro_learner.rundir import RunDir, columns_of, read_metrics

Floats = NDArray[np.float64]
Columns = Mapping[str, Floats]

SPENT: Mapping[str, Callable[[Columns], Floats]] = {
    "rounds": lambda columns: columns["round"],
    "actorRounds": lambda columns: columns["actors"].cumsum(),
    "envSteps": lambda columns: columns["env_steps"],
    "dollars": lambda columns: columns["cost_total"],
}
"""What a run had spent when each of its rounds ended, f64 [rounds], by the budget's unit."""

STEPS = frozenset({"actors", "boosting_score", "convexity_ratio"})
"""Metrics that a round has, and not a moment."""

UNITS = {
    "rounds": "rounds",
    "actorRounds": "actor-rounds",
    "envSteps": "environment steps",
    "dollars": "dollars",
}


@dataclass(frozen=True)
class Curve:
    """Points (x, y) of one metric of one run, x ascending, without gaps: f64 [n] each.

    Attributes:
        steps: whether a value holds for its whole round, from the point before; else lines join the points.
    """

    x: Floats
    y: Floats
    steps: bool = False

    def values(self, x: Floats) -> Floats:
        """y at each x, all of them within the curve."""
        if self.steps:
            found: Floats = self.y[np.searchsorted(self.x, x).clip(max=len(self.x) - 1)]
        else:
            found = np.interp(x, self.x, self.y)
        return found

    def at(self, x: float) -> float:
        """y at x; NaN where the curve does not reach."""
        if not len(self.x) or x > self.x[-1] or x < self.x[0]:
            return float("nan")
        return float(self.values(np.array([x]))[0])

    def mean(self, end: float) -> float:
        """Mean of y over x from the first point to `end` (the area under the curve by its width)."""
        last = self.at(end)
        inside = self.x < end
        x, y = np.append(self.x[inside], end), np.append(self.y[inside], last)
        return float(np.trapezoid(y, x) / (x[-1] - x[0])) if len(x) > 1 and x[-1] > x[0] else last

    def reaches(self, level: float, end: float) -> float:
        """The first x up to `end` at which y is at least `level`, by linear interpolation; NaN when never."""
        reached = np.flatnonzero(self.y >= level)
        if not len(reached):
            return float("nan")
        index = int(reached[0])
        if index == 0:
            x = float(self.x[0])
        else:
            (x0, x1), (y0, y1) = self.x[index - 1 : index + 1], self.y[index - 1 : index + 1]
            x = float(x0 + (x1 - x0) * (level - y0) / (y1 - y0))
        return x if x <= end else float("nan")


@dataclass(frozen=True)
class FinishedRun:
    """A run folder's metrics.csv by column, f64 [rounds] with NaN where a cell is empty, and its summary."""

    columns: Columns
    summary: Mapping[str, Any]

    def curve(self, metric: str, unit: str) -> Curve:
        """A column over what was spent.

        An evaluation belongs to the policy that its round sampled with, so it lies at what was spent before
        that round; the last point is the final policy's.
        """
        x, y = SPENT[unit](self.columns), self.columns[metric]
        if metric == "evaluation_mean":
            final = self.summary.get("evaluation", {}).get("mean", float("nan"))
            x, y = np.concatenate([[0.0], x]), np.append(y, final)
        known = np.isfinite(y)
        return Curve(x[known], y[known], steps=metric in STEPS)


def read(folder: RunDir) -> FinishedRun:
    """Raises RunDirError when there is no round in it."""
    return FinishedRun(columns_of(read_metrics(folder.metrics)), folder.read_summary())
