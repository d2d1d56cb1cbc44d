"""Tables of a report: scores, costs by a price list, returns of classes of agents, and costs of updates as
functions. Each is given as its lines."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from nitro_experiments.planning.spec import Experiment
from nitro_experiments.reading.curves import UNITS
from nitro_experiments.reading.price_list import PriceList
from nitro_experiments.statistics import few_seeds
from nitro_experiments.statistics.results import Comparison, Results
from nitro_experiments.writing import cells
from nitro_experiments.writing.cells import Difference
from nitro_experiments.writing.figures import TITLES
from nitro_learner.run.learner_functions import MEMORY_GB

_FUNCTIONS = "modelledLearnerFunctions"
"""What a run's summary says of its updates as functions."""


def resumed_late(results: Results) -> Iterator[str]:
    """A line about rollouts that went on from old states, where there are some."""
    late = {variant: results.resumed_late(variant) for variant in results.runs}
    if any(share > 0 for share in late.values()):
        shares = ", ".join(f"{name} {share:.0%}" for name, share in late.items() if np.isfinite(share))
        yield (
            "\nRollouts that went on from an episode's state older than one round, because the rounds "
            f"between had fewer actors: {shares}."
        )


def scores(experiment: Experiment, results: Results, score: str, *, busy: bool) -> Iterator[str]:
    """A score of each variant, and of each comparison."""
    title = TITLES[score]
    yield f"### {title}\n"
    yield _training(results, score)
    target = results.target if score == experiment.score else None
    heads = ["variant", "at the budget", "IQM", "worst to best seed", "over training"]
    heads += ["rounds", "steps"]
    if not busy:
        heads += ["cost"] if target is None else ["cost", f"cost to reach {target:g}"]
    yield from cells.head(heads)
    for variant in results.runs:
        final = results.at_budget(variant, score)
        row = [
            variant,
            cells.interval(few_seeds.mean(final)),
            cells.number(few_seeds.interquartile_mean(final)),
            f"{cells.number(float(final.min()))} to {cells.number(float(final.max()))}",
            cells.interval(few_seeds.mean(results.over_training(variant, score))),
            cells.number(float(results.spent(variant, "rounds").mean())),
            f"{results.spent(variant, 'envSteps').mean():,.0f}",
        ]
        if not busy:
            row.append(f"${results.spent(variant, 'dollars').mean():.4f}")
            row += [] if target is None else [cells.price(results.price_of_target(variant))]
        yield cells.line(row)
    yield ""
    comparisons = results.comparisons(score)
    if comparisons:
        yield cells.line(["compared", "difference at the budget", "difference over training", "P", "verdict"])
        yield cells.line(["---", "---:", "---:", "---:", "---"])
        seeds = len(results.seeds)
        verdicts = cells.verdicts([Difference(comparison.difference, seeds) for comparison in comparisons])
        yield from map(_comparison, comparisons, verdicts)
        yield ""


def _training(results: Results, score: str) -> str:
    """A line that names the interval over which the means over training are taken."""
    start, end = results.training(score)
    unit = UNITS[results.budget.unit]
    if start < end:
        return f"Over training: from {round(start, 4):,.10g} to {end:,.10g} {unit}.\n"
    return "Over training: nothing, because there is no span in which the curves of all runs are known.\n"


def _comparison(comparison: Comparison, verdict: str) -> str:
    return cells.line(
        [
            f"{comparison.variant} - {comparison.other}",
            cells.interval(comparison.difference, sign=True),
            cells.interval(comparison.over_training, sign=True),
            f"{comparison.improvement:.2f}",
            verdict,
        ]
    )


def modelled_costs(results: Results, prices: PriceList, *, busy: bool = False) -> Iterator[str]:
    """What the runs would have cost by a price list: how it is modelled, each variant, and each comparison.

    Args:
        busy: leave out what the runs cost by the clock of a machine that did other work.
    """
    yield f"### Modelled cost: {prices.name}\n"
    yield _inputs(prices)
    yield from cells.head(
        ["variant", "modelled cost", "modelled seconds", *([] if busy else ["measured cost"])]
    )
    for variant in results.runs:
        row = [
            variant,
            cells.dollars(float(results.spent(variant, "modelledDollars").mean())),
            f"{results.spent(variant, 'modelledSeconds').mean():,.1f}",
        ]
        if not busy:
            row.append(cells.dollars(float(results.spent(variant, "dollars").mean())))
        yield cells.line(row)
    yield ""
    pairs = [pair for pair in results.pairs if results.spent(pair[1], "modelledDollars").all()]
    compared = [
        few_seeds.relative_difference(*(results.spent(variant, "modelledDollars") for variant in pair))
        for pair in pairs
    ]
    seeds = len(results.seeds)
    verdicts = cells.verdicts(
        [Difference(change, seeds, more="dearer", less="cheaper") for change in compared]
    )
    if pairs:
        yield from cells.head(["compared", "modelled cost of the budget", "verdict"])
    for (variant, other), change, verdict in zip(pairs, compared, verdicts, strict=True):
        text = cells.interval(change, sign=True, unit=" %")
        yield cells.line([f"{variant} - {other}", text, verdict])
    yield ""


def _inputs(prices: PriceList) -> str:
    """What the model takes as given."""
    given = [
        f"{name} {value}"
        for name, value in prices.pricing.model_dump(exclude_unset=True, by_alias=True).items()
    ]
    tables = [f"{timing.algorithm} `{timing.preset}`" for timing in prices.seconds]
    seconds = (
        f"from the list's table for {' and '.join(tables)}, where a run has the preset's epochs, minibatches "
        "and layers, otherwise its own"
        if tables
        else "those that each run measured"
    )
    actors = "The actors' times and invocations are the runs' own."
    if own := prices.actor_seconds:
        actors = f"An actor takes {own.invocation:g} s and {own.step:g} s a step; evaluations are left out."
    return (
        "Modelled: every run is priced as if it had these machines. "
        f"The learner is {prices.learner}; {', '.join(given)}; "
        f"provisioned concurrency {prices.provisioned_concurrency}. {prices.source} A round takes its "
        "actors' mean time, because they sample beside each other, and the update's and the detector's "
        f"seconds, which are {seconds}. {actors} Queueing, transfer and checkpoints are left out.\n"
    )


def class_returns(results: Results) -> Iterator[str]:
    """The return of each class of agents, a row for each variant; none where the agents are of one class.

    A class has a dash where one of a variant's runs ended without an evaluation. The evaluation is that of a
    run's end, so a variant that goes on beyond the budget has its rounds in its name.
    """
    budget = results.budget.rounds or math.inf
    by_variant = {
        variant: [run.summary.get("evaluation", {}).get("classes", {}) for run in runs]
        for variant, runs in results.runs.items()
    }
    names = list(dict.fromkeys(name for runs in by_variant.values() for run in runs for name in run))
    if len(names) < 2:
        return
    yield "### Return of each class of agents\n"
    yield (
        "Mean return in the last evaluation, summed over the agents of a class. The sum over all agents says "
        "little where one class wins what another loses.\n"
    )
    yield from cells.head(["variant", *(f"`{name}`" for name in names)])
    for variant, runs in by_variant.items():
        returns = [np.array([run.get(name, np.nan) for run in runs], float) for name in names]
        rounds = max(run.summary.get("rounds", 0) for run in results.runs[variant])
        name = f"{variant}, {rounds} rounds" if rounds > budget else variant
        yield cells.line([name, *(cells.interval(few_seeds.mean(values)) for values in returns)])
    yield ""


def function_costs(results: Results) -> Iterator[str]:
    """What the updates of several agents would have cost as serverless functions, beside what was measured: a
    row for each variant; none for runs of one agent."""
    summaries = {variant: [run.summary for run in runs] for variant, runs in results.runs.items()}
    if not all(_FUNCTIONS in summary for run_summaries in summaries.values() for summary in run_summaries):
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
    for variant, run_summaries in summaries.items():
        models = [summary[_FUNCTIONS] for summary in run_summaries]
        costs = [summary["cost"] for summary in run_summaries]
        functions = np.array([model["functions"] for model in models], float)
        dollars = [
            *(np.mean([model[name] for model in models]) for name in ("dollars", "withoutSharing")),
            *(np.mean([cost[name] for cost in costs]) for name in ("learner", "actors")),
        ]
        count = cells.interval(few_seeds.mean(functions))
        yield cells.line([variant, count, *(f"${value:.4f}" for value in dollars)])
    yield ""
