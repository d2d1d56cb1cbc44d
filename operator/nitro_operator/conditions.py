"""The conditions of a job: what is true of it, since when, why, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nitro_operator.diagnosis import Problem
from nitro_operator.kinds import Object

READY, LEARNER_READY, ACTORS_READY = "Ready", "LearnerReady", "ActorsReady"
SUSPENDED, COMPLETE, FAILED = "Suspended", "Complete", "Failed"


@dataclass(frozen=True)
class Condition:
    """One aspect of the job."""

    type: str
    status: bool
    reason: str
    message: str = ""
    warning: bool = False
    """Whether something is wrong that somebody should know of."""


def true(kind: str, reason: str, message: str = "") -> Condition:
    return Condition(kind, True, reason, message)


def false(kind: str, reason: str, message: str = "") -> Condition:
    return Condition(kind, False, reason, message)


def from_problem(kind: str, problem: Problem) -> Condition:
    return Condition(kind, False, problem.reason, problem.message, problem.warning)


def to_status(
    found: Iterable[Condition], before: Iterable[Object], generation: int, now: str
) -> list[Object]:
    """The list for the status; a condition that keeps its value keeps its time."""
    old: Mapping[str, Object] = {c["type"]: c for c in before}
    return [_written(condition, old.get(condition.type), generation, now) for condition in found]


def _written(condition: Condition, before: Object | None, generation: int, now: str) -> Object:
    value = "True" if condition.status else "False"
    since = before.get("lastTransitionTime") if before is not None and before.get("status") == value else None
    return {
        "type": condition.type,
        "status": value,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": since or now,
        "observedGeneration": generation,
    }


def news(found: Iterable[Condition], before: Iterable[Object]) -> list[Condition]:
    """The conditions worth an event: new warnings, and what has become true. One for each cause."""
    old = {c["type"]: (c.get("status"), c.get("reason")) for c in before}
    told: dict[str, Condition] = {}
    for condition in found:
        changed = old.get(condition.type) != ("True" if condition.status else "False", condition.reason)
        if changed and (condition.warning or condition.status):
            told.setdefault(condition.reason, condition)
    return list(told.values())
