"""Train the job of this pod: the operator's learner Job runs it.

The job comes from the API server and the progress goes into its status. The run goes on from its last
checkpoint when there is one. SIGTERM stops it after a checkpoint with exit code 75, and the next pod goes on.
SIGUSR1 writes to the log where each thread stands.

The environment says which job it is: NITRO_JOB_NAMESPACE, NITRO_JOB_NAME, NITRO_RUN (the job's uid),
NITRO_RUN_DIR (on the checkpoint volume), NITRO_RESUME_FROM (the run of spec.resumeFrom: its folder, or
s3://BUCKET/PREFIX/RUN), NITRO_REDIS_URL, NITRO_ACTOR_URL, NITRO_TOKEN, NITRO_METRICS_PORT (0: none), and
NITRO_CODE with NITRO_CODE_SHA256 (the package of spec.code and its digest).

examples:
  nitro learn
"""

from __future__ import annotations

import argparse
import asyncio
import faulthandler
import logging
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nitro_actor.logs import write_termination_message
from nitro_learner.cli import interrupts
from nitro_learner.cli.exits import ABORTED, BAD_INPUT, DONE, FAILED, INTERRUPTED, CommandError

if TYPE_CHECKING:
    from nitro_api import ResolvedJob
    from nitro_learner.cluster.job import JobClient
    from nitro_learner.cluster.job_mirror import GrantedActors
    from nitro_learner.cluster.status_reporter import StatusReporter
    from nitro_learner.run.bucket import RunBucket
    from nitro_learner.run.check_listener import Check
    from nitro_learner.run.runs import OpenRun
    from nitro_learner.training.round_report import Outcome
    from nitro_learner.training.trainer import Trainer

logger = logging.getLogger(__name__)

# The API server may be starting, or the network of a new pod.
_API_SECONDS = 120.0
# Only the learner can report the end of a run, so it retries as long as an upgrade of a control plane may
# take.
_END_SECONDS = 600.0
_KEEP_PAUSE_SECONDS = (5.0, 15.0)
_LAST_WORDS_SECONDS = 20.0
_MEND = (
    "Another try fails in the same way: mend the environment, suspend the job, set spec.actor.image to its "
    "new image (with backend.type Local: spec.learner.image), and resume the job. With Lambda make a new job."
)
_MEND_CODE = (
    "Another try fails in the same way: mend the code, pack it with `nitro code`, and name its digest in "
    "spec.code of a new job, which begins by spec.resumeFrom with what this one has learned."
)
_MEND_OWN = (
    "Another try fails in the same way: mend the {}, suspend the job, set spec.learner.image to its new "
    "image, and resume the job."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing: the environment has all settings."""


def run(arguments: argparse.Namespace) -> int:  # noqa: ARG001
    from nitro_learner.backends.base import NotSet

    try:
        return _run()
    except NotSet as error:
        raise CommandError(str(error)) from None


def _run() -> int:
    from nitro_actor import entry_points
    from nitro_api import JobInvalid, resolve_stored
    from nitro_learner.algorithms import availability
    from nitro_learner.backends.base import variable
    from nitro_learner.cluster.job import JobClient
    from nitro_learner.cluster.status_reporter import StatusReporter
    from nitro_learner.run import logs

    # Until the training's own handlers stand: as process 1 of a container, SIGTERM would be ignored without
    # one.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(INTERRUPTED))
    # Not faulthandler.register: it reads other threads' stacks while they run, and that has ended a learner.
    signal.signal(signal.SIGUSR1, lambda *_: faulthandler.dump_traceback())
    logs.configure(structured=True)
    interrupts.orderly()
    client = JobClient(
        variable("NITRO_JOB_NAMESPACE"), variable("NITRO_JOB_NAME"), os.environ.get("NITRO_RUN")
    )
    stored = _fetch(client)
    with StatusReporter(client, stored.get("status")) as reporter:
        try:
            entry_points.find_code()
            job = resolve_stored(stored)
            availability.check(job.spec)
            return _learn(job, reporter)
        except entry_points.CodeError as error:
            return _give_up(reporter, "CodeDiffers", str(error), BAD_INPUT)
        except JobInvalid as error:
            return _give_up(reporter, "InvalidJob", str(error), BAD_INPUT)


def _learn(job: ResolvedJob, reporter: StatusReporter) -> int:
    from nitro_learner.backends.base import variable
    from nitro_learner.checkpoints.store import CheckpointError
    from nitro_learner.run.bucket import BucketError, RunBucket
    from nitro_learner.run.rundir import RunDir, RunDirBusy, RunDirError
    from nitro_learner.run.runs import earlier_outcome, open_run
    from nitro_learner.run.session import Aborted
    from nitro_learner.run.source import former_run
    from nitro_learner.training.failures import TrainingFailed

    folder = RunDir(Path(variable("NITRO_RUN_DIR")))
    try:
        with folder.locked():
            s3 = job.spec.learner.checkpoint.s3
            bucket = RunBucket(s3, folder.path.name) if s3 else None
            run_id = os.environ.get("NITRO_RUN")
            source = os.environ.get("NITRO_RESUME_FROM")
            opened = open_run(folder, job, resume=True, run_id=run_id, bucket=bucket, source=source)
            # Another pod ends what a pod has trained that could not report it: nothing is charged again.
            outcome = earlier_outcome(opened)
            if outcome:
                reporter.on_run_started(round=outcome.rounds, rounds=None, history=opened.history)
                reporter.on_run_ended(outcome)
            else:
                if opened.checkpoint is None and job.spec.resume_from is None:
                    # Whoever restored the job from a backup may want to go on with that one.
                    reporter.found_former(former_run(folder, job.metadata.name, bucket))
                _announce(opened, reporter)
                try:
                    outcome = asyncio.run(_train(opened, reporter))
                except (TrainingFailed, Aborted):
                    if bucket:  # what failed was paid for, and the next pod must know it
                        try:
                            bucket.keep(folder)
                        except BucketError as missed:
                            logger.warning("%s", missed)
                    raise
            if bucket:
                _keep_end(bucket, opened, outcome, reporter)
    except RunDirBusy as error:
        return _give_up(reporter, "RunDirBusy", str(error), INTERRUPTED)
    except RunDirError as error:
        return _give_up(reporter, "RunDirUnusable", str(error), BAD_INPUT)
    except BucketError as error:
        return _give_up(reporter, "BucketUnusable", str(error), INTERRUPTED)
    except CheckpointError as error:
        return _give_up(reporter, "CheckpointDamaged", str(error), FAILED)
    except TrainingFailed as error:
        mend = _MEND if error.evidence.environment else _MEND_OWN.format(error.own) if error.own else None
        if mend and job.spec.code:
            mend = _MEND_CODE
        message = f"{error}\n{mend}" if mend else str(error)
        return _give_up(reporter, "TrainingFailed", message, INTERRUPTED if error.resumable else FAILED)
    except Aborted:
        return ABORTED
    reporter.close(_END_SECONDS if outcome.finished else _LAST_WORDS_SECONDS)
    return DONE if outcome.finished else INTERRUPTED


def _keep_end(bucket: RunBucket, opened: OpenRun, outcome: Outcome, reporter: StatusReporter) -> None:
    """Copy the run's end to the bucket. The end of the whole run is tried again for some time, because it is
    on this pod's disk alone, and somebody may replace credentials that the bucket refuses.

    Raises:
        BucketError: the bucket cannot be written.
    """
    from nitro_learner.run.bucket import BucketError

    end = time.monotonic() + (_END_SECONDS if outcome.finished else 0.0)
    missed = opened.checkpoints.missed is not None
    while True:
        try:
            bucket.keep(opened.folder, ended=True)
        except BucketError as error:
            if time.monotonic() >= end:
                raise
            logger.warning("%s It is tried again.", error)
            reporter.on_checkpoint_missed(round=outcome.rounds, why=str(error))
            missed = True
            time.sleep(random.uniform(*_KEEP_PAUSE_SECONDS))
        else:
            break
    if missed:
        reporter.on_checkpoint_saved(round=outcome.rounds, location=str(bucket))
        reporter.on_run_ended(outcome)


def _announce(opened: OpenRun, reporter: StatusReporter) -> None:
    """Report at once where the run goes on, and with how many actors."""
    spec, checkpoint = opened.job.spec, opened.checkpoint
    if checkpoint is None:
        reporter.starting(spec, round=0, version=0, actors=spec.scaling.initial_actors)
        return
    version, actors = checkpoint.state["policies"]["version"], checkpoint.state["training"]["actors"]
    reporter.starting(spec, round=checkpoint.round, version=version, actors=actors)


async def _train(opened: OpenRun, reporter: StatusReporter) -> Outcome:
    from nitro_api.spec.learner_status import NO_CHECK
    from nitro_learner.backends.knative import KnativeBackend
    from nitro_learner.backends.local import harmless
    from nitro_learner.run.check_listener import ActorCheck, NotChecked, begin_beside
    from nitro_learner.run.metrics import LearnerMetrics
    from nitro_learner.run.session import train
    from nitro_learner.run.views.plot import draw
    from nitro_learner.training.builder import make_backend

    spec, metadata = opened.job.spec, opened.job.metadata
    metrics = LearnerMetrics(metadata.namespace or "default", metadata.name, begun=opened.folder.has_run())
    if port := int(os.environ.get("NITRO_METRICS_PORT") or 0):
        metrics.serve(port)
    # A run is checked once, before it has learned anything; and again where it had a fault.
    left_out = (metadata.annotations or {}).get(NO_CHECK) == "true"
    checks = not left_out and (opened.checkpoint is None or reporter.faulty)
    loop = asyncio.get_running_loop()

    def stop_when_gone(trainer: Trainer) -> None:
        reporter.mirror.on_gone(lambda: loop.call_soon_threadsafe(trainer.interrupt))

    output, silent = opened.folder.actors, reporter.actors_silent
    backend = make_backend(spec, opened.id, output=output, operated=True, silent=silent)
    check: Check | None = None
    if checks and spec.backend.type == "Local":
        check = begin_beside(spec, harmless(os.environ))
    elif checks and spec.backend.type == "Lambda":
        check = NotChecked("a Lambda function checks no environment; `nitro check-env` does on your machine")
    elif checks and isinstance(backend, KnativeBackend):
        check = ActorCheck(backend.check)

    def take(actors: GrantedActors) -> None:
        if isinstance(backend, KnativeBackend):
            loop.call_soon_threadsafe(backend.set_actors, actors.granted, actors.ready, actors.addresses)
        else:
            loop.call_soon_threadsafe(backend.set_limit, actors.granted)

    mirror = reporter.mirror
    if spec.backend.type != "Local":
        mirror.on_actors(take)
    try:
        outcome, _ = await train(
            opened,
            backend,
            listeners=[reporter, metrics],
            draw=draw,
            controlled=stop_when_gone,
            # Invocations are billed one by one; pods are metered by the operator.
            pods=(lambda: mirror.pods) if spec.backend.type == "Knative" else None,
            drain=lambda: mirror.drain,
            provisioned=lambda: mirror.provisioned,
            limits=lambda: mirror.limits,
            check=check,
            checked=reporter.environment_checked,
        )
    finally:
        # The loop ends here, and a grant that comes later would end the thread that has to report the end.
        mirror.on_actors(lambda *_: None)
        mirror.on_gone(lambda: None)
    return outcome


def _give_up(reporter: StatusReporter, reason: str, message: str, code: int) -> int:
    """Report why in the status, the log and Kubernetes' termination message."""
    logger.error(message, extra={"fields": {"reason": reason, "code": code}})
    write_termination_message(message)
    reporter.conclude("Running" if code == INTERRUPTED else "Failed", reason, message)
    reporter.close(_LAST_WORDS_SECONDS)
    return code


def _fetch(client: JobClient) -> dict[str, Any]:
    """Read the job from the API server, with retries."""
    from nitro_learner.cluster.job import ApiUnavailable, JobGone

    end = time.monotonic() + _API_SECONDS
    while True:
        try:
            return client.get()
        except JobGone as error:
            raise CommandError(str(error), FAILED) from None
        except ApiUnavailable as error:
            if time.monotonic() > end:
                raise CommandError(f"{error}, for {_API_SECONDS:.0f} s", INTERRUPTED) from None
            logger.warning("%s", error)
            time.sleep(2.0)
