"""The panels of a run's picture, and what only the picture of a single run shows in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nitro_learner.run.views.plot_groups import RunCurves
from nitro_learner.run.views.plot_style import COLOURS, INK

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


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

_FINAL: dict[str, Any] = {"marker": "D", "ms": 7, "color": COLOURS[1], "ls": ""}
_TARGET: dict[str, Any] = {"color": INK, "lw": 1.0, "ls": "--"}


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
