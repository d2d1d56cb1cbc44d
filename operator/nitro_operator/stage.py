"""Which part of its life a job is in. A pure function of what is seen, so a hand-edited status changes
nothing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from nitro_operator.conditions import COMPLETE, FAILED
from nitro_operator.diagnosis import Problem, deadline_problem, finished_message
from nitro_operator.kinds import Object
from nitro_operator.observed import Observed, condition, holds, terminating

INVALID_SPEC = "InvalidSpec"
"""Reason of a failure that is judged anew each time: it ends when the operator can read the job."""


class Stage(Enum):
    INVALID = "Invalid"
    SUSPENDED = "Suspended"
    ACTIVE = "Active"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


@dataclass(frozen=True)
class Judgement:
    """A stage, and for a failure its cause."""

    stage: Stage
    problem: Problem | None = None

    @property
    def finished(self) -> bool:
        return self.stage in (Stage.SUCCEEDED, Stage.FAILED)


def judge(job: Object, observed: Observed, invalid: str | None, now: datetime) -> Judgement:
    """The stage of a job.

    The learner's Job is the evidence; the status counts only where no Job is left to look at, or a failed
    one that is being deleted: by `suspend`, which revives a failed run, or by hand, which does not. One that
    succeeded stays so.

    Args:
        job: the NitroTrainingJob.
        observed: its children.
        invalid: why its spec cannot be used, or None.
        now: the API server's time.
    """
    spec = job["spec"]
    if holds(observed.learner_job, "Complete") or (observed.learner_job is None and holds(job, COMPLETE)):
        return Judgement(Stage.SUCCEEDED)
    if invalid is not None:
        return Judgement(Stage.INVALID, Problem(INVALID_SPEC, invalid))
    if _overdue(job, now):
        return Judgement(Stage.FAILED, deadline_problem())
    if spec.get("suspend"):
        return Judgement(Stage.SUSPENDED)
    learner = observed.learner_job
    if learner is not None and not holds(learner, "Failed"):
        return Judgement(Stage.ACTIVE)
    if learner is not None and not terminating(learner):
        return Judgement(Stage.FAILED, finished_message(learner, observed.learner_pod))
    remembered = condition(job, FAILED)
    if remembered is not None and remembered["status"] == "True" and remembered["reason"] != INVALID_SPEC:
        return Judgement(Stage.FAILED, Problem(remembered["reason"], remembered.get("message", "")))
    return Judgement(Stage.ACTIVE)


def seconds_left(job: Object, now: datetime) -> float | None:
    """Time until activeDeadlineSeconds, suspensions included; None without one."""
    deadline = job["spec"].get("activeDeadlineSeconds")
    if deadline is None:
        return None
    started = (job.get("status") or {}).get("startTime")
    return (
        float(deadline)
        if started is None
        else deadline - (now - datetime.fromisoformat(started)).total_seconds()
    )


def _overdue(job: Object, now: datetime) -> bool:
    left = seconds_left(job, now)
    return left is not None and left <= 0
