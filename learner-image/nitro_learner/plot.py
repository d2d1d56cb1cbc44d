"""The picture of a run, or of several compared: reward, boosting score, actors and cost, over rounds and over
time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from nitro_learner.look import COLOURS, INK, MUTED, picture
from nitro_learner.rundir import RunDir, columns_of, read_metrics

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class _Panel:
    """A row of the picture; `colour` is that of a single run's curve, `steps` whether a value holds for a
    round.
    """

    column: str
    title: str
    colour: str
    steps: bool


_PANELS = (
    _Panel("reward_mean", "Return", COLOURS[0], steps=False),
    _Panel("boosting_score", "Boosting score", COLOURS[1], steps=True),
    _Panel("actors", "Actors", COLOURS[2], steps=True),
    _Panel("cost_total", "Cost ($)", COLOURS[3], steps=False),
)


@dataclass(frozen=True)
class _Axis:
    """What is on the x axis: a column, and the factor to the axis' unit."""

    column: str
    factor: float

    @property
    def step(self) -> Literal["mid", "pre"]:
        """A round's value belongs around its number, and to the time before its end."""
        return "mid" if self.column == "round" else "pre"


@dataclass(frozen=True)
class Run:
    """One run folder's curves.

    Attributes:
        name: of the job.
        spec: as in job.yaml, without what may differ between seeds of one experiment.
        columns: metrics.csv by column, f64 [rounds], NaN where a cell is empty.
    """

    name: str
    spec: Mapping[str, Any]
    columns: Mapping[str, Floats]


def draw(directories: Sequence[Path], out: Path) -> Path:
    """Draws the runs to a PNG (or whatever `out` ends in). Runs that differ in their seed only become one
    mean with a band.

    Raises:
        RunDirError: a folder is none of a run, or holds no round.
    """
    groups = group([read_run(RunDir(directory)) for directory in directories])
    layout = {"figsize": (11, 9), "sharex": "col", "sharey": "row", "height_ratios": (1.7, 1, 1, 1)}
    with picture(out, nrows=len(_PANELS), ncols=2, **layout) as (figure, axes):
        scale, unit = _time_unit(groups)
        for row, panel in enumerate(_PANELS):
            for axis, x in zip(axes[row], (_Axis("round", 1.0), _Axis("wall_seconds", scale)), strict=True):
                for index, (label, runs) in enumerate(groups.items()):
                    colour = panel.colour if len(groups) == 1 else COLOURS[index % len(COLOURS)]
                    _curve(axis, runs, x, panel, colour, label)
                    if panel.column == "reward_mean":
                        _evaluations(axis, runs, x, colour, labelled=index == 0)
                axis.margins(x=0.01)
            axes[row][0].set_ylabel(panel.title)
            if panel.column != "reward_mean":
                axes[row][0].set_ylim(bottom=0)
        axes[1][0].set_ylim(0, 1.05)
        if len(groups) == len(runs) == 1:
            _learner_cost(axes[3], runs[0], scale)
            axes[3][0].legend(loc="upper left", fontsize=9)
        axes[0][0].legend(loc="upper left", fontsize=9)
        axes[-1][0].set_xlabel("Round")
        axes[-1][1].set_xlabel(f"Time ({unit})")
        figure.align_ylabels(axes[:, 0])
        title, subtitle = titles(groups)
        figure.suptitle(title, x=0.065, y=0.988, ha="left", fontsize=15, fontweight="bold", color=INK)
        figure.text(0.065, 0.951, subtitle, ha="left", va="top", fontsize=10.5, color=MUTED)
        figure.tight_layout(rect=(0, 0, 1, 0.955), h_pad=1.2, w_pad=1.5)
    return out


def read_run(run_dir: RunDir) -> Run:
    """Reads a run folder.

    Raises:
        RunDirError: it is none, or holds no round.
    """
    job = run_dir.read_job()
    columns = columns_of(read_metrics(run_dir.metrics))
    ignored = {"seed", "backend", "actor", "learner", "stop", "suspend"}
    spec = {key: value for key, value in job["spec"].items() if key not in ignored}
    return Run(job.get("metadata", {}).get("name", run_dir.path.name), spec, columns)


def group(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Runs of equal spec together, labelled by the fields in which the groups differ."""
    groups: list[list[Run]] = []
    for run in runs:
        for members in groups:
            if members[0].spec == run.spec:
                members.append(run)
                break
        else:
            groups.append([run])
    flat = [dict(_flatten(members[0].spec)) for members in groups]
    differing = _differing(flat)
    # These names say the most; what follows from them (a schedule, a preset's values) would only crowd the
    # legend.
    telling = [key for key in _PLAIN if key in differing] or differing[:3]
    labels: dict[str, list[Run]] = {}
    for members, each in zip(groups, flat, strict=True):
        alike = [other for other in flat if all(str(other.get(key)) == str(each.get(key)) for key in telling)]
        label = ", ".join(
            str(each.get(key)) if key in _PLAIN else f"{key.split('.')[-1]} {each.get(key)}"
            for key in [*telling, *_differing(alike)[:3]]
        )
        label = label or "last 20 training episodes"
        while label in labels:
            label += "'"
        labels[label] = members
    return labels


_TITLE_NAMES = 5
_PLAIN = ("environment.id", "algorithm.name", "algorithm.preset", "scaling.scaler")


def _differing(specs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Fields that are not equal in all of them, by path."""
    paths = sorted({path for each in specs for path in each})
    return [path for path in paths if len({str(each.get(path)) for each in specs}) > 1]


def _flatten(value: Any, path: str = "") -> list[tuple[str, Any]]:
    if isinstance(value, Mapping):
        return [item for key, child in value.items() for item in _flatten(child, f"{path}.{key}".lstrip("."))]
    return [(path, value)]


def _curve(axis: Axes, runs: Sequence[Run], x: _Axis, panel: _Panel, colour: str, label: str) -> None:
    """One group's curve: the run itself, or the mean of several with a band of one standard deviation."""
    drawstyle = f"steps-{x.step}" if panel.steps else "default"
    step = x.step if panel.steps else None
    if len(runs) == 1:
        xs, ys = runs[0].columns[x.column] * x.factor, runs[0].columns[panel.column]
        if panel.steps and x.step == "pre":
            xs, ys = np.concatenate([[0.0], xs]), np.concatenate([ys[:1], ys])
        axis.plot(xs, ys, color=colour, lw=1.8, label=label, drawstyle=drawstyle)
        if panel.steps:
            axis.fill_between(xs, ys, step=step, color=colour, alpha=0.12, lw=0)
        return
    grid, values = align(runs, x.column, panel.column, steps=panel.steps)
    if not len(grid):
        return
    grid, mean, deviation = grid * x.factor, values.mean(axis=0), values.std(axis=0)
    axis.plot(grid, mean, color=colour, lw=1.8, label=f"{label} ({len(runs)} runs)", drawstyle=drawstyle)
    axis.fill_between(grid, mean - deviation, mean + deviation, step=step, color=colour, alpha=0.18, lw=0)


def _learner_cost(axes: Sequence[Axes], run: Run, scale: float) -> None:
    """The learner's part of a single run's cost, under the curve of the total."""
    for axis, x in zip(axes, (_Axis("round", 1.0), _Axis("wall_seconds", scale)), strict=True):
        axis.lines[0].set_label("learner and actors")
        xs, ys = run.columns[x.column] * x.factor, run.columns["cost_learner"]
        axis.fill_between(xs, ys, color=COLOURS[3], alpha=0.15, lw=0, label="learner")


def align(runs: Sequence[Run], x: str, y: str, *, steps: bool = False) -> tuple[Floats, Floats]:
    """The runs' curves at common positions, where all of them are known: x [n] and values [runs, n]."""
    points = []
    for run in runs:
        known = np.isfinite(run.columns[y])
        points.append((run.columns[x][known], run.columns[y][known]))
    if not all(len(xs) for xs, _ in points):
        return np.empty(0), np.empty((len(runs), 0))
    start, end = max(xs[0] for xs, _ in points), min(xs[-1] for xs, _ in points)
    if x == "round":
        grid = np.arange(start, end + 1)
    else:
        grid = np.linspace(start, end, 200) if end > start else np.empty(0)
    if steps:
        # A round's value holds until the round's end; between two rounds there is nothing.
        return grid, np.array([ys[np.searchsorted(xs, grid).clip(max=len(xs) - 1)] for xs, ys in points])
    return grid, np.array([np.interp(grid, xs, ys) for xs, ys in points])


def _evaluations(axis: Axes, runs: Sequence[Run], x: _Axis, colour: str, *, labelled: bool) -> None:
    """Evaluation means as dots; of one run with their standard deviation."""
    for index, run in enumerate(runs):
        columns = run.columns
        known = np.isfinite(columns["evaluation_mean"])
        if not known.any():
            continue
        axis.errorbar(
            columns[x.column][known] * x.factor,
            columns["evaluation_mean"][known],
            yerr=columns["evaluation_std"][known] if len(runs) == 1 else None,
            fmt="o",
            ms=4,
            mfc="white",
            color=colour,
            elinewidth=1.0,
            alpha=0.9 if len(runs) == 1 else 0.4,
            label="evaluation, mean actions" if labelled and index == 0 else None,
        )


def _time_unit(groups: Mapping[str, Sequence[Run]]) -> tuple[float, str]:
    longest = max(float(run.columns["wall_seconds"][-1]) for runs in groups.values() for run in runs)
    if longest < 300:
        return 1.0, "seconds"
    return (1 / 60, "minutes") if longest < 3 * 3600 else (1 / 3600, "hours")


def titles(groups: Mapping[str, Sequence[Run]]) -> tuple[str, str]:
    """The picture's title and what stands below it."""
    runs = [run for members in groups.values() for run in members]
    first = runs[0]
    names = list(dict.fromkeys(run.name for run in runs))
    title = " · ".join([*names[:_TITLE_NAMES], *(["…"] if len(names) > _TITLE_NAMES else [])])
    environments = dict.fromkeys(run.spec["environment"]["id"] for run in runs)
    algorithms = dict.fromkeys(
        f"{one['name'].upper()} ({one['preset']})" for one in (run.spec["algorithm"] for run in runs)
    )
    parts = [", ".join(environments), ", ".join(algorithms)]
    if len(runs) == 1:
        last = {name: values[np.isfinite(values)][-1:] for name, values in first.columns.items()}
        parts += [
            f"{first.spec['scaling']['scaler']} scaler",
            f"{int(last['env_steps'][0]):,} steps",
            *([f"return {last['reward_mean'][0]:,.0f}"] if len(last["reward_mean"]) else []),
            f"${last['cost_total'][0]:.4f}",
        ]
    else:
        several = any(len(members) > 1 for members in groups.values())
        parts.append(f"{len(runs)} runs" + (", mean and one standard deviation" if several else ""))
    return title, "  ·  ".join(parts)
