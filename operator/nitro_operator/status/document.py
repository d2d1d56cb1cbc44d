"""The part of the status that the operator owns, as pure functions."""

from dataclasses import dataclass, field
from datetime import datetime

from nitro_api.spec import learner_status
from nitro_api.spec.learner_status import ACTORS_SILENT, CHECKPOINT_MISSED, TrainingStatus
from nitro_operator.builders import JobView
from nitro_operator.builders.storage import checkpoint_location
from nitro_operator.kube.kinds import Object
from nitro_operator.observation import reported
from nitro_operator.observation.diagnosis import Problem, listed, name_taken, queue_problem
from nitro_operator.observation.learner_diagnosis import learner_problem, starting
from nitro_operator.observation.observed import (
    Observed,
    learner_done,
    learner_running,
    queued,
    stranger,
)
from nitro_operator.status import stopping
from nitro_operator.status.actor_problems import cut, lateness
from nitro_operator.status.conditions import (
    ACTORS_READY,
    COMPLETE,
    ENVIRONMENT_SOUND,
    FAILED,
    LEARNER_READY,
    READY,
    Condition,
    false,
    from_problem,
    to_status,
    true,
)
from nitro_operator.status.phase import Judgement, Stage
from nitro_operator.status.pod_report import PodReport

PHASES = {
    Stage.INVALID: "Failed",
    Stage.NOT_ALLOWED: "Pending",
    Stage.SUSPENDED: "Suspended",
    Stage.DELETED: "Deleting",
    Stage.SUCCEEDED: "Succeeded",
    Stage.FAILED: "Failed",
}


@dataclass(frozen=True)
class Situation:
    """The findings of one reconcile, from which the status is built."""

    judgement: Judgement
    observed: Observed
    view: JobView | None
    waiting: Problem | None = None
    """The reason why an active job's learner may not start yet."""
    leaving: list[str] = field(default_factory=list)
    """Actors of the previous run. The learner starts after they are deleted."""
    trouble: dict[str, Problem] | None = None
    """Children that the API server refused, by component."""
    actor_trouble: Problem | None = None
    """The actors' problem that the backend found."""
    serving: bool = False
    """Whether actors answer requests."""
    silent: str | None = None
    """The learner's message while no actor has answered it; None otherwise."""
    training: TrainingStatus | None = None
    """The learner's report."""
    heard: bool = True
    """Whether the learner has reported lately."""
    requested: int = 0
    granted: int = 0
    ready: int = 0
    pods: PodReport = field(default_factory=PodReport)
    provisioned: int | None = None
    """Provisioned concurrency of a Lambda function; None if there is none."""


def phase(s: Situation) -> str:
    if not s.judgement.running:
        return "Stopping" if stopping.stops(s.judgement, s.observed) else PHASES[s.judgement.stage]
    if learner_running(s.observed) or learner_done(s.observed):
        return "Running"
    waiting = s.waiting is not None and s.observed.learner_job is None
    return "Pending" if waiting or queued(s.observed) else "Starting"


def conditions(s: Situation) -> list[Condition]:
    """The six conditions that every job has, also those that are false: an absent one would be unclear. And
    what the check of the environment came to, once the learner has told it."""
    stage, problem = s.judgement.stage, s.judgement.problem
    learner, actors = _learner(s), _actors(s)
    failed = stage in (Stage.FAILED, Stage.INVALID) and problem is not None
    return [
        _ready(s, learner, actors),
        learner,
        actors,
        stopping.suspended(
            s.judgement, s.observed, s.trouble or {}, asked=s.view is None or s.view.spec.suspend
        ),
        true(COMPLETE, "Succeeded", "a stop condition of spec.stop holds, so the run has ended")
        if stage is Stage.SUCCEEDED
        else false(COMPLETE, "NotComplete"),
        Condition(FAILED, True, problem.reason, problem.message, warning=True)
        if failed and problem is not None
        else false(FAILED, "NotFailed"),
        *checked(s.training),
    ]


def checked(training: TrainingStatus | None) -> list[Condition]:
    """The condition of the environment; none where its check has not ended, or was not wanted."""
    if training is None or training.check not in _CHECKED:
        return []
    holds = _CHECKED[training.check]
    message = training.check_message or ""
    return [Condition(ENVIRONMENT_SOUND, holds, training.check, message, warning=holds is False)]


def build(s: Situation, job: Object, now: datetime) -> Object:
    """The owned part of the status."""
    before = reported.status(job)
    stamp = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    generation = job["metadata"].get("generation", 0)
    begun = s.observed.learner_job is not None and not queued(s.observed)
    started = _time(before, "startTime") or (stamp if begun else None)
    document: Object = {
        "phase": phase(s),
        "conditions": to_status(conditions(s), before.get("conditions") or [], generation, stamp),
        "observedGeneration": generation,
        "actors": {
            "requested": s.requested,
            "granted": s.granted,
            "ready": s.ready,
            **s.pods.to_status(_busy(s)),
        },
    }
    if s.provisioned is not None:
        document["actors"]["provisioned"] = s.provisioned
    if started is not None:
        document["startTime"] = started
    if s.judgement.finished:
        document["completionTime"] = _time(before, "completionTime") or stamp
    if s.view is not None:
        document["scaler"] = s.view.spec.scaling.decider
    kept = reported.section(job, "checkpoint").get("location")
    location = checkpoint_location(s.view) if s.view is not None else kept
    if location is not None:
        document["checkpoint"] = {"location": location}
    return document


def _busy(s: Situation) -> float | None:
    """The actors' working time, divided by the actors per pod. Unit: pod-seconds. None if it is unknown."""
    busy = s.training.busy_seconds if s.training is not None else None
    return busy / s.view.spec.actor.per_pod if busy is not None and s.view is not None else None


def _time(status: Object, name: str) -> str | None:
    """A time that was published before; None if it is not a valid time."""
    text: str | None = status.get(name)
    return text if reported.moment(text) is not None else None


def _ready(s: Situation, learner: Condition, actors: Condition) -> Condition:
    stage, problem = s.judgement.stage, s.judgement.problem
    if stage in (Stage.NOT_ALLOWED, Stage.HELD) and problem is not None:
        return from_problem(READY, problem)
    if not s.judgement.running:
        return stopping.ready(s.judgement, s.observed, s.trouble or {})
    if s.waiting is not None and s.observed.learner_job is None:
        return from_problem(READY, s.waiting)
    for part in (learner, actors):
        if not part.status:
            return Condition(READY, False, part.reason, part.message, part.warning)
    if problem is not None:  # of a job that runs, but could not be started now
        return Condition(READY, True, problem.reason, problem.message, problem.warning)
    return true(READY, "Running", "the learner and the actors work")


def _learner(s: Situation) -> Condition:
    trouble = (s.trouble or {}).get("learner")
    if not s.judgement.running:
        return stopping.learner(s.judgement, s.observed, trouble)
    if s.observed.learner_job is None and s.waiting is not None:
        return false(LEARNER_READY, "Waiting", s.waiting.message)
    if s.observed.learner_job is None and s.observed.foreign:
        if strange := [pod for pod in s.observed.foreign if stranger(pod)]:
            return from_problem(LEARNER_READY, name_taken(strange))
        return false(
            LEARNER_READY,
            "Waiting",
            f"objects of a deleted job of this name must go first: {listed(s.observed.foreign)}. They are "
            "being deleted. A pod whose node is lost stays until its node is deleted or comes back.",
        )
    if s.observed.former_pods:
        pods = ", ".join(pod["metadata"]["name"] for pod in s.observed.former_pods)
        return false(
            LEARNER_READY,
            "Waiting",
            f"the learner's Job was deleted, and its pods must end first: {pods}. Two learners would write "
            "to one run. Delete a pod that does not end.",
        )
    if s.leaving:
        left = ", ".join(s.leaving)
        return false(
            LEARNER_READY,
            "Waiting",
            "pods of another image, failed ones, or those with the passwords of a deleted Secret, must be "
            f"removed first: {left}",
        )
    if trouble is not None:
        return from_problem(LEARNER_READY, trouble)
    if queued(s.observed):
        return from_problem(LEARNER_READY, queue_problem(s.observed))
    backoff = s.view.spec.learner.backoff_limit if s.view is not None else 0
    problem = learner_problem(s.observed, backoff)
    if problem is not None:
        return from_problem(LEARNER_READY, problem)
    if learner_done(s.observed):
        return false(LEARNER_READY, "Finished", "the learner has ended; its pod is being removed")
    if not learner_running(s.observed):
        return false(LEARNER_READY, "Starting", starting(s.observed))
    if not s.heard:
        return from_problem(LEARNER_READY, SILENT)
    if s.training is not None and s.training.reason == CHECKPOINT_MISSED:
        message = f"{s.training.message or 'the bucket lacks a checkpoint'} {MISSED}"
        return Condition(LEARNER_READY, True, CHECKPOINT_MISSED, message, warning=True)
    return true(LEARNER_READY, "Running")


def _actors(s: Situation) -> Condition:
    trouble = (s.trouble or {}).get("actors")
    if not s.judgement.running:
        return stopping.actors(s.observed, trouble)
    if s.observed.learner_job is None and s.waiting is not None:
        return false(ACTORS_READY, "Waiting", s.waiting.message)
    if queued(s.observed):
        return false(ACTORS_READY, "Waiting", "actors are started with the learner, which waits")
    for problem in (s.actor_trouble, trouble):
        if problem is not None:
            return from_problem(ACTORS_READY, problem)
    if not s.serving:
        return false(ACTORS_READY, "Starting", "the first actor is being started")
    if s.silent is not None:
        return from_problem(ACTORS_READY, Problem(ACTORS_SILENT, f"{s.silent}. {SILENT_ACTORS}"))
    if s.pods.taken:
        return true(ACTORS_READY, "WakeDeferred", s.pods.waits)
    late = lateness(s.training, s.pods.times, s.view.spec, s.granted) if s.view is not None else None
    late = cut(s.training) or late
    if late is not None:
        return Condition(ACTORS_READY, True, late.reason, late.message, late.warning)
    if s.pods.sleepless is not None:
        return Condition(ACTORS_READY, True, s.pods.sleepless.reason, s.pods.sleepless.message, warning=True)
    return true(ACTORS_READY, "Serving")


_CHECKED = {
    learner_status.ENVIRONMENT_SOUND: True,
    learner_status.ENVIRONMENT_FAULTY: False,
    learner_status.NOT_CHECKED: None,
}
"""Whether the environment is sound, by what the learner has reported of its check."""

SILENT = Problem(
    "HeartbeatLost",
    "the learner has not reported for a minute. Its actors are released now, or when spec.scaling.hold is "
    "over. They come back with its next report. If no report comes, look at the learner pod's log, or set "
    "spec.suspend to true and back to false.",
)


MISSED = (
    "The learner trains on, and its next checkpoint brings all of it to the bucket, with the present keys of "
    "credentialsSecret; a changed Secret takes up to two minutes. If the pod ends before that, suspension "
    "included, what was trained since the last checkpoint in the bucket is lost and done again."
)

SILENT_ACTORS = (
    "The operator has added one actor, so that Knative checks the actors again. If that does not help, find "
    "out why the learner's pod cannot reach the actors' address: DNS, a NetworkPolicy or a service mesh."
)
