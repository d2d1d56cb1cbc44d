"""The phase of a job's life. A pure function of the observed objects, so a hand-edited status changes
nothing."""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from nitro_api.spec.lambda_backend import FINALIZER
from nitro_operator.kube import names
from nitro_operator.kube.kinds import Object
from nitro_operator.observation import reported
from nitro_operator.observation.diagnosis import Problem
from nitro_operator.observation.learner_diagnosis import deadline_problem, finished_message
from nitro_operator.observation.observed import (
    Observed,
    condition,
    holds,
    learner_done,
    learner_exit,
    left_running,
    terminating,
)
from nitro_operator.status.conditions import COMPLETE, FAILED

INVALID_SPEC = "InvalidSpec"
"""Reason of a failure that ends when the operator can read the job."""

FOREGROUND = "foregroundDeletion"
"""Kubernetes' finalizer of an object that goes after its children (`kubectl delete --cascade=foreground`)."""

HELD = (
    "the operator cannot read this job, so the learner and its actors go on as they are, and spec.suspend "
    "still ends them."
)


class Stage(Enum):
    INVALID = "Invalid"
    NOT_ALLOWED = "NotAllowed"
    SUSPENDED = "Suspended"
    ACTIVE = "Active"
    HELD = "Held"
    """It runs, and the operator cannot read its spec: nothing is changed."""
    DELETED = "Deleted"
    """It was deleted, and a finalizer keeps it. What it has is stopped."""
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


@dataclass(frozen=True)
class Judgement:
    """A stage, and the cause of a failure or a refusal, or what a running job is warned of."""

    stage: Stage
    problem: Problem | None = None

    @property
    def finished(self) -> bool:
        return self.stage in (Stage.SUCCEEDED, Stage.FAILED)

    @property
    def running(self) -> bool:
        return self.stage in (Stage.ACTIVE, Stage.HELD)


def phase_of(
    job: Object, observed: Observed, invalid: str | None, now: datetime, settings: str | None = None
) -> Judgement:
    """The stage of a job.

    The learner's Job decides, and before it a learner that is done: if its pod has containers of others, they
    decide how the pod ends, and with it the Job. The published status decides only if there is no Job, or if
    a finished Job is being deleted. `suspend` deletes a failed Job so that the run can continue; a deletion
    by hand leaves the run failed. A job that succeeded stays so, and one that failed keeps its cause when its
    deadline passes later, unless somebody wants it to go on. A job is suspended until a learner with other
    settings is gone: somebody suspended, changed and resumed it before the operator saw that. A job that was
    deleted before its end does not go on, however long a finalizer keeps it.

    Args:
        invalid: the reason why its spec cannot be used, or None.
        settings: the hash of the job's settings; None if its spec cannot be used.
    """
    stage = _stage_of(job, observed, invalid, now, settings)
    return Judgement(Stage.DELETED, _deletion(job)) if terminating(job) and not stage.finished else stage


def _stage_of(
    job: Object, observed: Observed, invalid: str | None, now: datetime, settings: str | None
) -> Judgement:
    """The stage, whether or not the job was deleted."""
    spec, learner = job["spec"], observed.learner_job
    if holds(learner, "Complete") or _succeeded(job, observed):
        return Judgement(Stage.SUCCEEDED)
    if invalid is not None and learner is None:
        return Judgement(Stage.INVALID, Problem(INVALID_SPEC, invalid))
    failure = _failure(job, observed)
    if _overdue(job, now) and (failure is None or spec.get("suspend")):
        return Judgement(Stage.FAILED, deadline_problem())
    if spec.get("suspend") or _mended(learner, settings):
        return Judgement(Stage.SUSPENDED)
    if learner is not None and not holds(learner, "Failed"):
        if invalid is not None:
            return Judgement(Stage.HELD, Problem(INVALID_SPEC, f"{HELD} {invalid}"))
        return Judgement(Stage.ACTIVE)
    return Judgement(Stage.ACTIVE) if failure is None else Judgement(Stage.FAILED, failure)


def _succeeded(job: Object, observed: Observed) -> bool:
    """Whether the run is done, although no Job says so (any more)."""
    learner, pod = observed.learner_job, observed.learner_pod
    if learner is None or terminating(learner):
        return holds(job, COMPLETE)
    if not learner_done(observed):
        return False
    failed = pod is not None and pod["status"].get("phase") == "Failed"
    return pod is None or terminating(pod) or failed or bool(left_running(pod))


def _deletion(job: Object) -> Problem:
    """The state of a deleted job in words; a warning if somebody else than Nitro and Kubernetes keeps it."""
    finalizers = job["metadata"].get("finalizers") or []
    others = [finalizer for finalizer in finalizers if finalizer not in (FINALIZER, FOREGROUND)]
    keepers = f"the finalizer{'s' if len(finalizers) > 1 else ''} {', '.join(finalizers)}"
    remedy = " Whoever set it removes it; see what it waits for." if others else ""
    return Problem(
        "Deleted",
        f"the job was deleted, so its learner and its actors are stopped. The object stays as long as it has "
        f"{keepers}.{remedy}",
        warning=bool(others),
    )


def _failure(job: Object, observed: Observed) -> Problem | None:
    """Why the run has failed; None if it has not."""
    learner, end = observed.learner_job, observed.learner_end
    if learner is not None and not holds(learner, "Failed"):
        return None
    published = condition(job, FAILED) or {}
    reason = published.get("reason") or FAILED
    known = None
    if published.get("status") == "True" and reason != INVALID_SPEC:
        known = Problem(reason, published.get("message") or "")
    if learner is None or terminating(learner):
        return known
    # The learner's last words go with its pod, as when an idle node is removed.
    silent = end is None or learner_exit(end.pod) is None
    return known if silent and known is not None else finished_message(learner, end)


def _mended(learner: Object | None, settings: str | None) -> bool:
    """Whether the learner's Job has other settings than the job."""
    made_with = ((learner or {}).get("metadata", {}).get("annotations") or {}).get(names.SETTINGS_HASH)
    return made_with is not None and settings is not None and made_with != settings


def seconds_left(job: Object, now: datetime) -> float | None:
    """Time until activeDeadlineSeconds, suspensions included; None without one."""
    deadline = job["spec"].get("activeDeadlineSeconds")
    if deadline is None:
        return None
    started = reported.since(job, "startTime", now)
    return float(deadline) if started is None else deadline - (now - started).total_seconds()


def _overdue(job: Object, now: datetime) -> bool:
    """Whether the deadline is over. A deleted job has none."""
    left = seconds_left(job, now)
    return left is not None and left <= 0 and not terminating(job)
