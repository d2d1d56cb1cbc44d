"""Runs as curves over what they have spent, and their values at exactly the budget.

A run ends with the round in which it reaches its budget, so it overshoots by up to a round's actors. Variants
overshoot by different amounts. Every curve is therefore read at the budget by linear interpolation between
the rounds before and after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nitro_api import ResolvedJob
from nitro_learner.run.metrics_file import columns_of, read_metrics
from nitro_learner.run.rundir import RunDir

Floats = NDArray[np.float64]
Columns = Mapping[str, Floats]

SPENT = {
    "rounds": "round",
    "actorRounds": "actor_rounds",
    "envSteps": "env_steps",
    "dollars": "cost_total",
    "modelledDollars": "modelled_cost",
    "modelledSeconds": "modelled_seconds",
}
"""The column with what a run had spent when each of its rounds ended, by unit: those of budgets, and the two
that a price list gives."""

STEPS = frozenset({"actors", "boosting_score", "convexity_ratio"})
"""Metrics that hold for a whole round, not for one moment."""

TRAINING_RETURNS = frozenset({"reward_mean", "reward_round"})
"""Returns of the policy that a round sampled with, which only earlier rounds have paid for."""

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
        steps: whether a value holds for its whole round, which begins at the point before. Otherwise lines
            join the points.
        holds: the x up to which the last value holds; None where that is the last point.
    """

    x: Floats
    y: Floats
    steps: bool = False
    holds: float | None = None

    def values(self, x: Floats) -> Floats:
        """y at each x, all of them where the curve reaches."""
        if self.steps:
            y: Floats = self.y[np.searchsorted(self.x, x).clip(max=len(self.x) - 1)]
        else:
            y = np.interp(x, self.x, self.y)
        return y

    def at(self, x: float) -> float:
        """y at x; NaN where the curve does not reach."""
        if not len(self.x) or not self.x[0] <= x <= (self.x[-1] if self.holds is None else self.holds):
            return float("nan")
        return float(self.values(np.array([x]))[0])

    def mean(self, start: float, end: float) -> float:
        """Mean of y over x from `start` to `end`: the area under the curve divided by its width. NaN where
        `start` is not below `end`, or where the curve does not cover both."""
        if not start < end:
            return float("nan")
        inside = (self.x > start) & (self.x < end)
        x = np.concatenate([[start], self.x[inside], [end]])
        y = np.concatenate([[self.at(start)], self.y[inside], [self.at(end)]])
        return float(np.trapezoid(y, x) / (end - start))

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
    """A run folder's metrics.csv by column, f64 [rounds] with NaN where a cell is empty, and its summary.

    Two columns are computed here. `actor_rounds` is the number of rollouts that the run had learned from. The
    column `actors` does not give it: an off-policy round ends before all its actors have answered, and a slot
    may be lost. `resumed_late` is how many of the round's rollouts went on from an episode's state that was
    older than one round; NaN of an off-policy run, and where episodes do not go on between rounds.
    """

    columns: Columns
    summary: Mapping[str, Any]

    def curve(self, metric: str, unit: str, limit: float = np.inf) -> Curve:
        """A column over what was spent.

        A return belongs to the policy that its round sampled with. Its point therefore lies at what was spent
        before that round. The last point of evaluations is the final policy's. No round sampled with that
        policy, so the newest training return holds to the run's end. Training returns of rounds that began at
        `limit` or later are left out: a run that ended there has none of them.
        """
        x, y = self.columns[SPENT[unit]], self.columns[metric]
        if metric in TRAINING_RETURNS:
            x = np.append(0.0, x[:-1])
        if metric == "evaluation_mean":
            final = self.summary.get("evaluation", {}).get("mean", float("nan"))
            x, y = np.append(0.0, x), np.append(y, final)
        known = np.isfinite(y)
        if metric in TRAINING_RETURNS:
            known &= x < limit
        curve = Curve(x[known], y[known], steps=metric in STEPS)
        if metric in TRAINING_RETURNS:
            return replace(curve, holds=self.end(unit))
        return self._to_the_end(curve, unit)

    def end(self, unit: str) -> float:
        """All that the run has spent."""
        return float(self.spent(unit, "rounds").x[-1])

    def spent(self, unit: str, other: str) -> Curve:
        """What was spent in the unit `other`, over what was spent in `unit`. The curve begins at (0, 0)."""
        x, y = (np.append(0.0, self.columns[SPENT[name]]) for name in (unit, other))
        return self._to_the_end(Curve(x, y), unit, dollars=other == "dollars")

    def _to_the_end(self, curve: Curve, unit: str, *, dollars: bool = False) -> Curve:
        """The curve; where a budget in dollars ended the run, extended to all that the run has cost.

        Costs outside of rounds count for the budget too, for example those of a round that an interruption
        ended. Such a cost may be the one that reached the budget. The last round then lies below the budget.
        """
        total = self.summary.get("cost", {}).get("total", 0.0)
        by_budget = unit == "dollars" and self.summary.get("reason") == "BudgetSpent"
        if not by_budget or not len(curve.x) or total <= curve.x[-1]:
            return curve
        last = total if dollars else curve.y[-1]
        return replace(curve, x=np.append(curve.x, total), y=np.append(curve.y, last))


def read(folder: RunDir, job: ResolvedJob) -> FinishedRun:
    """The run of a resolved job. Raises RunDirError when there is no round in it."""
    columns = columns_of(read_metrics(folder.metrics))
    columns["actor_rounds"] = columns["env_steps"] / job.spec.environment.rollout_length
    environment = job.spec.environment
    goes_on = environment.resume_episodes and not (columns["cut_share"] > 0).any()
    if environment.reset_idle_slots:
        columns["resumed_late"] = columns["actors"] * 0
    elif goes_on and job.spec.algorithm.record.feeding == "rounds":
        columns["resumed_late"] = resumed_late(columns["actors"])
    else:
        columns["resumed_late"] = columns["actors"] * np.nan
    return FinishedRun(columns, folder.read_summary())


def resumed_late(actors: Floats) -> Floats:
    """How many slots of each round go on from an end state that is older than one round, f64 [rounds].

    A round uses as many of the first slots as it has actors. A slot that no round has used yet begins anew.
    """
    late, newest = [], np.zeros(int(actors.max()), np.int64)
    for round, count in enumerate(actors.astype(int), 1):
        used = newest[:count]
        late.append(float(((used > 0) & (used < round - 1)).sum()))
        newest[:count] = round
    return np.array(late)
