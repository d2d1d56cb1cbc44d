"""An experiment's pictures: a metric over what was spent, and an overview with the paired differences."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from nitro_experiments.planning.spec import Experiment
from nitro_experiments.reading.curves import STEPS, UNITS
from nitro_experiments.statistics.results import Band, Comparison, Results
from nitro_learner.run.views.plot_style import COLOURS, INK, MUTED, picture, thousands

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLES = {
    "reward_mean": "Return, last 20 training episodes",
    "evaluation_mean": "Return, mean actions",
    "actors": "Actors",
    "cost_total": "Cost ($)",
    "boosting_score": "Boosting score",
    "convexity_ratio": "Convexity ratio R",
    "seconds_total": "Seconds per round",
}
_LEGEND_COLUMNS = 7
_MOST_CURVES = len(COLOURS)
"""More of them in one picture cannot be told apart."""
_FEWEST_POINTS = 3
_STRAIGHT = 0.02
"""How far a curve may be from a straight line, as a part of the picture's height."""


def draw_metric(
    results: Results, experiment: Experiment, metric: str, path: Path, *, modelled: bool = False
) -> bool:
    """Draw one metric over the budget or over modelled dollars. Return False where a picture would say
    nothing: the metric was never measured, or only twice, or has straight lines only."""
    bands = {variant: results.band(variant, metric, modelled=modelled) for variant in results.runs}
    known = {variant: band for variant, band in bands.items() if band is not None}
    points = [len(curve.x) for variant in known for curve in results.curves(variant, metric)]
    if not known or max(points) < _FEWEST_POINTS or _straight(list(known.values())):
        return False
    with picture(path, figsize=(7.5, 4.2)) as (figure, axis):
        shown = _curves(axis, results, experiment, metric, modelled=modelled)
        axis.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=9)
        _title(axis, f"{results.environment}: mean and 95 % interval, seeds: {len(results.seeds)}{shown}")
        figure.tight_layout()
    return True


def _straight(bands: Sequence[Band]) -> bool:
    """Whether each curve is a straight line: a constant, or what grows with what was spent."""
    height = max(float(band.mean.max()) for band in bands) - min(float(band.mean.min()) for band in bands)
    return all(
        np.abs(band.mean - np.linspace(band.mean[0], band.mean[-1], len(band.mean))).max()
        <= _STRAIGHT * height
        for band in bands
    )


def drawn(results: Results, experiment: Experiment) -> list[str]:
    """The variants whose curves are drawn, all of them or the first few: those that others are compared with,
    those of the questions, and then in the file's order."""
    asked = [variant for pair in experiment.questions.values() for variant in pair]
    named = dict.fromkeys([*experiment.against, *asked, *results.runs])
    order = [variant for variant in named if variant in results.runs]
    chosen = order[:_MOST_CURVES]
    return [variant for variant in results.runs if variant in chosen]


def draw_overview(results: Results, experiment: Experiment, path: Path) -> Path:
    """Draw the score's curves, and beside them every paired difference at the budget with its interval."""
    comparisons = results.comparisons(experiment.score)
    # A row for each comparison, below a row that names what its group is compared with.
    rows = len(comparisons) + len({comparison.other for comparison in comparisons})
    height = max(4.0, 1.4 + 0.28 * rows)
    points = [len(curve.x) for variant in results.runs for curve in results.curves(variant, experiment.score)]
    if max(points) < _FEWEST_POINTS:  # there are no curves
        with picture(path, figsize=(5.2, height)) as (figure, axis):
            _differences(axis, comparisons, list(results.runs)[:_MOST_CURVES])
            figure.tight_layout()
        return path
    layout = {"ncols": 2, "figsize": (11.5, height), "width_ratios": (1.25, 1)}
    with picture(path, **layout) as (figure, (left, right)):
        shown = _curves(left, results, experiment, experiment.score)
        _title(left, f"{results.environment}, seeds: {len(results.seeds)}, mean and 95 % interval{shown}")
        _differences(right, comparisons, drawn(results, experiment))
        handles, names = left.get_legend_handles_labels()
        columns = max(1, min(len(names), _LEGEND_COLUMNS))
        figure.legend(handles, names, loc="lower left", ncols=columns, fontsize=9, columnspacing=1.4)
        below = 0.3 * -(-len(names) // columns) / height
        figure.tight_layout(w_pad=2, rect=(0, below, 1, 1))
    return path


def _differences(axis: Axes, comparisons: Sequence[Comparison], order: Sequence[str]) -> None:
    """Draw each difference as a point with its interval, in a row of its own; grey where the variant's curve
    is not drawn.

    A point right of zero means that the variant is better than the one it is compared with.
    """
    labels: list[str] = []
    heads: list[int] = []
    for index, comparison in enumerate(comparisons):
        if index == 0 or comparison.other != comparisons[index - 1].other:
            heads.append(len(labels))
            labels.append(f"compared with {comparison.other}")
        place, difference = len(labels), comparison.difference
        colour = COLOURS[order.index(comparison.variant)] if comparison.variant in order else MUTED
        if np.isfinite(difference.low):
            axis.plot([difference.low, difference.high], [place, place], color=colour, lw=2.5)
        axis.plot([difference.value], [place], "o", color=colour, ms=7)
        labels.append(comparison.variant)
    axis.axvline(0, color=MUTED, lw=1)
    axis.set_yticks(range(len(labels)), labels, color=INK)
    for head in heads:
        axis.get_yticklabels()[head].set_fontweight("bold")
    axis.set_ylim(len(labels) - 0.4, -0.6)
    axis.tick_params(axis="y", length=0)
    axis.grid(axis="y", visible=False)
    axis.set_xlabel("Difference of return at the budget")
    # Long names make the axis narrow, and there is no room to the right of it.
    _title(axis, "Paired by seed, 95 % interval; right of 0 is better", "right")


def _curves(
    axis: Axes, results: Results, experiment: Experiment, metric: str, *, modelled: bool = False
) -> str:
    """Draw the curves. Return what the title says of those that are left out; nothing where there is none."""
    shown = drawn(results, experiment)
    for colour, variant in zip(COLOURS, shown, strict=False):
        band = results.band(variant, metric, modelled=modelled)
        if band is None:
            continue
        style = "steps-post" if metric in STEPS else "default"
        axis.plot(band.x, band.mean, lw=1.8, label=variant, drawstyle=style, color=colour)
        axis.fill_between(band.x, band.low, band.high, color=colour, alpha=0.1, lw=0)
    axis.set_xlabel("Modelled dollars" if modelled else UNITS[results.budget.unit].capitalize())
    if results.budget.unit == "envSteps":
        thousands(axis.xaxis)
    axis.set_ylabel(TITLES.get(metric, metric.replace("_", " ").capitalize()))
    axis.margins(x=0.01)
    return "" if len(shown) == len(results.runs) else f"; {len(shown)} of {len(results.runs)} variants"


def _title(axis: Axes, text: str, loc: Literal["left", "right"] = "left") -> None:
    axis.set_title(text, loc=loc, fontsize=10.5, color=MUTED)
