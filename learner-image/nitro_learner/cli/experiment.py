"""Compare variants of a job: train all of them over the same seeds to the same budget, and report.

`run` trains what is not trained yet, as many runs at a time as there are cores, and then writes the report.
It can be stopped at any moment (also by kill -9) and goes on when it is called again. `report` writes the
report of what is finished: report.md with tables and pictures, runs.csv and curves.csv.

The file says what it shows, the base job, the variants, the seeds and the budget: see experiments/ and
docs/experiments.md.

examples:
  nitro experiment run experiments/paper-small.yaml
  nitro experiment run experiments/paper-small.yaml --set seeds='[0, 1, 2]' --dir runs/three
  nitro experiment report runs/paper-small
  nitro experiment report runs/paper-small --into docs/results/paper-small.md
  nitro experiment report runs/boosting-small --prices experiments/prices/*.yaml
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from nitro_api import JobInvalid
from nitro_learner.cli import interrupts
from nitro_learner.cli.common import add_set, some_path, writing
from nitro_learner.cli.exits import ABORTED, DONE, FAILED, INTERRUPTED, CommandError

if TYPE_CHECKING:
    from nitro_learner.experiments.folder import ExperimentDir
    from nitro_learner.experiments.plan import PlannedRun
    from nitro_learner.experiments.runner import Runner, Watcher
    from nitro_learner.experiments.spec import Experiment


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    run = actions.add_parser("run", help="train what is missing, then report")
    run.add_argument("spec", type=some_path, metavar="SPEC.yaml", help="the experiment")
    run.add_argument("--dir", type=some_path, metavar="D", help="folder of the results; default: runs/NAME")
    run.add_argument("--jobs", type=int, metavar="N", help="runs at a time; default: one per core")
    run.add_argument("--json", action="store_true", help="print one JSON object per change")
    add_set(run)
    report = actions.add_parser("report", help="write the report of what is finished")
    report.add_argument("dir", type=some_path, metavar="DIR", help="folder of the results")
    report.add_argument(
        "--into",
        type=some_path,
        metavar="PAGE.md",
        help="also put it into this page: between this experiment's markers, or as a new page",
    )
    report.add_argument(
        "--prices",
        type=some_path,
        nargs="+",
        default=[],
        metavar="FILE",
        help="price lists: also say what the runs would have cost by them (see experiments/prices/)",
    )


def run(arguments: argparse.Namespace) -> int:
    if arguments.action == "run":
        return _run(arguments)
    return _report(arguments.dir, arguments.into, arguments.prices)


def _run(arguments: argparse.Namespace) -> int:
    if arguments.jobs is not None and arguments.jobs < 1:
        raise CommandError(f"--jobs {arguments.jobs}: at least 1")
    experiment, runs = _read(arguments.spec, arguments.overrides)
    # Imported only now that the input was found to be good.
    from nitro_learner.backends.base import BackendError
    from nitro_learner.experiments.folder import ExperimentDir, machine
    from nitro_learner.experiments.runner import Runner
    from nitro_learner.run.rundir import OtherJob, RunDir, RunDirError

    folder = ExperimentDir(arguments.dir or Path("runs") / experiment.name)
    interrupts.orderly()
    try:
        folder.check_ours()
        with contextlib.ExitStack() as stack:
            with writing("--dir", folder.path, "Name a folder that you may write to."):
                stack.enter_context(RunDir(folder.path).locked())
            # The runner first: it refuses runs of other jobs, and what is refused must not change the folder.
            jobs = arguments.jobs or machine()["cores"]
            runner = (
                Runner(folder, runs, experiment.budget, jobs=jobs) if runs and experiment.budget else None
            )
            folder.open(experiment)
            code = asyncio.run(_train(runner, folder, experiment, json=arguments.json)) if runner else DONE
            return code or _finish(folder, experiment)
    except OtherJob as error:
        raise CommandError(f"{error}\nTo train the changed job, name another folder by --dir.") from None
    except RunDirError as error:
        raise CommandError(str(error)) from None
    except BackendError as error:
        raise CommandError(str(error), FAILED) from None
    except BrokenPipeError:
        raise CommandError(
            "nobody reads the output any more: stopped. The same command goes on.", INTERRUPTED
        ) from None
    except OSError as error:
        raise CommandError(f"{error.filename or folder.path}: {error.strerror}", FAILED) from None


def _read(path: Path, overrides: list[str]) -> tuple[Experiment, list[PlannedRun]]:
    from nitro_learner.experiments.plan import plan
    from nitro_learner.experiments.spec import load

    try:
        experiment = load(path, overrides)
        return experiment, plan(experiment)
    except JobInvalid as error:
        raise CommandError(
            "\n".join([f"{path} is not a valid experiment:", *(f"  {item}" for item in error.errors)])
        ) from None


async def _train(runner: Runner, folder: ExperimentDir, experiment: Experiment, *, json: bool) -> int:
    from nitro_learner.experiments.runner import Watcher
    from nitro_learner.run.rundir import naming

    left = sum(state.status == "waiting" for state in runner.states)
    if not json:
        shows = f": {experiment.figure}" if experiment.figure else ""
        takes = f", about {experiment.core_hours:g} core-hours in all" if experiment.core_hours else ""
        with naming("the output"):
            print(
                f"{experiment.name}{shows}\n{len(runner.states)} runs, {left} to do{takes}\n"
                f"folder: {folder.path}",
                flush=True,
            )
    with contextlib.ExitStack() as stack:
        runner.watcher = _watcher(runner, stack, json=json) if left else Watcher()
        _handle_signals(runner)
        try:
            await runner.train()
        except asyncio.CancelledError:
            raise CommandError("aborted. The same command goes on.", ABORTED) from None
    if runner.interrupted:
        print("stopped. The same command goes on.", file=sys.stderr)
        return INTERRUPTED
    failed = [state for state in runner.states if state.status == "failed"]
    if failed:
        told = "\n".join(f"{state.run.label}: {state.message}" for state in failed[:3])
        more = f"\nand {len(failed) - 3} more" if len(failed) > 3 else ""
        report = f"nitro experiment report {shlex.quote(str(folder.path))}"
        rest = f"The same command tries them again. Without them: {report}"
        raise CommandError(
            f"{len(failed)} of {len(runner.states)} runs failed.\n{told}{more}\n{rest}", FAILED
        )
    return DONE


def _watcher(runner: Runner, stack: contextlib.ExitStack, *, json: bool) -> Watcher:
    from nitro_learner.experiments import progress

    if json:
        return progress.ProgressJson(runner.states)
    if sys.stdout.isatty():
        return stack.enter_context(progress.ProgressTable(runner.states))
    return progress.ProgressLines(runner.states)


def _handle_signals(runner: Runner) -> None:
    """SIGINT and SIGTERM: once = stop after checkpoints, twice = break off."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def handle() -> None:
        if runner.interrupted:
            task.cancel()
        else:
            print("stopping after checkpoints; once more aborts", file=sys.stderr)
            runner.interrupt()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, handle)


def _finish(folder: ExperimentDir, experiment: Experiment) -> int:
    """The report, and then what the experiment's commands make."""
    from nitro_learner.experiments import experiment_report
    from nitro_learner.experiments.runner import follow

    if experiment.variants:
        experiment_report.write(folder, experiment)
        print(f"report: {folder.report}", file=sys.stderr)
    failed = asyncio.run(follow(experiment.commands, folder)) if experiment.commands else None
    if failed:
        raise CommandError(f"this command failed: {failed}", FAILED)
    return DONE


def _report(path: Path, page: Path | None, listed: list[Path]) -> int:
    from nitro_learner.experiments.folder import ExperimentDir
    from nitro_learner.run.rundir import RunDirError

    folder = ExperimentDir(path)
    if not folder.spec.exists():
        raise CommandError(f"{path} holds no experiment (it has no {folder.spec.name})")
    try:
        folder.check_ours()
    except RunDirError as error:
        raise CommandError(str(error)) from None
    experiment, runs = _read(folder.spec, [])
    if not runs:
        raise CommandError(f"{path}: this experiment has no runs to report; its commands say what they made")
    from nitro_learner.experiments import experiment_report, price_list

    prices = []
    for one in listed:
        try:
            prices.append(price_list.load(one))
        except JobInvalid as error:
            raise CommandError(
                "\n".join([f"{one} is not a valid price list:", *(f"  {item}" for item in error.errors)])
            ) from None
    try:
        text = experiment_report.write(folder, experiment, prices)
        if page is not None:
            experiment_report.insert(text, folder, experiment.name, page)
    except RunDirError as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        raise CommandError(f"{error.filename or page or folder.path}: {error.strerror}", FAILED) from None
    print(page or folder.report)
    return DONE
