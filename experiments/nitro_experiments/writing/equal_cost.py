"""The tables of a report that compare variants at an equal modelled cost, also with the best fixed number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from nitro_experiments.planning.spec import Experiment
from nitro_experiments.reading.curves import Floats
from nitro_experiments.statistics import few_seeds
from nitro_experiments.statistics.results import Results
from nitro_experiments.writing import cells
from nitro_experiments.writing.cells import Difference
from nitro_experiments.writing.question_answers import dearer

_UNIT = "modelledDollars"


def table(results: Results, experiment: Experiment) -> Iterator[str]:
    """The lines: each variant, and each comparison by return and by cost to the target.

    It compares the pairs of the experiment's questions (its comparisons, where it asks nothing). Variants
    without a fixed number of actors are also compared with the fixed number that did best. That number is
    chosen after the fact, so it has luck on its side.
    """
    dollars, target = results.modelled_dollars, results.target
    if not dollars > 0:
        return
    finals = {
        variant: np.array([curve.at(dollars) for curve in results.curves(variant, experiment.score, _UNIT)])
        for variant in results.runs
    }
    if not all(np.isfinite(values).all() for values in finals.values()):
        return
    yield (
        f"At equal modelled cost: returns where each run had spent {cells.dollars(dollars)}, the most at "
        "which all of their returns are known. A variant that goes on beyond the budget is read there, too. "
        "The cost to the target counts wherever a run reached it.\n"
    )
    paid = {} if target is None else {name: _paid(results, experiment, name) for name in results.runs}
    yield from cells.head(
        [
            "variant",
            f"return at {cells.dollars(dollars)}",
            "rounds",
            *([f"cost to reach {target:g}"] if paid else []),
        ]
    )
    for variant, values in finals.items():
        rounds = [run.spent(_UNIT, "rounds").at(dollars) for run in results.runs[variant]]
        row = [variant, cells.interval(few_seeds.mean(values)), cells.number(float(np.mean(rounds)))]
        yield cells.line([*row, *([cells.price(paid[variant])] if paid else [])])
    yield ""
    asked = [(variant, other) for variant, other in experiment.questions.values()] or results.pairs
    pairs = [(variant, other, "") for variant, other in asked if {variant, other} <= set(results.runs)]
    if results.fixed:
        best, by_cost = _best(results.fixed, finals, paid)
        by = f"the cost to reach {target:g}" if by_cost else "the return"
        yield f"The best fixed number in hindsight is that of {best}, by {by}.\n"
        others = [variant for variant in results.runs if variant not in results.fixed]
        pairs += [(name, best, " (best)") for name in others if not {(name, best), (best, name)} & set(asked)]
    compared: list[list[tuple[str, Difference | None]]] = []
    for variant, other, _ in pairs:
        gain = few_seeds.paired_difference(finals[variant], finals[other])
        compared.append([(cells.interval(gain, sign=True), Difference(gain, len(results.seeds)))])
        if paid:
            compared[-1].append(dearer(paid[variant], paid[other]))
    answers = [answer for answers in compared for _, answer in answers if answer is not None]
    verdicts = iter(cells.verdicts(answers))
    if pairs:
        yield from cells.head(["compared", "return", *([f"cost to reach {target:g}"] if paid else [])])
    for (variant, other, mark), answers_of in zip(pairs, compared, strict=True):
        columns = [text if answer is None else f"{next(verdicts)}: {text}" for text, answer in answers_of]
        yield cells.line([f"{variant} - {other}{mark}", *columns])
    yield ""


def _best(fixed: Sequence[str], finals: Mapping[str, Floats], paid: Mapping[str, Floats]) -> tuple[str, bool]:
    """The best of the variants, and whether it is so by the cost to the target: the least mean of those that
    most runs reached it with. Where no run did, it is the best by return."""
    counts = {variant: int(np.isfinite(paid[variant]).sum()) for variant in fixed if paid}
    if not any(counts.values()):
        return max(fixed, key=lambda variant: float(finals[variant].mean())), False
    often = [variant for variant in fixed if counts[variant] == max(counts.values())]
    return min(often, key=lambda variant: float(np.nanmean(paid[variant]))), True


def _paid(results: Results, experiment: Experiment, variant: str) -> Floats:
    """Modelled dollars of each run when its score first reached the target, f64 [seeds]; NaN when never."""
    assert results.target is not None
    curves = results.curves(variant, experiment.score, _UNIT)
    return np.array([curve.reaches(results.target, np.inf) for curve in curves])
