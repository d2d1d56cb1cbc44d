"""Which pictures a report has, and what is on them."""

from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from experiment_support import pretend, write_spec
from nitro_experiments.planning.plan import plan
from nitro_experiments.planning.search_spec import Parameter
from nitro_experiments.planning.spec import Experiment, load
from nitro_experiments.reading.folder import ExperimentDir
from nitro_experiments.reading.readings import read_all
from nitro_experiments.search import search_figures
from nitro_experiments.search.study import Trial
from nitro_experiments.statistics.results import Results, results_of
from nitro_experiments.writing import figures


@pytest.fixture
def saved(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that were drawn."""
    found: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: found.append(figure))
    return found


def measured(directory: Path, returns: list[float], **changes: Any) -> tuple[Results, Experiment]:
    spec = load(write_spec(directory, seeds=[0, 1], budget={"rounds": len(returns)}, **changes))
    folder = ExperimentDir(directory / "results")
    folder.open(spec)
    for run in plan(spec):
        actors = [1, 3, 2, 4][: len(returns)] if run.variant == "nitro" else [2] * len(returns)
        pretend(folder, run, actors=actors, returns=[one + run.seed for one in returns])
    (results,) = results_of(spec, read_all(folder, plan(spec), []).runs)
    return results, spec


@pytest.mark.parametrize(
    ("returns", "metric", "drawn"),
    [
        ([0, 30, 35, 36], "reward_mean", True),
        ([0, 30, 35, 36], "actors", True),
        ([0, 10, 20, 30], "reward_mean", False),  # straight lines
        ([0, 30], "reward_mean", False),  # two points
        ([0, 30, 35, 36], "boosting_score", False),  # never measured
    ],
)
def test_a_picture_that_says_nothing_is_not_drawn(
    tmp_path: Path, saved: list[Figure], returns: list[float], metric: str, drawn: bool
) -> None:
    results, spec = measured(tmp_path, returns)
    assert figures.draw_metric(results, spec, metric, tmp_path / "one.png") is drawn
    assert len(saved) == drawn


def test_at_most_seven_curves_are_in_one_picture(tmp_path: Path, saved: list[Figure]) -> None:
    variants: dict[str, dict[str, Any]] = {f"v{number}": {} for number in range(9)}
    results, spec = measured(
        tmp_path, [0, 30, 35, 36], variants=variants, questions={"Is it?": ["v8", "v7"]}, against=["v2"]
    )
    assert figures.drawn(results, spec) == ["v0", "v1", "v2", "v3", "v4", "v7", "v8"]
    figures.draw_overview(results, spec, tmp_path / "one.png")
    left, right = saved[0].axes
    assert len(left.lines) == 7
    assert left.get_title(loc="left").endswith("; 7 of 9 variants")
    colours = {line.get_color() for line in left.lines}
    assert len(colours) == 7
    names = [text.get_text() for text in right.get_yticklabels()]
    assert names == ["compared with v2", "v0", "v1", "v3", "v4", "v5", "v6", "v7", "v8"]


def test_a_score_of_two_points_has_differences_and_no_curves(tmp_path: Path, saved: list[Figure]) -> None:
    results, spec = measured(tmp_path, [0, 30])
    figures.draw_overview(results, spec, tmp_path / "one.png")
    assert len(saved[0].axes) == 1


@pytest.mark.parametrize(("fields", "panels"), [(1, 2), (2, 3), (3, 4), (4, 5), (8, 9)])
def test_the_panels_of_a_search_fill_the_page_and_have_labels(
    tmp_path: Path, saved: list[Figure], fields: int, panels: int
) -> None:
    space = {f"spec.f{number}": Parameter(low=0.0, high=1.0) for number in range(fields)}
    trials = [
        Trial(number, "complete", dict.fromkeys(space, number / 4), float(number), None, {}, "")
        for number in range(4)
    ]
    search_figures.draw(trials, space, 0, "Return", tmp_path / "search.png")
    (figure,) = saved
    figure.canvas.draw()
    assert len(figure.axes) == panels
    places = [axis.get_subplotspec() for axis in figure.axes]
    covered = sum(len(one.rowspan) * len(one.colspan) for one in places)
    grid = figure.axes[0].get_subplotspec().get_gridspec()
    assert covered == grid.nrows * grid.ncols, "no place is empty"
    assert all(axis.get_xlabel() for axis in figure.axes)
    firsts = [axis for axis in figure.axes if axis.get_subplotspec().is_first_col()]
    assert [axis.get_ylabel() for axis in firsts] == ["Return"] * grid.nrows
    (legend,) = figure.legends
    lowest = min(axis.get_tightbbox().y0 for axis in figure.axes)
    assert legend.get_window_extent().y1 <= lowest, "the legend covers no point"
