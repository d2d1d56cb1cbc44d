"""The section of a report that says what the runs would have cost by a price list."""

from __future__ import annotations

from collections.abc import Iterator

from nitro_experiments import statistics
from nitro_experiments.reading.price_list import PriceList
from nitro_experiments.reading.results import Results
from nitro_experiments.writing import cells
from nitro_experiments.writing.cells import Difference


def table(results: Results, prices: PriceList, *, busy: bool = False) -> Iterator[str]:
    """The lines of the section: how it is modelled, each variant, and each comparison.

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
        statistics.relative_difference(*(results.spent(one, "modelledDollars") for one in pair))
        for pair in pairs
    ]
    seeds = len(results.seeds)
    verdicts = cells.verdicts([Difference(one, seeds, more="dearer", less="cheaper") for one in compared])
    if pairs:
        yield from cells.head(["compared", "modelled cost of the budget", "verdict"])
    for (variant, other), change, verdict in zip(pairs, compared, verdicts, strict=True):
        told = cells.interval(change, sign=True, unit=" %")
        yield cells.line([f"{variant} - {other}", told, verdict])
    yield ""


def _inputs(prices: PriceList) -> str:
    """What the model takes as given."""
    given = [
        f"{name} {value}"
        for name, value in prices.pricing.model_dump(exclude_unset=True, by_alias=True).items()
    ]
    tables = [f"{one.algorithm} `{one.preset}`" for one in prices.seconds]
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
