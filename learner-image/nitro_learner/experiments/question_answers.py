"""An experiment's questions and their answers, in the table that stands above all others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from nitro_learner.experiments import cells, statistics
from nitro_learner.experiments.cells import Difference
from nitro_learner.experiments.curves import Floats
from nitro_learner.experiments.results import Results
from nitro_learner.experiments.spec import Experiment


def table(experiment: Experiment, results: Sequence[Results], *, busy: bool = False) -> Iterator[str]:
    """The table's lines: every question in every environment; none where the experiment asks nothing.

    All answers are corrected together, so a file that asks more gets fewer verdicts.

    Args:
        busy: answer by return only. Measured costs say nothing where the machine did other work.
    """
    if not experiment.questions:
        return
    several = len(results) > 1
    texts = ["question", "compared", *(["environment"] if several else [])]
    numbers = ["return at the budget"]
    if not busy:
        numbers += ["cost of the budget", *_cost_of_target(results)]
    rows = [
        (
            [question, f"{variant} - {other}", *([one.environment] if several else [])],
            list(_answers(one, experiment, variant, other, len(numbers))),
        )
        for question, (variant, other) in experiment.questions.items()
        for one in results
    ]
    verdicts = iter(
        cells.verdicts([answer for _, answers in rows for _, answer in answers if answer is not None])
    )
    yield from cells.head([*texts, *numbers], len(texts))
    for asked, answers in rows:
        told = [text if answer is None else f"{next(verdicts)}: {text}" for text, answer in answers]
        yield cells.line([*asked, *told])
    yield ""


def _cost_of_target(results: Sequence[Results]) -> list[str]:
    """The head of the column about the target; none where no environment has one."""
    targets = {one.environment: one.target for one in results if one.target is not None}
    if not targets:
        return []
    if len(targets) == len(results) and len(set(targets.values())) == 1:
        return [f"cost to reach {next(iter(targets.values())):g}"]
    told = ", ".join(f"{environment} {target:g}" for environment, target in targets.items())
    return [f"cost to reach the target ({told})"]


def _answers(
    results: Results, experiment: Experiment, variant: str, other: str, count: int
) -> Iterator[tuple[str, Difference | None]]:
    """The first `count` answers of one row: by return, by what the budget cost, by what the target cost.

    Each is its text, and the difference that it gets a verdict for, if there is one.
    """
    pair = (variant, other)
    if not all(one in results.runs for one in pair):
        told = "ended early" if results.early.keys() & pair else "not finished"
        yield from [(told, None)] * count
        return
    ours, theirs = (results.at_budget(one, experiment.score) for one in pair)
    gain = statistics.paired_difference(ours, theirs)
    if np.isfinite(gain.value):
        yield cells.interval(gain, sign=True), Difference(gain, len(ours))
    else:
        yield "not known", None
    if count > 1:
        yield dearer(*(results.spent(one, "dollars") for one in pair))
    if count > 2:
        priced = results.target is not None
        yield dearer(*(results.price_of_target(one) for one in pair)) if priced else ("no target", None)


def dearer(ours: Floats, theirs: Floats) -> tuple[str, Difference | None]:
    """How much more `ours` cost than `theirs`, over the seeds in which both have a price: the text, and the
    difference that gets a verdict, if there is one.

    There is no verdict where only one of the two has a price in some seed. The seeds that are left out are
    the dear ones of a variant that misses its target more often, so it would look cheap.
    """
    we, they = np.isfinite(ours), np.isfinite(theirs)
    both = we & they
    priced = int(both.sum())
    among = "" if priced == len(both) else f" ({priced} of {len(both)} seeds)"
    # A difference from zero has no percentage. A price is zero where nothing costs anything, or where the
    # first policy had reached the target already.
    if not priced or not theirs[both].all():
        return f"not known{among}", None
    change = statistics.relative_difference(ours[both], theirs[both])
    text = f"{cells.interval(change, sign=True, unit=' %')}{among}"
    if (we != they).any():
        return f"no verdict: {text}", None
    return text, Difference(change, priced, more="dearer", less="cheaper")
