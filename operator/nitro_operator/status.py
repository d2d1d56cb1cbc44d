"""The part of the status that the operator owns, as pure functions."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from nitro_api.status import ACTORS_SILENT
from nitro_operator.builders import JobView
from nitro_operator.builders.storage import checkpoint_location
from nitro_operator.conditions import (
    ACTORS_READY,
    COMPLETE,
    FAILED,
    LEARNER_READY,
    READY,
    SUSPENDED,
    Condition,
    false,
    from_problem,
    to_status,
    true,
)
from nitro_operator.diagnosis import Problem, learner_problem
from nitro_operator.kinds import Object
from nitro_operator.observed import Observed, learner_done, learner_running
from nitro_operator.stage import Judgement, Stage

OWNED = ("phase", "conditions", "observedGeneration", "startTime", "completionTime", "actors", "checkpoint")
PHASES = {
    Stage.INVALID: "Failed",
    Stage.SUSPENDED: "Suspended",
    Stage.SUCCEEDED: "Succeeded",
    Stage.FAILED: "Failed",
}


@dataclass(frozen=True)
class Situation:
    """All that a status says, found by one reconcile."""

    judgement: Judgement
    observed: Observed
    view: JobView | None
    waiting: Problem | None = None
    """Why an active job's learner may not start yet."""
    leaving: list[str] = field(default_factory=list)
    """Actors of the run before, for which it waits as well."""
    trouble: dict[str, Problem] | None = None
    """Children that the API server refused, by component."""
    actor_trouble: Problem | None = None
    """What the backend found wrong with the actors."""
    serving: bool = False
    """Whether actors answer requests."""
    silent: str | None = None
    """What the learner says of actors none of which has answered it yet."""
    heard: bool = True
    """Whether the learner has reported lately."""
    requested: int = 0
    granted: int = 0
    ready: int = 0
    pod_seconds: float = 0.0
    provisioned: int | None = None
    """Sandboxes that are kept ready; None where nothing of the kind is."""


def phase(s: Situation) -> str:
    if s.judgement.stage is not Stage.ACTIVE:
        return PHASES[s.judgement.stage]
    if learner_running(s.observed) or learner_done(s.observed):
        return "Running"
    return "Pending" if s.waiting is not None and s.observed.learner_job is None else "Starting"


def conditions(s: Situation) -> list[Condition]:
    """All six, always: a reader need not guess what an absent one means."""
    stage, problem = s.judgement.stage, s.judgement.problem
    learner, actors = _learner(s), _actors(s)
    failed = stage in (Stage.FAILED, Stage.INVALID) and problem is not None
    return [
        _ready(s, learner, actors),
        learner,
        actors,
        true(
            SUSPENDED,
            "Suspended",
            "spec.suspend is true; the run goes on from its last checkpoint when it is false",
        )
        if stage is Stage.SUSPENDED
        else false(SUSPENDED, "NotSuspended"),
        true(COMPLETE, "Succeeded", "the run has ended as spec.stop says")
        if stage is Stage.SUCCEEDED
        else false(COMPLETE, "NotComplete"),
        Condition(FAILED, True, problem.reason, problem.message, warning=True)
        if failed and problem is not None
        else false(FAILED, "NotFailed"),
    ]


def build(s: Situation, job: Object, now: datetime) -> Object:
    """The owned part of the status."""
    before = job.get("status") or {}
    stamp = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    generation = job["metadata"].get("generation", 0)
    started = before.get("startTime") or (stamp if s.observed.learner_job is not None else None)
    found: Object = {
        "phase": phase(s),
        "conditions": to_status(conditions(s), before.get("conditions") or [], generation, stamp),
        "observedGeneration": generation,
        "actors": {
            "requested": s.requested,
            "granted": s.granted,
            "ready": s.ready,
            "podSeconds": round(s.pod_seconds, 1),
        },
    }
    if s.provisioned is not None:
        found["actors"]["provisioned"] = s.provisioned
    if started is not None:
        found["startTime"] = started
    if s.judgement.finished:
        found["completionTime"] = before.get("completionTime") or stamp
    if s.view is not None:
        found["checkpoint"] = {"location": checkpoint_location(s.view)}
    return found


@dataclass(frozen=True)
class Difference:
    """How a new status differs from the published one."""

    matters: bool
    """Something that a reader waits for."""
    counts: bool
    """Only the number of ready pods."""
    meter: bool
    """Only the pod-seconds."""


def difference(new: Object, job: Object) -> Difference:
    old = {key: (job.get("status") or {})[key] for key in OWNED if key in (job.get("status") or {})}
    checkpoint = old.get("checkpoint")
    if checkpoint is not None:  # its round and time are the learner's
        old["checkpoint"] = {key: checkpoint[key] for key in ("location",) if key in checkpoint}
    ready = new["actors"]["ready"] != (old.get("actors") or {}).get("ready")
    metered = new["actors"]["podSeconds"] != (old.get("actors") or {}).get("podSeconds")
    return Difference(matters=_steady(new) != _steady(old), counts=ready, meter=metered)


def _steady(status: Object) -> Object:
    actors = {k: v for k, v in (status.get("actors") or {}).items() if k not in ("ready", "podSeconds")}
    return status | {"actors": actors}


def _ready(s: Situation, learner: Condition, actors: Condition) -> Condition:
    stage = s.judgement.stage
    if stage is not Stage.ACTIVE:
        return false(READY, stage.value)
    if s.waiting is not None and s.observed.learner_job is None:
        return from_problem(READY, s.waiting)
    for part in (learner, actors):
        if not part.status:
            return Condition(READY, False, part.reason, part.message, part.warning)
    return true(READY, "Running", "learner and actors are at work")


def _learner(s: Situation) -> Condition:
    stage, trouble = s.judgement.stage, (s.trouble or {}).get("learner")
    if stage is not Stage.ACTIVE:
        return false(LEARNER_READY, stage.value)
    if s.observed.learner_job is None and s.waiting is not None:
        return false(LEARNER_READY, "Waiting", s.waiting.message)
    if s.observed.learner_job is None and s.observed.foreign:
        return false(
            LEARNER_READY, "Waiting", f"for objects of a deleted job to go: {', '.join(s.observed.foreign)}"
        )
    if s.leaving:
        left = ", ".join(s.leaving)
        return false(LEARNER_READY, "Waiting", f"for actors of an older image or that failed to go: {left}")
    if trouble is not None:
        return from_problem(LEARNER_READY, trouble)
    backoff = s.view.spec.learner.backoff_limit if s.view is not None else 0
    problem = learner_problem(s.observed, backoff)
    if problem is not None:
        return from_problem(LEARNER_READY, problem)
    if learner_done(s.observed):
        return false(LEARNER_READY, "Finished", "the learner has ended; its pod is being cleaned up")
    if not learner_running(s.observed):
        return false(LEARNER_READY, "Starting", "the learner's pod is being started")
    if not s.heard:
        return from_problem(LEARNER_READY, SILENT)
    return true(LEARNER_READY, "Running")


def _actors(s: Situation) -> Condition:
    stage, trouble = s.judgement.stage, (s.trouble or {}).get("actors")
    if stage is not Stage.ACTIVE:
        return false(ACTORS_READY, "Released", "no actor is held")
    if s.observed.learner_job is None and s.waiting is not None:
        return false(ACTORS_READY, "Waiting", s.waiting.message)
    for problem in (s.actor_trouble, trouble):
        if problem is not None:
            return from_problem(ACTORS_READY, problem)
    if not s.serving:
        return false(ACTORS_READY, "Starting", "the first actor is being started")
    if s.silent is not None:
        return from_problem(ACTORS_READY, Problem(ACTORS_SILENT, f"{s.silent}. {SILENT_ACTORS}"))
    return true(ACTORS_READY, "Serving")


SILENT = Problem(
    "HeartbeatLost",
    "the learner has not reported for a minute; its actors are released. They come back with its "
    "next report. If none "
    "comes, look at the learner pod's log, or set spec.suspend to true and back to false.",
)


SILENT_ACTORS = (
    "One more actor is started meanwhile, so that Knative looks at them anew. If that does not help, look "
    "for what keeps the learner's pod from the actors' address: DNS, a NetworkPolicy, a mesh."
)


def limit_problem(minimum: int, limit: int, held: int) -> Problem:
    """Why a job waits for the platform's limit."""
    if minimum > limit:
        remedy = "lower spec.scaling.minActors in a new job, or raise the chart's platform.maxActors"
        return Problem(
            "PlatformLimit", f"the job needs {minimum} actors, the platform allows {limit} in all: {remedy}."
        )
    remedy = "it starts by itself when other jobs end"
    return Problem(
        "PlatformLimit",
        f"the job needs {minimum} actors, {held} of the platform's {limit} are taken: {remedy}.",
    )
