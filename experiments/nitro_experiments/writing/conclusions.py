"""What a report opens with: in sentences, what was found, and whether to keep the settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nitro_experiments.planning.spec import DEFAULT, Experiment
from nitro_experiments.statistics import few_seeds
from nitro_experiments.statistics.results import Results
from nitro_experiments.writing import cells, question_answers
from nitro_experiments.writing.cells import SEEDS_FOR_A_VERDICT, Difference
from nitro_experiments.writing.question_answers import Answered

_VERDICTS = {
    "better": "Shown to be better",
    "worse": "Shown to be worse",
    "no difference shown": "Not shown to be better",
    "too few seeds": f"Too few seeds for a verdict, which needs {SEEDS_FOR_A_VERDICT}",
}


def lines(
    experiment: Experiment, results: Sequence[Results], *, busy: bool = False, priced: bool = False
) -> Iterator[str]:
    """A list with a sentence for each question; of an experiment that asks nothing, for each comparison with
    one of its `against`.

    Args:
        busy: say nothing of measured costs.
        priced: whether sections of price lists follow. There the cheaper variant may be the one to take, so
            no advice is given by return alone.
    """
    if not results:
        yield "- **Nothing is known yet**: no seed is finished by every variant."
    several = len(results) > 1
    for answer in question_answers.answered(experiment, results, busy=busy):
        place = f" in {answer.results.environment}" if several else ""
        sentence, advice = _answer(experiment, results, answer, place, busy)
        yield f"- **{answer.question}** {sentence}{'' if priced else advice}"
    if not experiment.questions:
        for result in results:
            place = f" in {result.environment}" if several else ""
            for sentence, advice in _compared(experiment, result, place):
                yield f"- {sentence}{'' if priced else advice}"
    if priced and results:
        yield "- These answers are by return. The sections by price list say what equal costs buy."
    yield ""


def _answer(
    experiment: Experiment, results: Sequence[Results], answer: Answered, place: str, busy: bool
) -> tuple[str, str]:
    """The answer by return, with each difference in cost that is shown; and what to do."""
    (verdict, text), *costs = answer.answers
    if not verdict:
        return f"{text[0].upper()}{text[1:]}{place}.", ""
    heads = question_answers.heads(results, busy=busy)[1:]
    shown = [
        f" The {head} is {'lower' if cost_verdict == 'cheaper' else 'higher'}, {change}."
        for head, (cost_verdict, change) in zip(heads, costs, strict=True)
        if cost_verdict in ("cheaper", "dearer")
    ]
    pair = answer.variant, answer.other
    sentence = _difference(experiment, answer.results, verdict, pair, text, place)
    cheaper = any(cost_verdict == "cheaper" for cost_verdict, _ in costs)
    return sentence + "".join(shown), "" if cheaper else _advice(experiment, verdict, *pair)


def _compared(experiment: Experiment, results: Results, place: str) -> Iterator[tuple[str, str]]:
    """Each comparison, and what to do."""
    comparisons = results.comparisons(experiment.score)
    seeds = len(results.seeds)
    verdicts = cells.verdicts([Difference(comparison.difference, seeds) for comparison in comparisons])
    for comparison, verdict in zip(comparisons, verdicts, strict=True):
        text = cells.interval(comparison.difference, sign=True)
        pair = comparison.variant, comparison.other
        bold, _, rest = _difference(experiment, results, verdict, pair, text, place).partition(":")
        yield f"**{bold}**:{rest}", _advice(experiment, verdict, *pair)


def _difference(
    experiment: Experiment, results: Results, verdict: str, pair: tuple[str, str], text: str, place: str
) -> str:
    variant, other = pair
    level = cells.number(few_seeds.mean(results.at_budget(other, experiment.score)).value)
    seeds = len(results.seeds)
    return (
        f"{_VERDICTS[verdict]}{place}: `{variant}` against `{other}` changes the return of {level} by "
        f"{text}, {seeds} {'seed' if seeds == 1 else 'seeds'}."
    )


def _advice(experiment: Experiment, verdict: str, variant: str, other: str) -> str:
    """What to do. A control is nothing that one could keep."""
    if other in experiment.permuted or other in experiment.replayed or _by_chance(experiment, other):
        return ""
    if verdict == "better":
        return " Take the settings below." if other == DEFAULT else f" Take `{variant}`."
    return " Keep your settings." if other == DEFAULT else f" Keep `{other}`."


def _by_chance(experiment: Experiment, variant: str) -> bool:
    return experiment.variants[variant].get("spec.scaling.scaler") == "random-score"
