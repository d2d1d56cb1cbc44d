"""The picture of a run, or of several compared, over steps and over time.

Of one run it shows the return, the length of episodes, how well the learner learns, and the cost beside the
actors; of several the return, the score, the actors and the cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nitro_api.costs.amounts import dollars
from nitro_learner.run.rundir import RunDir
from nitro_learner.run.views.agent_groups import edges_of
from nitro_learner.run.views.plot_axes import x_axis
from nitro_learner.run.views.plot_groups import RunCurves, align, group, read_run, time_unit
from nitro_learner.run.views.plot_style import COLOURS, INK, MUTED, curve_look, picture, thousands

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend
    from matplotlib.lines import Line2D

_FINAL: dict[str, Any] = {"marker": "D", "ms": 7, "color": COLOURS[1], "ls": ""}
_TARGET: dict[str, Any] = {"color": INK, "lw": 1.0, "ls": "--"}
Groups = Mapping[str, Sequence[RunCurves]]
_WIDTH, _TALL, _LOW = 11.0, 2.9, 1.7
"""Inches: width of the picture, height of a panel of returns, and height of the other panels."""
_GAPS = (0.14, 0.09, 0.16)
"""Inches above the title, the line below it and the legend."""
_TITLE_NAMES = 5
_BETWEEN = "  ·  "


@dataclass(frozen=True)
class Panel:
    """A row of the picture. `colour` is that of a single run's curve; `steps` says whether a value holds for
    a whole round. `environment` is the only one whose runs the row shows.
    """

    column: str
    title: str
    colour: str
    steps: bool = False
    environment: str | None = None


@dataclass(frozen=True)
class Axis:
    """What is on the x axis: a column, and the factor to the axis' unit."""

    column: str
    factor: float = 1.0

    @property
    def step(self) -> Literal["mid", "pre"]:
        """Where a round's value is drawn: around its number, or on other axes before its end."""
        return "mid" if self.column == "round" else "pre"


RETURN = Panel("reward_mean", "Return", COLOURS[0])
GROUPS = Panel("groups", "Policy of\neach agent", COLOURS[0])
_SCORE = Panel("boosting_score", "Boosting score", COLOURS[1], steps=True)
_ACTORS = Panel("actors", "Actors", COLOURS[2], steps=True)
_COST = Panel("cost_total", "Cost ($)", COLOURS[3])
_PARTED = replace(_COST, title="Cost ($)\nshaded: learner")
_STEPS = Panel("env_steps", "Environment\nsteps", COLOURS[3])
_LENGTH = Panel("episode_length", "Episode\nlength (steps)", COLOURS[2])
_LEARNING = (
    Panel("explained_variance", "Explained\nvariance", COLOURS[4]),
    Panel("entropy", "Entropy", COLOURS[4]),
    Panel("value_loss", "Value loss", COLOURS[4]),
)
"""What tells whether the learner learns, the most telling first."""


def panels_of(runs: Sequence[RunCurves], x: str) -> list[Panel]:
    """The rows of the picture of these runs. The cost over the cost would be a diagonal."""
    spent = _STEPS if x == "dollars" else _COST
    if len(runs) == 1:
        (run,) = runs
        spent = _PARTED if spent is _COST else spent
        return [
            RETURN,
            *([GROUPS] if run.groups else []),
            *([_LENGTH] if run.has(_LENGTH.column) else []),
            *[panel for panel in _LEARNING if run.has(panel.column)][:1],
            spent,
        ]
    # Returns of two environments have nothing in common, so they share no axis.
    environments = list(dict.fromkeys(run.environment for run in runs))
    returns = [RETURN]
    if len(environments) > 1:
        returns = [
            replace(RETURN, title=f"Return\n{environment}", environment=environment)
            for environment in environments
        ]
    scores = [_SCORE] if any(run.has("boosting_score") for run in runs) else []
    return [*returns, *scores, _ACTORS, spent]


def mark_single(axis: Axes, panel: Panel, run: RunCurves, x: Axis, *, last: bool) -> None:
    """Draw into a panel what only a single run's picture has: the target and the final evaluation, or the
    learner's part of the cost and the actors.

    Args:
        last: whether it is the last column, which has the axis of the actors.
    """
    if panel is RETURN:
        if run.target is not None:
            axis.axhline(run.target, **_TARGET)
        if run.final is not None:
            end = [run.columns[x.column][-1] * x.factor]
            axis.errorbar(
                end, [run.final["mean"]], yerr=[run.final["std"]], elinewidth=1.0, clip_on=False, **_FINAL
            )
    elif panel.column == "explained_variance":
        # A critic that has learned nothing yet may be as bad as it likes; the rest is below 1.
        axis.set_ylim(max(-1.05, axis.get_ylim()[0]), 1.05)
    elif panel in (_PARTED, _STEPS):
        if panel is _PARTED:
            learner = run.columns["cost_learner"]
            axis.fill_between(run.columns[x.column] * x.factor, learner, color=panel.colour, alpha=0.15, lw=0)
        _actors_beside(axis, run, x, labelled=last)


def entries(run: RunCurves) -> list[Line2D]:
    """The legend's entries for what `mark_single` draws into the panel of returns."""
    from matplotlib.lines import Line2D

    lines = []
    if run.final is not None:
        lines.append(Line2D([], [], label="final evaluation", **_FINAL))
    if run.target is not None:
        lines.append(Line2D([], [], label=f"target {run.target:g}", **_TARGET))
    return lines


def _actors_beside(axis: Axes, run: RunCurves, x: Axis, *, labelled: bool) -> None:
    """The actors of each round, by an axis of their own; nothing where they are always as many."""
    actors = run.columns["actors"]
    if np.nanmin(actors) == np.nanmax(actors):
        return
    from matplotlib.ticker import MaxNLocator

    beside = axis.twinx()
    xs = run.columns[x.column] * x.factor
    if x.step == "pre":
        xs, actors = np.append(0.0, xs), np.append(actors[:1], actors)
    beside.plot(xs, actors, lw=1.2, color=_ACTORS.colour, drawstyle=f"steps-{x.step}", alpha=0.8)
    beside.set_ylim(bottom=0)
    beside.margins(x=0.01)
    beside.grid(visible=False)
    beside.tick_params(axis="y", colors=_ACTORS.colour, labelright=labelled, right=labelled)
    beside.yaxis.set_major_locator(MaxNLocator(integer=True))
    if labelled:
        beside.set_ylabel("Actors", color=_ACTORS.colour)


def draw(directories: Sequence[Path], out: Path, x: str = "steps") -> Path:
    """Draw the runs to a PNG, as `draw_curves` does.

    Raises:
        RunDirError: a folder is not a run folder, or holds no round.
    """
    return draw_curves(group([read_run(RunDir(directory)) for directory in directories]), out, x)


def draw_curves(groups: Groups, out: Path, x: str) -> Path:
    """Draw the runs to a PNG (or whatever `out` ends in). A group of several is one mean with a band. The
    returns of each environment have a panel of their own.

    Args:
        x: the left column's x axis, steps, round or dollars. The right column's x axis is time.

    Raises:
        ValueError: there is no such axis, or no picture of that kind.
    """
    over = x_axis(x)
    runs = [run for members in groups.values() for run in members]
    panels = panels_of(runs, x)
    heights = [_TALL if panel.column == "reward_mean" else _LOW for panel in panels]
    layout = {"figsize": (_WIDTH, sum(heights)), "sharex": "col", "sharey": "row", "height_ratios": heights}
    with picture(out, nrows=len(panels), ncols=2, **layout) as (figure, axes):
        scale, unit = time_unit(runs)
        columns = (Axis(over.column), Axis("wall_seconds", scale))
        for row, panel in zip(axes, panels, strict=True):
            for axis, on_x in zip(row, columns, strict=True):
                _draw_panel(axis, panel, on_x, groups)
                _mark_toggles(axis, on_x, groups)
                if len(runs) == 1:
                    mark_single(axis, panel, runs[0], on_x, last=axis is row[-1])
            row[0].set_ylabel(panel.title)
            if panel.column == "env_steps":
                thousands(row[0].yaxis)
            if panel.column == "actors":
                row[0].yaxis.get_major_locator().set_params(integer=True)
        if x == "steps":
            thousands(axes[-1][0].xaxis)
        axes[-1][0].locator_params(axis="x", nbins=7, integer=x == "round")
        axes[-1][0].set_xlabel(over.label)
        axes[-1][1].set_xlabel(f"Time ({unit})")
        figure.align_ylabels(axes[:, 0])
        _head(figure, axes[0][0], groups)
    return out


def _draw_panel(axis: Axes, panel: Panel, x: Axis, groups: Groups) -> None:
    if panel is GROUPS:
        _draw_groups(axis, next(iter(groups.values()))[0], x)
        return
    known = False
    for index, runs in enumerate(groups.values()):
        if panel.environment not in (None, runs[0].environment):
            continue
        look: dict[str, Any] = {"color": panel.colour} if len(groups) == 1 else curve_look(index)
        _curve(axis, runs, x, panel, look, filled=panel.steps and len(groups) == 1)
        known = known or any(run.has_return for run in runs)
        if panel.column == "reward_mean":
            _evaluations(axis, runs, x, look["color"])
    axis.margins(x=0.01)
    if panel.column == "reward_mean" and not known:
        axis.text(0.5, 0.5, "no return yet", transform=axis.transAxes, ha="center", va="center", color=MUTED)
        axis.set_yticks([])
    if panel.column == "boosting_score":
        axis.set_ylim(0, 1.05)
    elif panel.column in ("actors", "cost_total", "env_steps", "episode_length"):
        axis.set_ylim(bottom=0)


def _draw_groups(axis: Axes, run: RunCurves, x: Axis) -> None:
    """A run's agents, each in the colour of its policy."""
    assert run.groups is not None
    edges = edges_of(run.columns[x.column] * x.factor, rounds=x.column == "round")
    run.groups.draw(axis, edges, COLOURS)
    axis.margins(x=0.01)


def _mark_toggles(axis: Axes, x: Axis, groups: Groups) -> None:
    """A line where a single run's agents began or ended to share policies."""
    runs = [run for members in groups.values() for run in members]
    if len(runs) == 1 and runs[0].groups:
        edges = edges_of(runs[0].columns[x.column] * x.factor, rounds=x.column == "round")
        for mark in runs[0].groups.marks(edges):
            axis.axvline(mark, color=MUTED, lw=0.8, ls=":")


def _curve(
    axis: Axes, runs: Sequence[RunCurves], x: Axis, panel: Panel, look: Mapping[str, Any], *, filled: bool
) -> None:
    """One group's curve: the run itself, or the mean of several with a band of one standard deviation.

    Args:
        filled: whether the area below a single run's curve is coloured. The colours of several would mix.
    """
    drawstyle = f"steps-{x.step}" if panel.steps else "default"
    step = x.step if panel.steps else None
    if len(runs) == 1:
        xs, ys = runs[0].columns[x.column] * x.factor, runs[0].columns[panel.column]
        if panel.steps and x.step == "pre":
            xs, ys = np.concatenate([[0.0], xs]), np.concatenate([ys[:1], ys])
        axis.plot(xs, ys, lw=1.8, drawstyle=drawstyle, **look)
        if filled:
            axis.fill_between(xs, ys, step=step, color=look["color"], alpha=0.12, lw=0)
        return
    grid, values = align(runs, x.column, panel.column, steps=panel.steps)
    if not len(grid):
        return
    grid, mean, deviation = grid * x.factor, values.mean(axis=0), values.std(axis=0)
    axis.plot(grid, mean, lw=1.8, drawstyle=drawstyle, **look)
    band = mean - deviation, mean + deviation
    axis.fill_between(grid, *band, step=step, color=look["color"], alpha=0.18, lw=0)


def _evaluations(axis: Axes, runs: Sequence[RunCurves], x: Axis, colour: str) -> None:
    """Draw evaluation means as dots, for a single run with their standard deviation. A line joins the dots
    where training returns are missing, or are those of short episodes only."""
    for run in runs:
        columns = run.columns
        played = np.isfinite(columns["evaluation_mean"])
        axis.errorbar(
            columns[x.column][played] * x.factor,
            columns["evaluation_mean"][played],
            yerr=columns["evaluation_std"][played] if len(runs) == 1 else None,
            fmt="o-" if run.short or not run.has("reward_mean") else "o",
            ms=4,
            mfc="white",
            color=colour,
            elinewidth=1.0,
            alpha=0.9 if len(runs) == 1 else 0.4,
        )


def _head(figure: Figure, corner: Axes, groups: Groups) -> None:
    """Put title, subtitle and legend above the panels, where they cover no curve."""
    title, subtitle = titles(groups)
    name = figure.text(0, 0, fill(title, 80), va="top", fontsize=15, fontweight="bold", color=INK)
    # A line may end between its parts, not within one.
    parts = [part.replace(" ", "\N{NO-BREAK SPACE}") for part in subtitle.split(_BETWEEN)]
    what = figure.text(0, 0, fill(_BETWEEN.join(parts), 120), va="top", fontsize=10.5, color=MUTED)
    legend = _legend(figure, groups)
    inches = [artist.get_window_extent().height / figure.dpi for artist in (name, what, legend)]
    below = figure.get_figheight()
    height = below + sum(inches) + sum(_GAPS)
    figure.set_figheight(height)
    figure.tight_layout(rect=(0, 0, 1, below / height), h_pad=1.2, w_pad=1.5)
    left, top = corner.get_position().x0, height
    setters: tuple[Any, ...] = (name.set_position, what.set_position, legend.set_bbox_to_anchor)
    for place, gap, tall in zip(setters, _GAPS, inches, strict=True):
        place((left, (top - gap) / height))
        top -= gap + tall


def _legend(figure: Figure, groups: Groups) -> Legend:
    """Every group of the picture, in as many columns as fit side by side."""
    from matplotlib.lines import Line2D

    single: dict[str, Any] = {"color": RETURN.colour}
    handles = [
        Line2D(
            [], [], lw=1.8, label=_named(label, runs), **(single if len(groups) == 1 else curve_look(index))
        )
        for index, (label, runs) in enumerate(groups.items())
    ]
    runs = [run for members in groups.values() for run in members]
    if any(run.has("evaluation_mean") for run in runs):
        dots = RETURN.colour if len(groups) == 1 else MUTED
        look: dict[str, Any] = {"marker": "o", "ms": 4, "mfc": "white", "ls": ""}
        handles.append(Line2D([], [], color=dots, label="evaluation, mean actions", **look))
    if len(runs) == 1:
        handles += entries(runs[0])
    layout: dict[str, Any] = {"loc": "upper left", "fontsize": 9, "borderpad": 0, "borderaxespad": 0}
    columns = len(handles)
    legend = figure.legend(handles=handles, ncols=columns, **layout)
    while columns > 1 and legend.get_window_extent().width > 0.9 * figure.bbox.width:
        legend.remove()
        columns -= 1
        legend = figure.legend(handles=handles, ncols=columns, **layout)
    return legend


def _named(label: str, runs: Sequence[RunCurves]) -> str:
    """A group's entry in the legend."""
    without = sum(not run.has_return for run in runs)
    notes = [f"{len(runs)} runs"] if len(runs) > 1 else []
    if any(run.short for run in runs):
        notes.append("training returns are those of short episodes")
    if without:
        notes.append("no return yet" if without == len(runs) else f"{without} without a return yet")
    return f"{label} ({', '.join(notes)})" if notes else label


def _result(run: RunCurves) -> list[str]:
    """A run's return, in the words and the digits of the summary; none before the first is known."""
    if run.final is not None:
        return [f"final return {run.final['mean']:,.1f} ± {run.final['std']:,.1f}"]
    mean, what = ("evaluation_mean", "evaluation") if run.short else ("reward_mean", "return")
    values = run.columns[mean]
    return [f"{what} {values[np.isfinite(values)][-1]:,.1f}"] if run.has(mean) else []


def titles(groups: Groups) -> tuple[str, str]:
    """The picture's title and what stands below it."""
    runs = [run for members in groups.values() for run in members]
    first = runs[0]
    names = list(dict.fromkeys(run.name for run in runs))
    title = " · ".join([*names[:_TITLE_NAMES], *(["…"] if len(names) > _TITLE_NAMES else [])])
    environments = dict.fromkeys(run.environment for run in runs)
    algorithms = dict.fromkeys(
        f"{algorithm['name'].upper()} ({algorithm['preset']})"
        for algorithm in (run.spec["algorithm"] for run in runs)
    )
    parts = [", ".join(environments), ", ".join(algorithms)]
    if len(runs) == 1:
        scaling, actors = first.spec["scaling"], first.columns["actors"]
        scaler = scaling.get("entryPoint", scaling["scaler"])
        fewest, most = int(np.nanmin(actors)), int(np.nanmax(actors))
        parts += [
            f"{scaler} scaler, {most if fewest == most else f'{fewest} to {most}'} actors",
            *([f"seed {first.seed}"] if first.seed is not None else []),
            *([first.date] if first.date else []),
            f"{int(first.columns['env_steps'][-1]):,} steps",
            *_result(first),
            dollars(*first.cost)[0],
        ]
    else:
        several = any(len(members) > 1 for members in groups.values())
        parts.append(f"{len(runs)} runs" + (", mean and one standard deviation" if several else ""))
    return title, _BETWEEN.join(parts)
