"""Train a job on this machine, with actors as local processes or, by --backend lambda, on AWS Lambda.

The run folder gets the job with all its defaults, metrics.csv, the cost ledger, checkpoints, TensorBoard
events, a log, a summary and a picture. Ctrl-C stops after a checkpoint and says how to go on; a second Ctrl-C
aborts. A run that has ended is not evaluated or charged again: --resume then says how to extend it. Where
nobody reads the output on, or a disk is too full for it, a warning says so and the training goes on.

--from begins a new run with what another one has learned: weights, the optimisers' state, and statistics of
observations and rewards. Rounds, cost, exploration and the learning rate's schedule begin anew. Other
settings may differ, such as the environment's kwargs or the learning rate, but not the network, the algorithm
and the spaces. checkpoints/best.safetensors of a run is the policy with the best evaluation.

A new run's environment is checked beside the start, for a second; see `nitro check-env`. What is found is a
warning, and changes no result. --no-check is for an environment of which this machine can hold few copies.

The job's backend is used only when --backend names it: nothing is spent by surprise. With local actors the
cost column says what the same invocations would cost with serverless ones. --backend lambda invokes the
function of spec.backend.lambda, which must exist, with the AWS credentials that the AWS command line would
use; where spec.backend.lambda.transport is Redis, NITRO_REDIS_URL says where this machine reaches it.

examples:
  nitro train examples/hopper.yaml
  nitro train examples/hopper.yaml --set spec.seed=3 --set spec.scaling.scaler=fixed --run-dir runs/fixed-3
  nitro train --resume runs/hopper-20260101-120000
  nitro train --resume runs/hopper-20260101-120000 --set spec.stop.rounds=300
  nitro train examples/hopper.yaml --from runs/hopper-20260101-120000 \\
      --set spec.algorithm.hyperparameters.learningRate=1e-4
  nitro train job.yaml --from runs/hopper-20260101-120000/checkpoints/best.safetensors
  nitro train job.yaml --from s3://bucket/runs/hopper-1a2b
  nitro train job.yaml --code my-folder
  nitro train job.yaml --json | jq .reward_mean
  nitro train job.yaml --backend lambda
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nitro_learner.cli import interrupts, train_output
from nitro_learner.cli.code import add_code, found_code
from nitro_learner.cli.common import (
    add_set,
    policy_loaded,
    read_job,
    some_path,
    some_text,
    writing,
)
from nitro_learner.cli.exits import ABORTED, BAD_INPUT, DONE, FAILED, INTERRUPTED, CommandError

if TYPE_CHECKING:
    from nitro_api import JobSpec
    from nitro_learner.backends.local import LocalBackend
    from nitro_learner.run.check_listener import EnvironmentCheck
    from nitro_learner.run.rundir import RunDir


class _OwnCodeError(CommandError):
    """The user's environment, scaler or algorithm is at fault, and the run folder says where."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "job", type=some_path, nargs="?", metavar="JOB.yaml", help="job file; not needed with --resume"
    )
    parser.add_argument(
        "--run-dir", type=some_path, metavar="D", help="folder of the run; default: runs/NAME-DATE-TIME"
    )
    parser.add_argument("--resume", type=some_path, metavar="D", help="go on with the run in this folder")
    parser.add_argument(
        "--from",
        dest="start",
        type=some_text,
        metavar="RUN",
        help="begin with the policies of this run: its folder, a checkpoint file of it, or "
        "s3://BUCKET/PREFIX/RUN",
    )
    add_set(parser)
    parser.add_argument(
        "--backend",
        type=str.capitalize,
        choices=["Local", "Lambda"],
        default="Local",
        help="where the actors run; default: Local, whatever the job says",
    )
    add_code(parser, "its digest becomes spec.code, and a run goes on with the same files only")
    parser.add_argument(
        "--metrics-port",
        type=int,
        metavar="PORT",
        help="serve Prometheus metrics on this port (0: a free one)",
    )
    parser.add_argument(
        "--no-check", action="store_true", help="do not check the environment beside the start"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per round")


def run(arguments: argparse.Namespace) -> int:
    from nitro_learner.run.rundir import OtherJob, RunDir, RunDirError
    from nitro_learner.studies.resolved_job import BEGUN_HERE, backend_overrides

    if arguments.resume and arguments.run_dir:
        raise CommandError("--resume names the run folder itself; leave --run-dir out")
    if arguments.resume and arguments.start:
        raise CommandError("--from begins a new run, and --resume goes on with one; leave one of them out")
    if not arguments.job and not arguments.resume:
        raise CommandError("give a job file, or --resume and a run folder")
    if arguments.metrics_port is not None and not 0 <= arguments.metrics_port < 2**16:
        raise CommandError(f"--metrics-port {arguments.metrics_port}: a port is at most 65535, at least 0")
    source, begun = arguments.job, None
    if arguments.resume:
        saved = _saved_run(arguments)
        source = source or saved.job
    try:
        if arguments.resume:
            begun = saved.read_job()
        overrides = [*arguments.overrides, *backend_overrides(arguments.backend)]
        if arguments.start:
            overrides += BEGUN_HERE
        if arguments.code:
            overrides.append(f"spec.code={found_code(arguments.code).digest}")
        job = read_job(source, overrides, begun)
        if job.spec.code and not arguments.code:
            raise CommandError(
                f"spec.code: {job.spec.code} is the digest of a folder; give the folder, too: --code DIR"
            )
        if arguments.run_dir:
            RunDir(arguments.run_dir).check_free()
        with _checking(job, arguments) as check, _beginning(job.spec, check) as beside:
            beside.loop.run(asyncio.to_thread(_import))
            interrupts.orderly()
            with _opened(arguments, job.metadata.name) as folder:
                return _train(folder, job, arguments, beside)
    except OtherJob as error:
        assert begun is not None, "only a run that goes on may be of another job"
        ways = train_output.other_ways(str(source), begun, job, arguments)
        raise CommandError(f"{error}\n{ways}") from None
    except RunDirError as error:
        option = f"--run-dir {arguments.run_dir}: " if arguments.run_dir else ""
        raise CommandError(f"{option}{error}") from None


def _saved_run(arguments: argparse.Namespace) -> RunDir:
    """The folder of the run to resume."""
    from nitro_learner.run.rundir import RunDir

    folder = RunDir(arguments.resume)
    if not folder.job.exists():
        raise CommandError(f"{folder.path} holds no run to resume (it has no job.yaml)")
    folder.check_ours(train_output.command([str(folder.job)], arguments.overrides, arguments))
    return folder


@contextlib.contextmanager
def _checking(job: Any, arguments: argparse.Namespace) -> Iterator[EnvironmentCheck | None]:
    """The check of a new run's environment, which begins before anything slow is imported."""
    from nitro_learner.run.check_listener import begin_beside

    if arguments.no_check or arguments.resume or job.spec.backend.type != "Local":
        yield None
        return
    check = begin_beside(job.spec)
    try:
        yield check
    finally:
        if check is not None:
            check.close()


@dataclass(frozen=True)
class _Beginning:
    """What begins before the training's modules are imported: both take seconds, on cores of their own.

    Attributes:
        loop: the event loop of the training.
        actors: of this machine, with their Redis; None where the actors are elsewhere.
        check: of the environment; None where nothing is checked.
    """

    loop: asyncio.Runner
    actors: LocalBackend | None
    check: EnvironmentCheck | None


@contextlib.contextmanager
def _beginning(spec: JobSpec, check: EnvironmentCheck | None) -> Iterator[_Beginning]:
    """Have the actors of this machine start. They end with the block at the latest."""
    from nitro_learner.backends.local import LocalBackend

    with asyncio.Runner() as loop:
        if spec.backend.type == "Lambda":
            yield _Beginning(loop, None, check)
            return
        actors = LocalBackend(spec, "")
        try:
            loop.run(actors.begin())
            yield _Beginning(loop, actors, check)
        finally:
            loop.run(actors.close())


def _import() -> None:
    """Import the training modules, which takes seconds, while Ctrl-C still ends the process at once."""
    from nitro_learner.run import logs, metrics, runs, session  # noqa: F401
    from nitro_learner.run.views import table  # noqa: F401


@contextlib.contextmanager
def _opened(arguments: argparse.Namespace, name: str) -> Iterator[RunDir]:
    """The run folder, locked. A new run that could not begin leaves nothing, unless a resume can start it or
    its log says where the user's environment failed."""
    from nitro_learner.run.rundir import RunDir

    named = arguments.resume or arguments.run_dir
    made = named is None or not named.exists()
    with contextlib.ExitStack() as stack:
        option = "--resume" if arguments.resume else "--run-dir"
        with writing(option, named or Path("runs"), "Name a folder that you may write to."):
            folder = RunDir(named) if named else RunDir.fresh(Path("runs"), name)
            stack.enter_context(folder.locked())
        try:
            yield folder
        except BaseException as error:
            resumable = isinstance(error, CommandError) and error.code == INTERRUPTED
            of_use = resumable or isinstance(error, _OwnCodeError)
            if not (arguments.resume or of_use or folder.has_run()):
                folder.discard()
                if made:
                    with contextlib.suppress(OSError):  # something else was put there
                        folder.path.rmdir()
            raise


def _train(folder: RunDir, job: Any, arguments: argparse.Namespace, beside: _Beginning) -> int:
    from nitro_learner.run import logs
    from nitro_learner.run.session import Aborted
    from nitro_learner.training.failures import TrainingFailed, as_training_failure

    logs.configure(structured=False)
    go_on = train_output.command(["--resume", str(folder.path)], [], arguments)
    try:
        with as_training_failure():
            return _sit(folder, job, arguments, go_on, beside)
    except TrainingFailed as error:
        code = INTERRUPTED if error.resumable else FAILED
        if error.misfit:  # a mistake in the job, as `nitro validate` says, too
            code = BAD_INPUT
        if error.evidence.environment:
            remedy = train_output.environment_remedy(folder, go_on, traced=bool(error.evidence.trace))
            raise _OwnCodeError(f"{error}{remedy}", code) from None
        if error.own:
            remedy = train_output.own_remedy(error.own, folder, go_on)
            raise _OwnCodeError(f"{error}{remedy}", code) from None
        remedy = f"\nTo go on: {go_on}" if error.resumable else ""
        raise CommandError(f"{error}{remedy}", code) from None
    except (Aborted, KeyboardInterrupt):
        if not (arguments.resume or folder.has_run()):
            raise CommandError("interrupted before the first round; nothing is kept", ABORTED) from None
        raise CommandError(f"aborted. To go on from the last checkpoint: {go_on}", ABORTED) from None


def _sit(folder: Any, job: Any, arguments: argparse.Namespace, go_on: str, beside: _Beginning) -> int:
    """Train for one sitting of a run and print its progress and its results."""
    from nitro_learner.run.metrics import LearnerMetrics
    from nitro_learner.run.runs import open_run
    from nitro_learner.run.session import train
    from nitro_learner.run.source import Start
    from nitro_learner.run.views import plot, table

    start = Start.given(arguments.start, "--from ") if arguments.start else None
    with policy_loaded():
        opened = open_run(folder, job, resume=bool(arguments.resume), start=start)
    if opened.ended:
        print(
            train_output.already_ended(opened, arguments), file=sys.stderr if arguments.json else sys.stdout
        )
        return DONE
    listeners: list[Any] = []
    if arguments.metrics_port is not None:
        metrics = LearnerMetrics("local", job.metadata.name, begun=folder.has_run())
        try:
            port = metrics.serve(arguments.metrics_port)
        except OSError as error:
            raise CommandError(
                f"--metrics-port {arguments.metrics_port}: {error.strerror}", BAD_INPUT
            ) from None
        print(f"metrics: http://localhost:{port}/metrics", file=sys.stderr)
        listeners.append(metrics)
    with contextlib.ExitStack() as stack:
        if arguments.json:
            listeners.append(table.JsonLines())
        else:
            train_output.announce(folder, job, opened)
            listeners.append(
                stack.enter_context(table.LiveTable()) if sys.stdout.isatty() else table.PlainLines()
            )
        outcome, result = beside.loop.run(
            train(
                opened,
                _backend(job.spec, beside.actors, folder.actors),
                listeners,
                draw=plot.draw,
                check=beside.check,
                on_interrupt=lambda: print("stopping after a checkpoint; once more aborts", file=sys.stderr),
            )
        )
    if not outcome.finished:
        print(f"{outcome.message}. To go on: {go_on}", file=sys.stderr)
        return INTERRUPTED
    if not arguments.json:
        train_output.conclude(folder, outcome, result)
    return DONE


def _backend(spec: Any, actors: LocalBackend | None, output: Path) -> Any:
    from nitro_learner.backends.base import NotSet
    from nitro_learner.training.builder import make_backend

    if actors is None:
        try:
            return make_backend(spec, "")
        except NotSet as error:
            raise CommandError(str(error)) from None
    actors.write_to(output)
    return actors
