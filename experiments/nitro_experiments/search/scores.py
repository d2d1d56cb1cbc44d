"""A trial's score: at each tenth of its budget, and at the budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from nitro_experiments.planning.spec import Experiment
from nitro_experiments.reading.curves import SPENT, FinishedRun
from nitro_experiments.running.places import Columns
from nitro_experiments.search.study import STEPS


def steps_reached(experiment: Experiment, columns: Columns) -> Iterator[tuple[int, float]]:
    """The parts of the budget that a run has passed, and its score after each of them, as the report reads
    it. The last part is left out: it is the budget.

    A score between two rounds is known when both are. So it does not depend on when it is read. Of a job
    whose first rounds are not known any more there is none.
    """
    if (np.diff(columns["round"], prepend=0.0) != 1).any():
        return
    budget = experiment.budget
    assert budget is not None
    curve = FinishedRun(columns, {}).curve(experiment.score, budget.unit)
    for step in range(1, STEPS):
        spent = budget.amount * step / STEPS
        if len(curve.x) and curve.x[-1] >= spent and np.isfinite(score := curve.at(spent)):
            yield step, score


def at_budget(experiment: Experiment, columns: Columns, summary: dict[str, Any]) -> float | None:
    """The score of a run that has ended; None where it has none at the budget."""
    budget = experiment.budget
    assert budget is not None
    score = FinishedRun(columns, summary).curve(experiment.score, budget.unit).at(budget.amount)
    return score if np.isfinite(score) else None


def spent(runs: Sequence[Columns]) -> dict[str, float]:
    """What runs have taken so far, together; empty without runs."""
    named = {"rounds": SPENT["rounds"], "dollars": SPENT["dollars"], "seconds": "wall_seconds"}
    if not runs:
        return {}
    return {name: sum(float(run[column][-1]) for run in runs) for name, column in named.items()}
