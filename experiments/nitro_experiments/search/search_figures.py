"""The picture of a search: its history, and each field against the score."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nitro_experiments.planning.search_spec import Parameter
from nitro_experiments.search.study import Trial
from nitro_learner.run.views.plot_style import COLOURS, MUTED, picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLUMNS = 3
_MOST_FIELDS = 8
_COMPLETE, _BEST, _PRUNED = COLOURS[0], COLOURS[1], MUTED


def draw(
    trials: Sequence[Trial], space: Mapping[str, Parameter], own: int | None, title: str, path: Path
) -> None:
    """Draw the scores over the trials, and over each of the first eight fields of `space`.

    Args:
        own: number of the trial with the job's own settings; None where there is none.
    """
    fields = list(space)[:_MOST_FIELDS]
    columns = min(_COLUMNS, 1 + len(fields))
    rows = math.ceil((1 + len(fields)) / columns)
    layout = {"nrows": rows, "ncols": columns, "figsize": (11.5, 0.5 + 3.3 * rows), "squeeze": False}
    with picture(path, **layout) as (figure, axes):
        wide = rows * columns - len(fields)  # the history has the places that are left over
        first, *others = axes.flat
        first.set_subplotspec(axes[0][0].get_gridspec()[0, :wide])
        for axis in others[: wide - 1]:
            axis.remove()
        _history(first, trials, own)
        for axis, field in zip(others[wide - 1 :], fields, strict=True):
            _field(axis, trials, field, space[field])
        for axis in figure.axes:
            if axis.get_subplotspec().is_first_col():
                axis.set_ylabel(title)
        below = 0.35 / figure.get_figheight()
        figure.legend(*first.get_legend_handles_labels(), loc="lower left", ncols=4, fontsize=9)
        figure.tight_layout(rect=(0, below, 1, 1))


def _history(axis: Axes, trials: Sequence[Trial], own: int | None) -> None:
    from matplotlib.ticker import MaxNLocator

    complete = [trial for trial in trials if trial.score is not None]
    numbers = [trial.number for trial in complete]
    scores = np.array([trial.score for trial in complete])
    axis.plot(numbers, scores, "o", color=_COMPLETE, ms=5, label="complete")
    pruned = [trial for trial in trials if trial.reached]
    if pruned:
        reached = [trial.reached[1] for trial in pruned if trial.reached]
        axis.plot([trial.number for trial in pruned], reached, "x", color=_PRUNED, ms=5, label="pruned")
    if len(scores):
        axis.step(
            numbers, np.maximum.accumulate(scores), where="post", color=_BEST, lw=1.6, label="best so far"
        )
    for trial in complete:
        if trial.number == own and trial.score is not None:
            axis.axhline(trial.score, color=MUTED, lw=1, ls="--", label="the job's own settings")
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))
    axis.set_xlabel("Trial")


def _field(axis: Axes, trials: Sequence[Trial], field: str, parameter: Parameter) -> None:
    """A point for each trial: complete ones with their score, pruned ones with what they had reached."""
    if parameter.log:
        from matplotlib.ticker import NullFormatter

        axis.set_xscale("log")
        axis.xaxis.set_minor_formatter(NullFormatter())  # its labels would lie upon each other
    labels: list[str] = [str(choice) for choice in parameter.choices or ()]
    if labels:
        axis.set_xticks(range(len(labels)), labels, fontsize=8)
        axis.set_xlim(-0.5, len(labels) - 0.5)
    for trial in trials:
        score = trial.score if trial.score is not None else trial.reached and trial.reached[1]
        if score is None:
            continue
        value: Any = trial.settings[field]
        at = labels.index(str(value)) if labels else value
        marker, colour = ("o", _COMPLETE) if trial.score is not None else ("x", _PRUNED)
        axis.plot([at], [score], marker, color=colour, ms=5)
    axis.set_xlabel(field.removeprefix("spec.").rpartition(".")[2])
