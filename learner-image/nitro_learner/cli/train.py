"""Trains a job on this machine, with actors as local processes or, by --backend lambda, on AWS Lambda.

The run folder gets the job with all its defaults, metrics.csv, the cost ledger, checkpoints, TensorBoard
events, a log, a summary and a picture. Ctrl-C stops after a checkpoint and says how to go on; a second Ctrl-C
aborts.

The job's backend is used only when --backend names it: nothing is spent by surprise. With local actors the
cost column says what the same invocations would cost with serverless ones. --backend lambda invokes the
function of spec.backend.lambda, which must exist, with the AWS credentials that the AWS command line would
use; where spec.backend.lambda.transport is Redis, NITRO_REDIS_URL says where this machine reaches it.

examples:
  nitro train examples/hopper.yaml
  nitro train examples/hopper.yaml --set spec.seed=3 --set spec.scaling.scaler=fixed --run-dir runs/fixed-3
  nitro train --resume runs/hopper-20260101-120000
  nitro train --resume runs/hopper-20260101-120000 --set spec.stop.rounds=300
  nitro train job.yaml --json | jq .reward_mean
  nitro train job.yaml --backend lambda
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import shlex
import sys
from pathlib import Path
from typing import Any

from nitro_learner.cli.common import (
    ABORTED,
    BAD_INPUT,
    DONE,
    FAILED,
    INTERRUPTED,
    CommandError,
    add_set,
    backend_overrides,
    lambda_backend,
    read_job,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "job", type=Path, nargs="?", metavar="JOB.yaml", help="job file; not needed with --resume"
    )
    parser.add_argument(
        "--run-dir", type=Path, metavar="D", help="folder of the run; default: runs/NAME-DATE-TIME"
    )
    parser.add_argument("--resume", type=Path, metavar="D", help="go on with the run in this folder")
    add_set(parser)
    parser.add_argument(
        "--backend",
        type=str.capitalize,
        choices=["Local", "Lambda"],
        default="Local",
        help="where the actors run; default: Local, whatever the job says",
    )
    parser.add_argument(
        "--metrics-port",
        type=int,
        metavar="PORT",
        help="serve Prometheus metrics on this port (0: a free one)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per round")


def run(arguments: argparse.Namespace) -> int:
    from nitro_learner.rundir import RunDir, RunDirError

    if arguments.resume and arguments.run_dir:
        raise CommandError("--resume names the run folder itself; leave --run-dir out")
    if not arguments.job and not arguments.resume:
        raise CommandError("give a job file, or --resume and a run folder")
    if arguments.metrics_port is not None and not 0 <= arguments.metrics_port < 2**16:
        raise CommandError(f"--metrics-port {arguments.metrics_port}: a port is at most 65535, at least 0")
    named = arguments.resume or arguments.run_dir
    source = arguments.job
    if arguments.resume:
        saved = RunDir(named).job
        if not saved.exists():
            raise CommandError(f"{named} holds no run to resume (it has no job.yaml)")
        source = source or saved
    job = read_job(source, [*arguments.overrides, *backend_overrides(arguments.backend)])
    folder = RunDir(named) if named else RunDir.fresh(Path("runs"), job.metadata.name)
    try:
        with folder.locked():
            return _train(folder, job, arguments)
    except RunDirError as error:
        raise CommandError(str(error)) from None


def _train(folder: Any, job: Any, arguments: argparse.Namespace) -> int:
    """Everything that needs torch is imported here, after the input was found to be good."""
    from nitro_learner import logs
    from nitro_learner.failures import TrainingFailed, told
    from nitro_learner.session import Aborted

    logs.configure(structured=False)
    go_on = f"nitro train --resume {shlex.quote(str(folder.path))}"
    try:
        with told():
            return _sit(folder, job, arguments, go_on)
    except TrainingFailed as error:
        remedy = f"\nTo go on: {go_on}" if error.resumable else ""
        raise CommandError(f"{error}{remedy}", INTERRUPTED if error.resumable else FAILED) from None
    except Aborted:
        raise CommandError(f"aborted. To go on from the last checkpoint: {go_on}", ABORTED) from None
    except BrokenPipeError:
        raise CommandError(
            f"nobody reads the output any more: stopped. To go on from the last checkpoint: {go_on}",
            INTERRUPTED,
        ) from None


def _sit(folder: Any, job: Any, arguments: argparse.Namespace, go_on: str) -> int:
    """One sitting of a run, shown on the way and at its end."""
    from nitro_learner import table
    from nitro_learner.checkpoint import CheckpointError
    from nitro_learner.metrics import LearnerMetrics
    from nitro_learner.rundir import naming
    from nitro_learner.runs import open_run
    from nitro_learner.session import train

    try:
        opened = open_run(folder, job, resume=bool(arguments.resume))
    except CheckpointError as error:
        raise CommandError(str(error), FAILED) from None
    listeners: list[Any] = []
    if arguments.metrics_port is not None:
        metrics = LearnerMetrics("local", job.metadata.name)
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
            with naming("the output"):
                _announce(folder, job, opened)
            listeners.append(
                stack.enter_context(table.LiveTable()) if sys.stdout.isatty() else table.PlainLines()
            )
        outcome, result = asyncio.run(
            train(
                opened,
                _backend(job.spec, opened.id),
                listeners,
                on_interrupt=lambda: print("stopping after a checkpoint; once more aborts", file=sys.stderr),
            )
        )
    if not outcome.finished:
        print(f"{outcome.message}. To go on: {go_on}", file=sys.stderr)
        return INTERRUPTED
    if not arguments.json:
        # Whether anybody reads it or not, this run has ended.
        with contextlib.suppress(BrokenPipeError), naming("the output"):
            _conclude(folder, outcome, result)
    return DONE


def _backend(spec: Any, run: str) -> Any:
    from nitro_learner.backends.local import LocalBackend

    return lambda_backend(spec, operated=False) if spec.backend.type == "Lambda" else LocalBackend(spec, run)


def _announce(folder: Any, job: Any, opened: Any) -> None:
    spec = job.spec
    start = f", going on after round {opened.checkpoint.round}" if opened.checkpoint else ""
    print(
        f"{job.metadata.name}: {spec.environment.id}, {spec.algorithm.name} ({spec.algorithm.preset}), "
        f"{spec.scaling.scaler} scaler with {spec.scaling.min_actors} to {spec.scaling.max_actors} actors of "
        f"{spec.environment.rollout_length} steps{start}\nrun folder: {folder.path}",
        flush=True,
    )


def _conclude(folder: Any, outcome: Any, result: dict[str, Any]) -> None:
    print(f"done: {outcome.message}")
    if "evaluation" in result:
        score = result["evaluation"]
        print(
            f"final return {score['mean']:.1f} ± {score['std']:.1f} over {score['episodes']} episodes "
            f"with mean actions ({score['min']:.1f} to {score['max']:.1f})"
        )
    if "envSteps" in result:
        reward, cost = result["rewardMean"], result["cost"]
        last = f"last 20 training episodes {reward:.1f}, " if reward is not None else ""
        print(
            f"{last}{result['envSteps']:,.0f} steps in {result['wallSeconds']:.1f} s, "
            f"${cost['total']:.4f} (learner ${cost['learner']:.4f}, actors ${cost['actors']:.4f})"
        )
    if "pretraining" in result:
        agent = result["pretraining"]
        print(
            f"its scaling agent took {agent['episodes']} training runs before, at "
            f"${agent['learner'] + agent['actors']:.4f}, which is not counted here"
        )
    print(f"picture: {folder.plot}\nsummary: {folder.summary}", flush=True)
