"""The quality of the boosting detector on a run, and of the other statistics that a scaler could use.

`measure` gives the figures, `lines` and `markdown` show them.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nitro_api import ResolvedJob
from nitro_experiments.planning.plan import PlannedRun
from nitro_experiments.planning.spec import Budget
from nitro_experiments.quality.agreement import (
    correlation_of_changes,
    intraclass_correlation,
    spearman,
    split_half,
)
from nitro_experiments.quality.branches import BranchDir, Gains, branches, gains
from nitro_experiments.quality.choices import boosted, choices
from nitro_experiments.quality.foresight import foretold, over_runs
from nitro_experiments.quality.repeats import repeat
from nitro_experiments.reading.curves import read
from nitro_experiments.reading.folder import machine
from nitro_experiments.running.local_runs import LocalRuns
from nitro_experiments.running.progress import ProgressLines
from nitro_experiments.running.runner import Runner
from nitro_experiments.statistics import few_seeds
from nitro_experiments.statistics.few_seeds import Interval
from nitro_experiments.studies.probe import repeatable
from nitro_experiments.writing import cells
from nitro_learner.boosting.detector import transitions
from nitro_learner.run.logs import finite
from nitro_learner.run.rundir import RunDir, RunDirError
from nitro_learner.training.failures import TrainingFailed

_FEW = 6
_COLUMNS = (
    ("splitHalf", "split-half"),
    ("icc", "ICC"),
    ("iccOfChanges", "of changes"),
    ("noiseShare", "noise"),
    ("foresight", "next round"),
    ("foretellsGain", "gain"),
)


@dataclass(frozen=True)
class Plan:
    """What to measure.

    Attributes:
        rounds: number of rounds to sample again.
        repeats: how many times each of them is sampled.
        gain: number of seeds over which the gain is measured; None where it is not measured.
        factor: multiple of minActors in a branch's next round.
        ahead: number of rounds of a branch.
        jobs: number of branches that train at a time; None for one per core.
    """

    rounds: int
    repeats: int
    gain: int | None
    factor: int
    ahead: int
    jobs: int | None


def measure(runs: Sequence[tuple[RunDir, ResolvedJob]], plan: Plan) -> dict[str, Any]:
    """Everything that is reported; NaN as None.

    Raises:
        RunDirError: the runs are too short, or lack the checkpoints, or another command measures the gain.
        TrainingFailed: branches failed.
    """
    table = {
        name: {"foresight": interval.value, "low": interval.low, "high": interval.high}
        for name, interval in over_runs([foretold(read(folder, job)) for folder, job in runs]).items()
    }
    remeasured = _look_again(*runs[0], table, plan) if len(runs) == 1 else {}
    if not table:
        raise RunDirError(
            "no statistic of these runs can be correlated with the next round's improvement. Give runs of at "
            "least 5 rounds, in which the return does not always change alike."
        )
    return {"runs": len(runs), "statistics": {name: finite(row) for name, row in table.items()}, **remeasured}


def _look_again(
    folder: RunDir, job: ResolvedJob, table: dict[str, dict[str, float]], plan: Plan
) -> dict[str, Any]:
    """Add each statistic's reliability, and how well it foretells the gain, to `table`.

    Return the results that are not those of one statistic.
    """
    rounds = _rounds(folder, plan.rounds)
    # An invalid job is reported before anything is measured.
    factor, ahead = plan.factor, plan.ahead
    planned = branches(job, rounds, factor=factor, seeds=plan.gain or 0, ahead=ahead)

    def progress(round: int) -> None:
        print(f"round {round} measured {plan.repeats} times", file=sys.stderr, flush=True)

    planted = BranchDir(folder.path / "detector", folder)
    with contextlib.ExitStack() as stack:
        if planned:  # before the measurement, which takes long: another command may be training the branches
            stack.enter_context(RunDir(planted.path).locked("leave --gain out"))
        measured = asyncio.run(repeat(folder, job, rounds, plan.repeats, progress))
        gained_by = _gains(planted, planned, rounds, plan.jobs) if planned else None
    for name, values in measured.items():
        correlation = intraclass_correlation(values)
        table.setdefault(name, {}).update(
            splitHalf=split_half(values),
            icc=correlation,
            iccOfChanges=correlation_of_changes(values),
            noiseShare=1 - correlation,
        )
        if gained_by is not None:
            table[name]["foretellsGain"] = spearman(values.mean(axis=1), gained_by.sooner.mean(axis=1))
    result: dict[str, Any] = {"rounds": rounds, "repeats": plan.repeats}
    if gained_by is not None:
        result["gain"] = {
            "factor": plan.factor,
            "seeds": plan.gain,
            "ahead": plan.ahead,
            "splitHalf": split_half(gained_by.sooner),
        }
        for name, gained in (("sooner", gained_by.sooner), ("later", gained_by.later)):
            over_seeds = _limits(few_seeds.mean(gained.mean(axis=0)))
            result["gain"][name] = {**over_seeds, "byRound": gained.mean(axis=1).tolist()}
        result["gain"]["boosted"] = boosted(gained_by.sooner)
        result["gain"]["choices"] = {
            name: {"gained": _limits(chosen.gained), "once": chosen.once and _limits(chosen.once)}
            for name, chosen in choices(measured, gained_by.sooner).items()
        }
        result["gain"] = finite(result["gain"])
    return result


def _limits(interval: Interval) -> dict[str, float | None]:
    return finite({"mean": interval.value, "low": interval.low, "high": interval.high})


def _rounds(folder: RunDir, count: int) -> list[int]:
    """Up to `count` rounds, spread evenly over the rounds that can be repeated."""
    possible = repeatable(folder)
    if len(possible) < 3:
        raise RunDirError(
            f"{folder.path}: only {len(possible)} rounds can be repeated, 3 are needed. "
            "Train with --set spec.learner.checkpoint.keepLast=1000."
        )
    step = (len(possible) - 1) / (min(count, len(possible)) - 1)
    return [possible[round(index * step)] for index in range(min(count, len(possible)))]


def _gains(planted: BranchDir, runs: Sequence[PlannedRun], rounds: Sequence[int], jobs: int | None) -> Gains:
    """Train the branches that have not been trained yet, and return the gains."""
    longest = max(run.job.spec.stop.rounds for run in runs)
    place, jobs = LocalRuns(planted), jobs or machine()["cores"]
    runner = Runner(planted, runs, Budget(rounds=longest), place, jobs=jobs)
    runner.watcher = ProgressLines(runner.states, sys.stderr)
    asyncio.run(runner.train())
    failed = [state for state in runner.states if state.status == "failed"]
    if failed:
        raise TrainingFailed(f"{len(failed)} branches failed.\n{failed[0].message}", resumable=False)
    return gains(planted, runs, rounds)


def _table(result: dict[str, Any]) -> list[list[str]]:
    """The statistics' table, with its heading first. Columns without any value are left out."""
    rows = result["statistics"]
    shown = [(key, title) for key, title in _COLUMNS if any(key in row for row in rows.values())]
    return [
        ["statistic", *(title for _, title in shown)],
        *([name, *(_shown(row.get(key)) for key, _ in shown)] for name, row in rows.items()),
    ]


def lines(result: dict[str, Any]) -> list[str]:
    lines = [f"{name:<20}" + "".join(f"{cell:>12}" for cell in cells) for name, *cells in _table(result)]
    if 0 < len(result.get("rounds", [])) < _FEW:
        lines += [
            "",
            f"From fewer than {_FEW} rounds these say little: measure more (--rounds), or a longer run.",
        ]
    if "gain" in result:
        rows = [f"{name:<20}" + "".join(f"{cell:>28}" for cell in cells) for name, *cells in _choices(result)]
        lines += ["", _gain(result["gain"]), "", _chosen(result), *rows]
    return lines


def markdown(result: dict[str, Any], job: ResolvedJob) -> str:

    titles, *rows = _table(result)
    table = [*cells.head(titles), *map(cells.line, rows)]
    about = (
        f"`{job.spec.environment.id}`, {job.spec.algorithm.name} ({job.spec.algorithm.preset}), "
        f"M = {transitions(job.spec)}"
    )
    if "rounds" in result:
        about += (
            f"; rounds {', '.join(map(str, result['rounds']))}, each sampled {result['repeats']} times again"
        )
    if "gain" in result:
        heads, *chosen = _choices(result)
        table += ["", _gain(result["gain"]), "", _chosen(result), ""]
        table += [*cells.head(heads), *map(cells.line, chosen)]
    return f"{about}.\n\n" + "\n".join(table)


def _choices(result: dict[str, Any]) -> list[list[str]]:
    """The table of the choices, with its heading first."""
    rows = [
        [name, _interval(choice["once"]), _interval(choice["gained"])]
        for name, choice in result["gain"]["choices"].items()
    ]
    return [["rounds chosen by", "measured once", f"mean of {result['repeats']}"], *rows]


def _chosen(result: dict[str, Any]) -> str:
    gain = result["gain"]
    return (
        f"What boosting {gain['boosted']} of the {len(result['rounds'])} rounds gained, by who chooses them:"
    )


def _interval(interval: dict[str, float | None] | None) -> str:
    if interval is None:
        return "-"
    limits = "" if interval["low"] is None else f" [{interval['low']:+.1f}, {interval['high']:+.1f}]"
    return f"{interval['mean']:+.1f}{limits}"


def _gain(gain: dict[str, Any]) -> str:
    sooner, later = (_interval(gain[kind]) for kind in ("sooner", "later"))
    by_round = ", ".join(f"{value:+.1f}" for value in gain["sooner"]["byRound"])
    return (
        f"What {gain['factor']} times the actors in one round gained, {gain['ahead']} rounds later: "
        f"{sooner} on average over {gain['seeds']} seeds (by round {by_round}; split-half correlation over "
        f"rounds {_shown(gain['splitHalf'])}). What the same actors gained in further rounds instead: "
        f"{later}."
    )


def _shown(value: float | None) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.2f}"
