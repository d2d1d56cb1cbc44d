"""What the updates of several agents would have cost as serverless functions, beside what was measured."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nitro_experiments import statistics
from nitro_experiments.reading.results import Results
from nitro_experiments.writing import cells
from nitro_learner.run.learner_functions import MEMORY_GB

_MODEL = "modelledLearnerFunctions"


def table(results: Results) -> Iterator[str]:
    """The table's lines, a row for each variant; none for runs of one agent."""
    summaries = {variant: [run.summary for run in runs] for variant, runs in results.runs.items()}
    if not all(_MODEL in summary for found in summaries.values() for summary in found):
        return
    yield "### Cost of the updates, modelled and measured\n"
    yield (
        "Modelled: nothing ran as a function. In a round each policy takes one function of "
        f"{MEMORY_GB:g} GB, each policy of an actor-critic algorithm another for its critic, VDN and QMIX "
        "one in all. A function is billed for the round's update time (`seconds_update`) at the price "
        "`pricing.lambdaGBSecond`. Measured: the learner's machine for the run's whole time, and the actors. "
        "Dollars follow from times, so compare them only if the machine did nothing else; the number of "
        "functions does not. Sums of whole runs, means over seeds.\n"
    )
    heads = [
        "variant",
        "functions",
        "modelled",
        "if no policy were shared",
        "measured learner",
        "measured actors",
    ]
    yield from cells.head(heads)
    for variant, found in summaries.items():
        models = [summary[_MODEL] for summary in found]
        functions = np.array([model["functions"] for model in models], float)
        dollars = [
            *(np.mean([model[name] for model in models]) for name in ("dollars", "withoutSharing")),
            *(np.mean([summary["cost"][name] for summary in found]) for name in ("learner", "actors")),
        ]
        count = cells.interval(statistics.mean(functions))
        yield cells.line([variant, count, *(f"${value:.4f}" for value in dollars)])
    yield ""
