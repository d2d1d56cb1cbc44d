"""How good the boosting detector is on a run, and how good the other statistics are that a scaler could use.

Reliability: rounds are sampled again from their checkpoints, several times, and measured as the scaler
measured them. Reported are the split-half rank correlation, the intraclass correlation (between rounds, and
between the changes from one measured round to the next), and the share of a measurement's variance that is
sampling noise.

Foresight: the rank correlation with what the next round improved, from the run's own metrics.

Gain (--gain): after each of these rounds the run is continued with minActors and with --factor times as many
in the next round; the difference of return some rounds later is what a statistic would have to foretell. A
third branch spends the same actors on further rounds instead. Branches are kept below RUN/detector and not
trained again. It takes an on-policy algorithm, whose rounds learn from all of their actors.

All checkpoints are needed: train with --set spec.learner.checkpoint.keepLast=1000. With several runs only
foresight is reported, averaged over them.

examples:
  nitro detector runs/hopper-20260101-120000
  nitro detector runs/hopper-20260101-120000 --rounds 20 --repeats 4 --gain 5 --ahead 3
  nitro detector runs/paper-small/runs/Hopper-v5/nitro/seed-*
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nitro_learner.cli.common import DONE, FAILED, CommandError, distinct, read_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nitro_api import NitroTrainingJob
    from nitro_learner.experiments.plan import PlannedRun
    from nitro_learner.quality.branches import Gains
    from nitro_learner.rundir import RunDir


# Whose rounds learn from all of their actors.
_ON_POLICY = ("ppo", "rllib/ppo")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", type=Path, nargs="+", help="run folder")
    parser.add_argument(
        "--rounds", type=int, default=10, metavar="N", help="rounds to sample again; default: 10"
    )
    parser.add_argument("--repeats", type=int, default=4, metavar="N", help="times each; default: 4")
    parser.add_argument("--gain", type=int, metavar="SEEDS", help="measure the gain, over so many seeds")
    parser.add_argument("--factor", type=int, default=2, metavar="N", help="times minActors; default: 2")
    parser.add_argument("--ahead", type=int, default=3, metavar="N", help="rounds of a branch; default: 3")
    parser.add_argument("--jobs", type=int, metavar="N", help="branches at a time; default: one per core")
    parser.add_argument("--json", action="store_true", help="print a JSON object")
    parser.add_argument(
        "--into",
        type=Path,
        metavar="PAGE.md",
        help="also put a table between the detector's markers in a page",
    )


def run(arguments: argparse.Namespace) -> int:
    for name, least in (("rounds", 3), ("repeats", 2), ("gain", 2), ("factor", 2), ("ahead", 1), ("jobs", 1)):
        value = getattr(arguments, name)
        if value is not None and value < least:
            raise CommandError(f"--{name} {value}: at least {least}")
    folders = distinct(arguments.run)
    if arguments.gain and len(folders) > 1:
        raise CommandError("--gain takes one run folder")
    runs = [read_run(path) for path in folders]
    if arguments.gain and runs[0][1].spec.algorithm.hyperparameters.learning_rate_anneal:
        raise CommandError(
            f"--gain: the learning rate of {folders[0]} falls to zero over stop.rounds. Branches "
            "stop sooner, so theirs would fall faster; train a run with "
            "--set spec.algorithm.hyperparameters.learningRateAnneal=false"
        )
    if arguments.gain and runs[0][1].spec.algorithm.name not in _ON_POLICY:
        raise CommandError(
            f"--gain: {folders[0]} is a run of {runs[0][1].spec.algorithm.name}, whose rounds end with half "
            "of their actors' fragments, but not with fewer than minActors. A branch with twice as many "
            f"actors would learn from no more; give a run of {' or '.join(_ON_POLICY)}"
        )
    # Imported only now: they load torch, which takes seconds.
    from nitro_learner import logs
    from nitro_learner.failures import TrainingFailed, told
    from nitro_learner.page import parts, replace
    from nitro_learner.rundir import RunDirError

    logs.configure(structured=False)
    try:
        if arguments.into:
            # A page without a place for the table is known before the work is done.
            parts(arguments.into, "detector")
        with told():
            result = _measure(runs, arguments)
        if arguments.into:
            replace(arguments.into, "detector", _markdown(result, runs[0][1]))
    except RunDirError as error:
        raise CommandError(str(error)) from None
    except TrainingFailed as error:
        raise CommandError(str(error), FAILED) from None
    print(json.dumps(result) if arguments.json else "\n".join(_lines(result)))
    return DONE


def _measure(
    runs: Sequence[tuple[RunDir, NitroTrainingJob]], arguments: argparse.Namespace
) -> dict[str, Any]:
    """Everything that is reported; NaN as None."""
    from nitro_learner.experiments.curves import read
    from nitro_learner.logs import finite
    from nitro_learner.quality.foresight import foretold, over_runs
    from nitro_learner.rundir import RunDirError

    table = {
        name: {"foresight": found.value, "low": found.low, "high": found.high}
        for name, found in over_runs([foretold(read(folder, job)) for folder, job in runs]).items()
    }
    told = _look_again(*runs[0], table, arguments) if len(runs) == 1 else {}
    if not table:
        raise RunDirError(
            "no statistic of these runs can be correlated with the next round's improvement. Give runs of at "
            "least 5 rounds, in which the return does not always change alike."
        )
    return {"runs": len(runs), "statistics": {name: finite(row) for name, row in table.items()}, **told}


def _look_again(
    folder: RunDir, job: NitroTrainingJob, table: dict[str, dict[str, float]], arguments: argparse.Namespace
) -> dict[str, Any]:
    """Adds reliability, and what the gain says, to the statistics' table."""
    from nitro_learner.experiments import statistics
    from nitro_learner.logs import finite
    from nitro_learner.quality.agreement import (
        correlation_of_changes,
        intraclass_correlation,
        spearman,
        split_half,
    )
    from nitro_learner.quality.branches import branches
    from nitro_learner.quality.repeats import repeat

    rounds = _rounds(folder, arguments.rounds)
    # Before anything is measured: what cannot be a job is told at once.
    factor, ahead = arguments.factor, arguments.ahead
    planned = branches(job, rounds, factor=factor, seeds=arguments.gain or 0, ahead=ahead)

    def progress(round: int) -> None:
        print(f"round {round} measured {arguments.repeats} times", file=sys.stderr, flush=True)

    measured = asyncio.run(repeat(folder, job, rounds, arguments.repeats, progress))
    gains = _gains(folder, planned, rounds, arguments.jobs) if planned else None
    for name, values in measured.items():
        correlation = intraclass_correlation(values)
        table.setdefault(name, {}).update(
            splitHalf=split_half(values),
            icc=correlation,
            iccOfChanges=correlation_of_changes(values),
            noiseShare=1 - correlation,
        )
        if gains is not None:
            table[name]["foretellsGain"] = spearman(values.mean(axis=1), gains.sooner.mean(axis=1))
    told: dict[str, Any] = {"rounds": rounds, "repeats": arguments.repeats}
    if gains is not None:
        told["gain"] = {
            "factor": arguments.factor,
            "seeds": arguments.gain,
            "ahead": arguments.ahead,
            "splitHalf": split_half(gains.sooner),
        }
        for name, gained in (("sooner", gains.sooner), ("later", gains.later)):
            over_seeds = statistics.mean(gained.mean(axis=0))
            told["gain"][name] = {
                "mean": over_seeds.value,
                "low": over_seeds.low,
                "high": over_seeds.high,
                "byRound": gained.mean(axis=1).tolist(),
            }
        told["gain"] = finite(told["gain"])
    return told


def _rounds(folder: RunDir, count: int) -> list[int]:
    """Up to `count` rounds, evenly over those that can be repeated."""
    from nitro_learner.probe import repeatable
    from nitro_learner.rundir import RunDirError

    possible = repeatable(folder)
    if len(possible) < 3:
        raise RunDirError(
            f"{folder.path}: only {len(possible)} rounds can be repeated, 3 are needed. "
            "Train with --set spec.learner.checkpoint.keepLast=1000."
        )
    step = (len(possible) - 1) / (min(count, len(possible)) - 1)
    return [possible[round(index * step)] for index in range(min(count, len(possible)))]


def _gains(folder: RunDir, runs: Sequence[PlannedRun], rounds: Sequence[int], jobs: int | None) -> Gains:
    """Trains the branches that are not there yet."""
    from nitro_learner.experiments.folder import machine
    from nitro_learner.experiments.progress import PlainLines
    from nitro_learner.experiments.runner import Runner
    from nitro_learner.experiments.spec import Budget
    from nitro_learner.quality.branches import BranchDir, gains

    planted = BranchDir(folder.path / "detector", folder)
    longest = max(run.job.spec.stop.rounds for run in runs)
    runner = Runner(planted, runs, Budget(rounds=longest), jobs=jobs or machine()["cores"])
    runner.watcher = PlainLines(runner.states, sys.stderr)
    asyncio.run(runner.train())
    failed = [state for state in runner.states if state.status == "failed"]
    if failed:
        raise CommandError(f"{len(failed)} branches failed.\n{failed[0].message}", FAILED)
    return gains(planted, runs, rounds)


_FEW = 6
_COLUMNS = (
    ("splitHalf", "split-half"),
    ("icc", "ICC"),
    ("iccOfChanges", "of changes"),
    ("noiseShare", "noise"),
    ("foresight", "next round"),
    ("foretellsGain", "gain"),
)


def _table(result: dict[str, Any]) -> list[list[str]]:
    """The statistics' table, its heading first; columns that nobody has are left out."""
    rows = result["statistics"]
    shown = [(key, title) for key, title in _COLUMNS if any(key in row for row in rows.values())]
    return [
        ["statistic", *(title for _, title in shown)],
        *([name, *(_shown(row.get(key)) for key, _ in shown)] for name, row in rows.items()),
    ]


def _lines(result: dict[str, Any]) -> list[str]:
    lines = [f"{name:<20}" + "".join(f"{cell:>12}" for cell in cells) for name, *cells in _table(result)]
    if 0 < len(result.get("rounds", [])) < _FEW:
        lines += [
            "",
            f"From fewer than {_FEW} rounds these say little: measure more (--rounds), or a longer run.",
        ]
    if "gain" in result:
        lines += ["", _gain(result["gain"])]
    return lines


def _markdown(result: dict[str, Any], job: NitroTrainingJob) -> str:
    from nitro_learner.boosting.detector import transitions
    from nitro_learner.experiments import cells

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
    gain = f"\n\n{_gain(result['gain'])}" if "gain" in result else ""
    return f"{about}.\n\n" + "\n".join(table) + gain


def _gain(gain: dict[str, Any]) -> str:
    sooner, later = (
        f"{gain[kind]['mean']:+.1f} [{gain[kind]['low']:+.1f}, {gain[kind]['high']:+.1f}]"
        for kind in ("sooner", "later")
    )
    by_round = ", ".join(f"{one:+.1f}" for one in gain["sooner"]["byRound"])
    return (
        f"What {gain['factor']} times the actors in one round gained, {gain['ahead']} rounds later: "
        f"{sooner} on average over {gain['seeds']} seeds (by round {by_round}; split-half correlation over "
        f"rounds {_shown(gain['splitHalf'])}). What the same actors gained in further rounds instead: "
        f"{later}."
    )


def _shown(value: float | None) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.2f}"
