"""An experiment's report: report.md with its tables, report.html, runs.csv, curves.csv and pictures."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nitro_experiments.planning.plan import plan, slug
from nitro_experiments.planning.spec import Experiment
from nitro_experiments.reading.folder import ExperimentDir
from nitro_experiments.reading.price_list import PriceList
from nitro_experiments.reading.readings import read_all
from nitro_experiments.statistics.results import Results, curve_rows, results_of, rows
from nitro_experiments.writing import (
    cells,
    conclusions,
    equal_cost,
    gain_shape,
    left_out,
    markdown_page,
    provenance,
    question_answers,
    tables,
)
from nitro_experiments.writing.cells import SEEDS_FOR_A_VERDICT
from nitro_experiments.writing.figures import TITLES, draw_metric, draw_overview
from nitro_experiments.writing.markdown_sections import parts, replace
from nitro_learner.run.rundir import RunDirError, write_text

_BUSY = "The machine did other work at the same time, so what the runs cost by its clock is left out."


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
    readings = read_all(folder, plan(experiment), prices)
    collected = results_of(experiment, readings.runs)
    priced = [(price_list, results_of(experiment, runs)) for price_list, runs in readings.priced]
    results = [result for result in collected if result.seeds]
    if not results and not searched:
        ended = [f" {text}" for result in collected if (text := left_out.ended_early(result))]
        raise RunDirError(
            f"{folder.path}: no seed is finished yet by every variant. Go on with nitro experiment run."
            + "".join(ended)
        )
    finished = rows(readings.runs, collected)
    answer = opening or "\n".join(conclusions.lines(experiment, results, busy=busy, priced=bool(priced)))
    opened = [
        f"# {experiment.title or experiment.name}\n",
        answer.rstrip() + "\n",
        *([experiment.figure] if experiment.figure else []),
        *([f"\nScaled down: {experiment.scaled_down}"] if experiment.scaled_down else []),
    ]
    if experiment.compared:  # a search may have found nothing to compare
        opened += [
            provenance.made_by(readings.machines, experiment, finished),
            *left_out.changed_seeds(readings.seed_history, experiment),
            *left_out.environments(collected),
        ]
    report = _Report(folder.path, experiment, results, priced, busy)
    text = "\n".join([*opened, *report.lines(searched)]) + "\n"
    write_text(folder.path / "runs.csv", cells.csv_text(finished))
    write_text(folder.path / "curves.csv", cells.csv_text(curve_rows(results, experiment)))
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


@dataclass(frozen=True)
class _Report:
    """The tables and pictures of a report.

    Attributes:
        path: the experiment's folder, for pictures.
        results: of the environments with seeds that count.
        priced: price lists with the results that have their modelled costs.
        busy: see `write`.
    """

    path: Path
    experiment: Experiment
    results: Sequence[Results]
    priced: Sequence[tuple[PriceList, Sequence[Results]]]
    busy: bool

    def lines(self, searched: str) -> Iterator[str]:
        """The text below what a report opens with; `searched` is about the search."""
        if searched:
            yield f"\n{searched}"
        if self.busy:
            yield f"{_BUSY}\n"
        yield from question_answers.table(self.experiment, self.results, busy=self.busy)
        for result in self.results:
            yield from self._environment(result)
        yield from provenance.how_to_read(self.experiment)

    def _environment(self, results: Results) -> Iterator[str]:
        experiment, name = self.experiment, slug(results.environment)
        yield f"\n## {results.environment}\n"
        yield left_out.compared(results)
        if len(results.seeds) < SEEDS_FOR_A_VERDICT:
            yield f"\nThese are too few seeds for a verdict, which needs {SEEDS_FOR_A_VERDICT}."
        yield from tables.resumed_late(results)
        known = [score for score in experiment.scores if results.knows(score)]
        if experiment.score in known:
            overview = draw_overview(results, experiment, self._picture(f"{name}-overview"))
            yield f"\n![Return and paired differences]({overview.relative_to(self.path)})\n"
        else:
            yield f"\nNot every run has a {experiment.score} at the budget, so nothing is compared by it.\n"
        for score in known:
            yield from tables.scores(experiment, results, score, busy=self.busy)
        yield from gain_shape.table(results, experiment)
        for prices, priced_results in self.priced:
            (by_list,) = (result for result in priced_results if result.environment == results.environment)
            yield from self._modelled(by_list, prices)
        yield from tables.class_returns(results)
        yield from tables.function_costs(results)
        for metric in experiment.figures:
            path = self._picture(f"{name}-{metric}")
            # The overview has the curves of the score.
            if metric != experiment.score and draw_metric(results, experiment, metric, path):
                yield f"![{TITLES.get(metric, metric)}]({path.relative_to(self.path)})"
        yield ""

    def _modelled(self, results: Results, prices: PriceList) -> Iterator[str]:
        """What the runs cost by a price list, and what equal costs buy."""
        score = self.experiment.score
        yield from tables.modelled_costs(results, prices, busy=self.busy)
        yield from equal_cost.table(results, self.experiment)
        yield from gain_shape.best_number(results, self.experiment)
        path = self._picture(f"{slug(results.environment)}-{score}-{slug(prices.name)}")
        if draw_metric(results, self.experiment, score, path, modelled=True):
            yield f"![Return against modelled dollars: {prices.name}]({path.relative_to(self.path)})\n"

    def _picture(self, name: str) -> Path:
        return self.path / "figures" / f"{name}.png"
