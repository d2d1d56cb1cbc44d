"""An experiment's questions and their answers, in the table that stands above all others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from nitro_experiments.planning.spec import Experiment
from nitro_experiments.reading.curves import Floats
from nitro_experiments.statistics import few_seeds
from nitro_experiments.statistics.results import Results
from nitro_experiments.writing import cells
from nitro_experiments.writing.cells import Difference


@dataclass(frozen=True)
class Answered:
    """A question in one environment.

    Attributes:
        results: the runs of the environment.
        variant, other: the two whose difference answers it.
        answers: by return, by what the budget cost, by what the target cost: verdict and text. The verdict is
            empty where there is none.
    """

    question: str
    results: Results
    variant: str
    other: str
    answers: Sequence[tuple[str, str]]


def answered(experiment: Experiment, results: Sequence[Results], *, busy: bool = False) -> list[Answered]:
    """Every question in every environment. All answers are corrected together, so a file that asks more gets
    fewer verdicts.

    Args:
        busy: answer by return only. Measured costs say nothing where the machine did other work.
    """
    count = len(heads(results, busy=busy))
    rows = [
        (question, result, variant, other, list(_answers(result, experiment, variant, other, count)))
        for question, (variant, other) in experiment.questions.items()
        for result in results
    ]
    verdicts = iter(
        cells.verdicts([answer for *_, answers in rows for _, answer in answers if answer is not None])
    )
    return [
        Answered(
            question,
            result,
            variant,
            other,
            [("" if answer is None else next(verdicts), text) for text, answer in answers],
        )
        for question, result, variant, other, answers in rows
    ]


def heads(results: Sequence[Results], *, busy: bool = False) -> list[str]:
    """The heads of the answers' columns."""
    return ["return at the budget", *([] if busy else ["cost of the budget", *_cost_of_target(results)])]


def table(experiment: Experiment, results: Sequence[Results], *, busy: bool = False) -> Iterator[str]:
    """The table's lines; none where the experiment asks nothing. The arguments are those of `answered`."""
    if not experiment.questions:
        return
    several = len(results) > 1
    texts = ["question", "compared", *(["environment"] if several else [])]
    yield from cells.head([*texts, *heads(results, busy=busy)], len(texts))
    for answer in answered(experiment, results, busy=busy):
        asked = [answer.question, f"{answer.variant} - {answer.other}"]
        columns = [f"{verdict}: {text}" if verdict else text for verdict, text in answer.answers]
        yield cells.line([*asked, *([answer.results.environment] if several else []), *columns])
    yield ""


def _cost_of_target(results: Sequence[Results]) -> list[str]:
    """The head of the column about the target; none where no environment has one."""
    targets = {result.environment: result.target for result in results if result.target is not None}
    if not targets:
        return []
    if len(targets) == len(results) and len(set(targets.values())) == 1:
        return [f"cost to reach {next(iter(targets.values())):g}"]
    text = ", ".join(f"{environment} {target:g}" for environment, target in targets.items())
    return [f"cost to reach the target ({text})"]


def _answers(
    results: Results, experiment: Experiment, variant: str, other: str, count: int
) -> Iterator[tuple[str, Difference | None]]:
    """The first `count` answers of one row: by return, by what the budget cost, by what the target cost.

    Each is its text, and the difference that it gets a verdict for, if there is one.
    """
    pair = (variant, other)
    if not all(name in results.runs for name in pair):
        reason = "ended early" if results.early.keys() & pair else "not finished"
        yield from [(reason, None)] * count
        return
    ours, theirs = (results.at_budget(name, experiment.score) for name in pair)
    gain = few_seeds.paired_difference(ours, theirs)
    if np.isfinite(gain.value):
        yield cells.interval(gain, sign=True), Difference(gain, len(ours))
    else:
        yield "not known", None
    if count > 1:
        yield dearer(*(results.spent(name, "dollars") for name in pair))
    if count > 2:
        priced = results.target is not None
        yield dearer(*(results.price_of_target(name) for name in pair)) if priced else ("no target", None)


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
    change = few_seeds.relative_difference(ours[both], theirs[both])
    text = f"{cells.interval(change, sign=True, unit=' %')}{among}"
    if (we != they).any():
        return f"no verdict: {text}", None
    return text, Difference(change, priced, more="dearer", less="cheaper")
