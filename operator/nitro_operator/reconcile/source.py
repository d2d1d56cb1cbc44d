"""Where the run of spec.resumeFrom is, or why the learner cannot start from it."""

from nitro_api.rules.resume_rules import differences
from nitro_operator.builders import JobView
from nitro_operator.builders.storage import Source
from nitro_operator.kube.cache import Cache
from nitro_operator.kube.kinds import JobKey, Object
from nitro_operator.observation import reported
from nitro_operator.observation.diagnosis import Problem
from nitro_operator.observation.metering import PodMeter
from nitro_operator.observation.observed import terminating
from nitro_operator.reconcile.context import ReconcileContext
from nitro_operator.reconcile.memory import JobMemory

ENDED = ("Succeeded", "Failed", "Suspended")
"""Phases in which no learner writes to a run."""
LOOK_SECONDS = 5.0
"""Time between two looks at a job that another one waits for."""


def find_source(run: ReconcileContext, view: JobView, cache: Cache) -> None:
    """Before the learner starts, find the run whose policies it begins with, or why it has to wait."""
    wanted = view.spec.resume_from
    if wanted is None or run.observed.learner_job is not None:
        return
    if wanted.s3 is not None:
        run.source = Source(address=wanted.s3)
    # A learner with a checkpoint of its own does not read the other one, which may be deleted.
    elif has_checkpoint(run.job):
        return
    elif wanted.claim is not None:
        run.source = Source(claim=wanted.claim, folder=wanted.folder)
    elif wanted.job is not None:
        source = _run_of(wanted.job, view, cache)
        if isinstance(source, Problem):
            run.waiting = source
            run.again.append(LOOK_SECONDS)
        else:
            run.source = source


def _run_of(name: str, view: JobView, cache: Cache) -> Source | Problem:
    """The run of another job, or why the job of the view cannot begin with its policies."""
    source = cache.job(JobKey(view.namespace, name))
    what = f"spec.resumeFrom.job: NitroTrainingJob {name}"
    if source is None or terminating(source):
        return Problem(
            "SourceMissing",
            f"{what} does not exist in this namespace. The job waits for it. Create it, or delete this job "
            "and create it with another source.",
        )
    memory = JobMemory(source["metadata"]["uid"], PodMeter())
    memory.read(source, view.config)
    if memory.view is None:
        return Problem("SourceMissing", f"{what} cannot be read: {memory.invalid}")
    differing = differences(memory.view.spec, view.spec)
    if differing:
        return Problem(
            "SourceDiffers",
            f"{what} does not fit this job: {'; '.join(differing)}. They must be equal: delete this job, "
            "correct it and create it anew.",
        )
    if not has_checkpoint(source):
        return Problem(
            "SourceWithoutCheckpoint",
            f"{what} has no checkpoint yet. The job starts by itself after the first one.",
            warning=False,
        )
    whole = view.spec.resume_from is not None and view.spec.resume_from.take == "Run"
    if whole and reported.status(source).get("phase") not in ENDED:
        return Problem(
            "SourceRunning",
            f"{what} has not ended, and take: Run goes on where it ends. The job starts by itself after that "
            "one has ended or is suspended.",
            warning=False,
        )
    return Source.of(memory.view)


def has_checkpoint(job: Object) -> bool:
    """Whether the job's learner has reported a checkpoint."""
    return "round" in reported.section(job, "checkpoint")
