"""The report's charts: SVG that takes its colours from the page, so that it reads in light and in dark."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from nitro_learner.run.views.agent_groups import AgentGroups, edges_of
from nitro_learner.run.views.plot_axes import X_AXES
from nitro_learner.run.views.plot_style import styled, thousands
from nitro_learner.training.short_episodes import end_short, known

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]
Columns = Mapping[str, Floats]
"""Columns of metrics.csv: f64 [rounds], NaN where a cell is empty."""

Draw = Callable[["Axes", Columns, Floats], None]
"""Draws columns over an x axis."""

POINTS = 500
"""The most points of a curve. For a longer run, the means of equal parts are drawn."""

_INCHES = (4, 2.2)
"""Size of a chart. It is small so that text of 7.5 points is legible on a phone: the page stretches the chart
over the phone's width."""

# Colours that nothing else uses; in the SVG each becomes a variable of the page's style.
_INK, _GRID, _PAPER = "#010101", "#010102", "#010103"
_SERIES = tuple(f"#0102{number:02x}" for number in range(6))
_VARIABLES = {_INK: "--ink", _GRID: "--grid", _PAPER: "--paper"} | {
    colour: f"--series-{number}" for number, colour in enumerate(_SERIES)
}
_ABOVE: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": 0}
"""The place of a legend above the axes, where it covers no curve."""
_LEARNING = {
    "episode_length": "Episode length, steps",
    "policy_loss": "Policy loss",
    "value_loss": "Value loss",
    "kl": "KL divergence of an update",
    "entropy": "Entropy",
    "explained_variance": "Explained variance",
    "clip_fraction": "Clipped fraction of the samples",
    "gradient_norm": "Gradient norm, before clipping",
    "learning_rate": "Learning rate",
}
"""Columns of which each has a chart of its own, with that one's title."""
_STAGES = ("sample", "update", "detect", "dispatch", "evaluate", "checkpoint")


def axes_of(columns: Columns) -> list[str]:
    """The x axes of X_AXES that there is data for, in order."""
    return [
        name
        for name, x in X_AXES.items()
        if x.column in columns and len(columns[x.column]) and np.isfinite(columns[x.column]).all()
    ]


def charts(columns: Columns, x: str, groups: AgentGroups | None = None) -> list[tuple[str, str]]:
    """Title and SVG of every chart that there is data for; dotted lines are toggles of sharing.

    Args:
        columns: at least `round` and that of the axis; the other columns of metrics.csv where they are known.
        x: what the x axis is, of `axes_of(columns)`.
        groups: who played which policy; only for several agents.
    """
    drawn = []
    edges = edges_of(columns[X_AXES[x].column], rounds=x == "round")
    marks = groups.marks(edges) if groups else np.empty(0)

    def lanes(axes: Axes, columns: Columns, xs: Floats) -> None:  # noqa: ARG001
        assert groups is not None
        groups.draw(axes, edges, _SERIES)

    mean = "reward_mean" if known(columns, "reward_mean") else "evaluation_mean"
    # The cost over the cost would be a diagonal.
    spent = (
        ("Environment steps", _steps, ("env_steps",))
        if x == "dollars"
        else ("Cumulative cost, dollars", _cost, ("cost_total",))
    )
    for title, draw, needed in (
        ("Return per episode", _returns, (mean,)),
        ("Boosting score S", _score, ("boosting_score",)),
        ("Convexity ratio R", draw_ratio, ("convexity_ratio",)),
        ("Actors", draw_actors, ("actors",)),
        spent,
        ("Seconds of a round, by stage", _stages, tuple(f"seconds_{stage}" for stage in _STAGES)),
    ):
        if all(known(columns, name) for name in needed):
            drawn.append((title, _svg(draw, columns, x, marks)))
    if groups:
        drawn.insert(1, ("Policy of each agent", _svg(lanes, columns, x, marks)))
    return drawn


def learning_charts(columns: Columns, x: str) -> list[tuple[str, str]]:
    """Title and SVG of each chart that tells how the learner learns, and of the job's info metrics."""
    own = {name: f"{name.removeprefix('info_')}, mean" for name in columns if name.startswith("info_")}
    return [
        (title, _svg(_curve(name), columns, x, np.empty(0)))
        for name, title in (_LEARNING | own).items()
        if known(columns, name)
    ]


def figures(drawn: Sequence[tuple[str, str]]) -> str:
    """Charts with their titles, as HTML."""
    return "".join(f"<figure><figcaption>{escape(title)}</figcaption>{svg}</figure>" for title, svg in drawn)


def thin(values: Floats) -> Floats:
    """At most POINTS values: means of equal parts, empty cells left out."""
    if len(values) <= POINTS:
        return values
    parts = np.array_split(values, POINTS)
    return np.array([part[np.isfinite(part)].mean() if np.isfinite(part).any() else np.nan for part in parts])


def _returns(axes: Axes, columns: Columns, x: Floats) -> None:
    if known(columns, "reward_mean"):
        label, style = "training, last 20 episodes", "-"
        if end_short(columns):
            label, style = "training, short episodes only", ":"
        axes.plot(thin(x), thin(columns["reward_mean"]), color=_SERIES[0], lw=1.6, ls=style, label=label)
    if known(columns, "evaluation_mean"):
        mean = columns["evaluation_mean"]
        std = columns.get("evaluation_std", np.full(len(mean), np.nan))
        played = np.isfinite(mean)
        at, mean, std = (thin(column[played]) for column in (x, mean, std))
        axes.fill_between(at, mean - std, mean + std, color=_SERIES[1], alpha=0.2, lw=0)
        axes.plot(at, mean, color=_SERIES[1], lw=1, marker="o", ms=3, label="evaluation, mean actions ± std")
    axes.legend(**_ABOVE)


def _score(axes: Axes, columns: Columns, x: Floats) -> None:
    axes.plot(thin(x), thin(columns["boosting_score"]), color=_SERIES[2], lw=1.4)
    axes.set_ylim(-0.03, 1.03)


def draw_ratio(axes: Axes, columns: Columns, x: Floats) -> None:
    from matplotlib.ticker import LogLocator, NullFormatter

    ratios = thin(columns["convexity_ratio"])
    axes.plot(thin(x), ratios, color=_SERIES[3], lw=1.4)
    # The ticks below may all lie outside a narrow range; there a linear axis is as good.
    if np.nanmax(ratios) < 5 * np.nanmin(ratios):
        return
    axes.set_yscale("log")
    # Plain numbers: powers of ten have exponents too small for a phone.
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())


def draw_actors(axes: Axes, columns: Columns, x: Floats) -> None:
    at, actors = thin(x), thin(columns["actors"])
    where: Literal["mid", "pre"] = "mid"
    if x is not columns["round"]:
        # On these axes a round's actors are drawn from the round's beginning to its end. Where earlier rounds
        # are not known, neither is the beginning of the first.
        where = "pre"
        if columns["round"][0] == 1:
            at, actors = np.append(0.0, at), np.append(actors[:1], actors)
    axes.step(at, actors, color=_SERIES[4], lw=1.4, where=where)
    axes.set_ylim(bottom=0)


def _cost(axes: Axes, columns: Columns, x: Floats) -> None:
    if "cost_learner" in columns:
        parts = [thin(columns["cost_learner"]), thin(columns["cost_actors"])]
        axes.stackplot(thin(x), parts, colors=_SERIES[:2], labels=["learner", "actors"], alpha=0.75, lw=0)
        axes.legend(loc="upper left")
    else:
        axes.plot(thin(x), thin(columns["cost_total"]), color=_SERIES[0], lw=1.6)
    axes.set_ylim(bottom=0)


def _steps(axes: Axes, columns: Columns, x: Floats) -> None:
    axes.plot(thin(x), thin(columns["env_steps"]), color=_SERIES[0], lw=1.6)
    axes.set_ylim(bottom=0)
    thousands(axes.yaxis)


def _curve(column: str) -> Draw:
    """What draws one column as a line."""

    def curve(axes: Axes, columns: Columns, x: Floats) -> None:
        values = thin(columns[column])
        axes.plot(thin(x), values, color=_SERIES[0], lw=1.4)
        if column == "explained_variance":
            # A critic that has learned nothing yet may be as bad as it likes; the rest is below 1.
            axes.set_ylim(max(-1.05, np.nanmin(values) - 0.05), 1.05)

    curve.__name__ = column  # part of the ids in the SVG
    return curve


def _stages(axes: Axes, columns: Columns, x: Floats) -> None:
    parts = [np.nan_to_num(thin(columns[f"seconds_{stage}"])) for stage in _STAGES]
    axes.stackplot(thin(x), parts, colors=_SERIES, labels=_STAGES, alpha=0.8, lw=0)
    axes.legend(ncols=3, **_ABOVE)
    axes.set_ylim(bottom=0)


def _svg(draw: Draw, columns: Columns, x: str, marks: Floats) -> str:
    """One chart. Text stays text: it has the page's font and colours, and a reader can search it.

    Args:
        marks: positions of dotted lines.
    """
    style: dict[str, Any] = {
        "svg.fonttype": "none",
        # The axis is part of every id, because a browser does not resolve an id in a hidden chart.
        "svg.hashsalt": f"nitro-{x}-{draw.__name__}",
        "font.size": 8,
        "text.color": _INK,
        "axes.edgecolor": _GRID,
        "axes.labelcolor": _INK,
        "xtick.color": _INK,
        "ytick.color": _INK,
        "grid.color": _GRID,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "legend.fontsize": 7.5,
        "legend.frameon": False,
        "axes.xmargin": 0.01,
    }
    with styled(style):
        from matplotlib.figure import Figure

        figure = Figure(figsize=_INCHES, layout="constrained")
        figure.patch.set_alpha(0)
        axes = figure.add_subplot()
        axes.patch.set_alpha(0)
        draw(axes, columns, columns[X_AXES[x].column])
        for mark in marks:
            axes.axvline(mark, color=_INK, lw=0.8, ls=":")
        axes.locator_params(axis="x", nbins=6)
        if x == "steps":
            thousands(axes.xaxis)
        axes.set_xlabel(X_AXES[x].label.lower())
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return _themed(text.getvalue())


def _themed(svg: str) -> str:
    """The bare <svg> element: as wide as the page lets it, in the page's colours."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg))
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, f"var({variable})")
    return re.sub(r"font: ([^;\"]*?)'[^;\"]*", r"font: \1sans-serif", svg)
