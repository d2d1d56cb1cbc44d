"""Each class of agents' own return, where agents of several classes play against each other."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from nitro_experiments import statistics
from nitro_experiments.reading.results import Results
from nitro_experiments.writing import cells


def table(results: Results) -> Iterator[str]:
    """The table's lines, a row for each variant; none where the agents are of one class.

    A class has a dash where one of a variant's runs ended without an evaluation. The evaluation is that of a
    run's end, so a variant that goes on beyond the budget has its rounds in its name.
    """
    budget = results.budget.rounds or math.inf
    found = {
        variant: [run.summary.get("evaluation", {}).get("classes", {}) for run in runs]
        for variant, runs in results.runs.items()
    }
    names = list(dict.fromkeys(name for runs in found.values() for run in runs for name in run))
    if len(names) < 2:
        return
    yield "### Return of each class of agents\n"
    yield (
        "Mean return in the last evaluation, summed over the agents of a class. The sum over all agents says "
        "little where one class wins what another loses.\n"
    )
    yield from cells.head(["variant", *(f"`{name}`" for name in names)])
    for variant, runs in found.items():
        returns = [np.array([run.get(name, np.nan) for run in runs], float) for name in names]
        rounds = max(run.summary.get("rounds", 0) for run in results.runs[variant])
        name = f"{variant}, {rounds} rounds" if rounds > budget else variant
        yield cells.line([name, *(cells.interval(statistics.mean(one)) for one in returns)])
    yield ""
