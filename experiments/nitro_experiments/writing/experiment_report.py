"""An experiment's report: report.md with its tables, report.html, runs.csv, curves.csv and pictures."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from nitro_experiments import statistics
from nitro_experiments.planning.plan import slug
from nitro_experiments.planning.spec import SCORES, Experiment
from nitro_experiments.reading.curves import UNITS
from nitro_experiments.reading.folder import ExperimentDir
from nitro_experiments.reading.price_list import PriceList
from nitro_experiments.reading.results import Comparison, Line, Results, collect, rows
from nitro_experiments.writing import (
    cells,
    conclusions,
    equal_cost,
    gain_shape,
    left_out,
    provenance,
    question_answers,
    tables,
)
from nitro_experiments.writing.cells import SEEDS_FOR_A_VERDICT, Difference
from nitro_experiments.writing.figures import TITLES, draw_metric, draw_overview
from nitro_learner.run.rundir import RunDirError, write_text
from nitro_learner.run.views import markdown_page
from nitro_learner.run.views.markdown_sections import parts, replace

_Priced = Sequence[tuple[PriceList, Sequence[Results]]]
"""Price lists with the results that have their modelled costs."""


def write(
    folder: ExperimentDir,
    experiment: Experiment,
    prices: Sequence[PriceList] = (),
    *,
    opening: str = "",
    searched: str = "",
    busy: bool = False,
) -> str:
    """Write everything into the folder and return the text of report.md.

    Args:
        prices: adds what the runs would have cost by each of these lists.
        opening: what the report opens with where a search found nothing to compare.
        searched: the text about the search that found the variants; it stands above the comparison.
        busy: whether the machine did other work beside the runs. Measured costs, which follow the clock, are
            left out.

    Raises:
        RunDirError: no seed is finished by all variants, and nothing was searched. Variants without a
            finished run do not count.
    """
    collected = collect(folder, experiment)
    priced = [(one, collect(folder, experiment, one)) for one in prices]
    results = [one for one in collected if one.seeds]
    if not results and not searched:
        ended = [f" {text}" for one in collected if (text := left_out.ended_early(one))]
        raise RunDirError(
            f"{folder.path}: no seed is finished yet by every variant. Go on with nitro experiment run."
            + "".join(ended)
        )
    finished = list(rows(folder, experiment, collected))
    write_text(folder.path / "runs.csv", cells.csv_text(finished))
    write_text(folder.path / "curves.csv", cells.csv_text(_curves(results, experiment)))
    answer = opening or "\n".join(conclusions.lines(experiment, results, busy=busy, priced=bool(priced)))
    text = "\n".join(_text(folder, experiment, collected, finished, priced, answer, searched, busy)) + "\n"
    write_text(folder.report, text)
    write_text(folder.report_page, markdown_page.page(text, folder.path))
    return text


def insert(text: str, folder: ExperimentDir, name: str, page: Path) -> None:
    """Put a report between its experiment's markers in a Markdown page, and its pictures beside the page.

    A page that does not exist is created. In a page that has other headings, the report's headings are one
    level lower.

    Raises:
        RunDirError: the page exists and lacks the markers.
    """
    section = f"experiment {name}"
    if re.search(r"^#", "".join(parts(page, section)), flags=re.MULTILINE):
        text = re.sub(r"^#", "##", text, flags=re.MULTILINE)
    pictures = {
        picture: f"{name}-{Path(picture).name}" for picture in re.findall(r"\]\(([^)]+\.png)\)", text)
    }
    for picture, new in pictures.items():
        text = text.replace(f"]({picture})", f"]({new})")
    replace(page, section, text)
    for picture, new in pictures.items():
        shutil.copyfile(folder.path / picture, page.parent / new)


def _text(
    folder: ExperimentDir,
    experiment: Experiment,
    collected: Sequence[Results],
    finished: Sequence[Line],
    priced: _Priced,
    answer: str,
    searched: str,
    busy: bool,
) -> Iterator[str]:
    results = [one for one in collected if one.seeds]
    yield f"# {experiment.title or experiment.name}\n"
    yield answer.rstrip() + "\n"
    if experiment.figure:
        yield experiment.figure
    if experiment.scaled_down:
        yield f"\nScaled down: {experiment.scaled_down}"
    if experiment.compared:  # a search may have found nothing to compare
        yield provenance.made_by(folder, experiment, finished)
        yield from left_out.changed_seeds(folder, experiment)
        yield from left_out.environments(collected)
    if searched:
        yield f"\n{searched}"
    if busy:
        yield "The machine did other work at the same time, so what the runs cost by its clock is left out.\n"
    yield from question_answers.table(experiment, results, busy=busy)
    for one in results:
        yield from _environment(folder, experiment, one, priced, busy)
    yield from provenance.how_to_read(experiment)


def _environment(
    folder: ExperimentDir, experiment: Experiment, results: Results, priced: _Priced, busy: bool
) -> Iterator[str]:
    yield f"\n## {results.environment}\n"
    yield left_out.compared(results)
    if len(results.seeds) < SEEDS_FOR_A_VERDICT:
        yield f"\nThese are too few seeds for a verdict, which needs {SEEDS_FOR_A_VERDICT}."
    late = {variant: results.resumed_late(variant) for variant in results.runs}
    if any(share > 0 for share in late.values()):
        told = ", ".join(f"{name} {share:.0%}" for name, share in late.items() if np.isfinite(share))
        yield (
            "\nRollouts that went on from an episode's state older than one round, because the rounds "
            f"between had fewer actors: {told}."
        )
    name = slug(results.environment)
    known = [
        score
        for score in (experiment.score, *(one for one in SCORES if one != experiment.score))
        if all(np.isfinite(results.at_budget(variant, score)).all() for variant in results.runs)
    ]
    if experiment.score in known:
        overview = draw_overview(results, experiment, folder.path / "figures" / f"{name}-overview.png")
        yield f"\n![Return and paired differences]({overview.relative_to(folder.path)})\n"
    else:
        yield f"\nNot every run has a {experiment.score} at the budget, so nothing is compared by it.\n"
    for score in known:
        yield from _score_tables(experiment, results, score, busy)
    yield from gain_shape.table(results, experiment)
    for prices, found in priced:
        (by_list,) = (one for one in found if one.environment == results.environment)
        yield from tables.modelled_costs(by_list, prices, busy=busy)
        yield from equal_cost.table(by_list, experiment)
        yield from gain_shape.best_number(by_list, experiment)
        path = folder.path / "figures" / f"{name}-{experiment.score}-{slug(prices.name)}.png"
        if draw_metric(by_list, experiment, experiment.score, path, modelled=True):
            yield f"![Return against modelled dollars: {prices.name}]({path.relative_to(folder.path)})\n"
    yield from tables.class_returns(results)
    yield from tables.function_costs(results)
    for metric in experiment.figures:
        path = folder.path / "figures" / f"{name}-{metric}.png"
        # The overview has the curves of the score.
        if metric != experiment.score and draw_metric(results, experiment, metric, path):
            yield f"![{TITLES.get(metric, metric)}]({path.relative_to(folder.path)})"
    yield ""


def _score_tables(experiment: Experiment, results: Results, score: str, busy: bool) -> Iterator[str]:
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
            cells.interval(statistics.mean(final)),
            cells.number(statistics.interquartile_mean(final)),
            f"{cells.number(float(final.min()))} to {cells.number(float(final.max()))}",
            cells.interval(statistics.mean(results.over_training(variant, score))),
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
        verdicts = cells.verdicts([Difference(one.difference, seeds) for one in comparisons])
        yield from map(_comparison, comparisons, verdicts)
        yield ""


def _training(results: Results, score: str) -> str:
    """A line that names the interval over which the means over training are taken."""
    start, end = results.training(score)
    unit = UNITS[results.budget.unit]
    if start < end:
        return f"Over training: from {round(start, 4):,.10g} to {end:,.10g} {unit}.\n"
    return "Over training: nothing, because there is no span in which the curves of all runs are known.\n"


def _comparison(one: Comparison, verdict: str) -> str:
    return cells.line(
        [
            f"{one.variant} - {one.other}",
            cells.interval(one.difference, sign=True),
            cells.interval(one.over_training, sign=True),
            f"{one.improvement:.2f}",
            verdict,
        ]
    )


def _curves(results: Sequence[Results], experiment: Experiment) -> Iterator[Line]:
    """What the pictures show, for curves.csv."""
    for one in results:
        for metric in experiment.figures:
            for variant in one.runs:
                band = one.band(variant, metric)
                if band is None:
                    continue
                for x, mean, low, high in zip(band.x, band.mean, band.low, band.high, strict=True):
                    yield {
                        "environment": one.environment,
                        "metric": metric,
                        "variant": variant,
                        one.budget.unit: float(x),
                        "mean": float(mean),
                        "low": float(low),
                        "high": float(high),
                    }
