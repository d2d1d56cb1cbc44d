"""Runs that are compared: which of them are repetitions of one experiment, and their curves at common
positions.
"""

import contextlib
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from nitro_api import JobInvalid, load_job, resolve
from nitro_learner.run.metrics_file import columns_of, read_metrics
from nitro_learner.run.rundir import RunDir
from nitro_learner.run.same_job import depends_on_rounds, leaves
from nitro_learner.run.views.agent_groups import AgentGroups, groups_of
from nitro_learner.training.short_episodes import end_short

Floats = NDArray[np.float64]

# These names say the most; what follows from them (a schedule, a preset's values) would only crowd the
# legend.
_PLAIN = ("environment.id", "algorithm.name", "algorithm.preset", "scaling.scaler")
_ROUNDS = "stop.rounds"
_LAST_BYTES = 2**16
"""Of a log: more than its last line has."""
_LONGEST = 30
"""Characters of a value in a label."""


@dataclass(frozen=True)
class RunCurves:
    """One run folder's curves.

    Attributes:
        spec: as in job.yaml, without what may differ between repetitions.
        columns: metrics.csv by column, f64 [rounds], NaN where a cell is empty.
        groups: who played which policy; only for several agents.
        target: return at which the run ends; None where it has none.
        date: day of the last line of its log, as 2026-01-31.
        final: mean and std of the evaluation at its end; None while it has not ended.
        cost: US dollars of the learner and of the actors, the evaluation at the end included.
    """

    path: Path
    name: str
    seed: int | None
    spec: Mapping[str, Any]
    columns: Mapping[str, Floats]
    groups: AgentGroups | None = None
    target: float | None = None
    date: str = ""
    final: Mapping[str, float] | None = None
    cost: tuple[float, float] = (0.0, 0.0)

    @property
    def environment(self) -> str:
        """The environment's id."""
        return str(self.spec["environment"]["id"])

    def has(self, column: str) -> bool:
        """Whether any round has a value of this column."""
        return bool(np.isfinite(self.columns[column]).any())

    @property
    def short(self) -> bool:
        """Whether training returns are those of short episodes only."""
        return end_short(self.columns)

    @property
    def has_return(self) -> bool:
        """Whether there is a training return or an evaluation."""
        return self.has("reward_mean") or self.has("evaluation_mean")


def read_run(run_dir: RunDir) -> RunCurves:
    """Read a run folder.

    Raises:
        RunDirError: the folder is not a run folder, or holds no round.
    """
    job = run_dir.read_job()
    columns = columns_of(read_metrics(run_dir.metrics))
    ignored = {"seed", "backend", "actor", "learner", "stop", "suspend"}
    spec = {key: value for key, value in job["spec"].items() if key not in ignored}
    if (stop := _deciding_stop(job)) is not None:
        spec["stop"] = stop
    name = job.get("metadata", {}).get("name", run_dir.path.name)
    summary = summary_of(run_dir, columns)
    cost = summary.get("cost") or {part: columns[f"cost_{part}"][-1] for part in ("learner", "actors")}
    return RunCurves(
        run_dir.path,
        name,
        job["spec"].get("seed"),
        spec,
        columns,
        groups_of(run_dir, len(columns["round"])),
        target=(job["spec"].get("stop") or {}).get("targetReward"),
        date=f"{_last_event(run_dir):%Y-%m-%d}",
        final=summary.get("evaluation"),
        cost=(float(cost["learner"]), float(cost["actors"])),
    )


def summary_of(run_dir: RunDir, columns: Mapping[str, Floats]) -> dict[str, Any]:
    """What summary.json says of the run's end. Of a run that has gone on since then only its versions: that
    end and that evaluation do not apply.

    Raises:
        RunDirError: it is damaged.
    """
    summary = run_dir.read_summary()
    if summary.get("rounds", math.inf) < columns["round"][-1]:
        return {"versions": summary.get("versions", {})}
    return summary


def _last_event(run_dir: RunDir) -> datetime:
    """When the run wrote the last line of its log. A folder without one has the time of metrics.csv, which
    a copy may not have kept."""
    with (
        contextlib.suppress(OSError, ValueError, KeyError, TypeError, IndexError),
        run_dir.log.open("rb") as log,
    ):
        log.seek(max(0, log.seek(0, os.SEEK_END) - _LAST_BYTES))
        line = log.read(_LAST_BYTES).splitlines()[-1]  # bounded: the log may be a device that never ends
        return datetime.fromisoformat(json.loads(line)["time"]).astimezone()
    return datetime.fromtimestamp(run_dir.metrics.stat().st_mtime)


def _deciding_stop(job: dict[str, Any]) -> Any:
    """What training depends on of spec.stop: all of it may decide where this version cannot read the job."""
    try:
        spec = resolve(load_job(job)).spec
    except (JobInvalid, ValidationError):
        return job["spec"].get("stop")
    return {"rounds": spec.stop.rounds} if depends_on_rounds(spec) else None


def same_seeds(groups: Iterable[Sequence[RunCurves]]) -> list[str]:
    """A sentence for the runs of a group that have one seed: a band over them shows too little deviation."""
    told = []
    for runs in groups:
        for seed in dict.fromkeys(run.seed for run in runs):
            paths = [str(run.path) for run in runs if run.seed == seed]
            if len(paths) > 1:
                told.append(
                    f"{' and '.join(paths)} are runs of one job with one seed, {seed}: they are not "
                    f"independent, but count as {len(paths)} runs of a curve"
                )
    return told


def group(runs: Sequence[RunCurves]) -> dict[str, list[RunCurves]]:
    """Runs of equal spec together, labelled by the fields in which the groups differ."""
    groups: list[list[RunCurves]] = []
    for run in runs:
        for members in groups:
            if members[0].spec == run.spec:
                members.append(run)
                break
        else:
            groups.append([run])
    flat = [{path: value for path, value in leaves(members[0].spec) if value != {}} for members in groups]
    differing = _differing(flat)
    telling = [key for key in _PLAIN if key in differing] or differing[:3]
    labels: dict[str, list[RunCurves]] = {}
    for members, spec in zip(groups, flat, strict=True):
        alike = [other for other in flat if all(str(other.get(key)) == str(spec.get(key)) for key in telling)]
        label = ", ".join(
            str(spec.get(key)) if key in _PLAIN else f"{key.split('.')[-1]} {_short(spec.get(key))}"
            for key in [*telling, *_differing(alike)[:3]]
            if key in spec or key != _ROUNDS  # a group of any number of rounds
        )
        label = label or "last 20 training episodes"
        while label in labels:
            label += "'"
        labels[label] = members
    return labels


def _short(value: Any) -> str:
    """A field's value in a legend. The schedule of fifty rounds would be wider than the picture."""
    text = str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _differing(specs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Paths of the fields that are not equal in all specs."""
    paths = sorted({path for spec in specs for path in spec})
    return [path for path in paths if len({str(spec.get(path)) for spec in specs}) > 1]


def align(runs: Sequence[RunCurves], x: str, y: str, *, steps: bool = False) -> tuple[Floats, Floats]:
    """The curves of those runs that have a value, at common positions where all of them are known.

    Args:
        steps: whether a value holds for its whole round, from the end of the round before.

    Returns:
        x [n] and values [runs, n]; n is 0 where there is nothing in common.
    """
    points, starts = [], []
    for run in runs:
        if run.has(y):
            known = np.isfinite(run.columns[y])
            points.append((run.columns[x][known], run.columns[y][known]))
            # `round` counts the rounds themselves: its positions are not the ends of rounds.
            whole = steps and x != "round"
            starts.append(np.append(0.0, run.columns[x])[np.argmax(known) + (not whole)])
    if not points:
        return np.empty(0), np.empty((0, 0))
    start, end = max(starts), min(xs[-1] for xs, _ in points)
    if x == "round":
        grid = np.arange(start, end + 1)
    else:
        grid = np.linspace(start, end, 200) if end > start else np.empty(0)
    if steps:
        # A round's value holds until the round's end; values are not interpolated between rounds.
        return grid, np.array([ys[np.searchsorted(xs, grid).clip(max=len(xs) - 1)] for xs, ys in points])
    return grid, np.array([np.interp(grid, xs, ys) for xs, ys in points])


def time_unit(runs: Iterable[RunCurves]) -> tuple[float, str]:
    """The factor from seconds to the unit of the time axis, and the unit's name."""
    return time_unit_of(max(float(run.columns["wall_seconds"][-1]) for run in runs))


def time_unit_of(longest: float) -> tuple[float, str]:
    """The same for an axis of so many seconds."""
    if longest < 300:
        return 1.0, "seconds"
    return (1 / 60, "minutes") if longest < 3 * 3600 else (1 / 3600, "hours")
