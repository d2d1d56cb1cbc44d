"""The conditions of a job, each with its value, its time, its cause and its remedy."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nitro_operator.kube.kinds import Object
from nitro_operator.observation.diagnosis import Problem
from nitro_operator.observation.reported import moment
from nitro_operator.observation.words import cut

MESSAGE_LENGTH = 32_768
"""The CRD's limit. A message may quote the learner's message, which may have that length itself."""
READY, LEARNER_READY, ACTORS_READY = "Ready", "LearnerReady", "ActorsReady"
SUSPENDED, COMPLETE, FAILED = "Suspended", "Complete", "Failed"
ENVIRONMENT_SOUND = "EnvironmentSound"


@dataclass(frozen=True)
class Condition:
    """One aspect of the job."""

    type: str
    status: bool | None
    """Whether it holds; None where that is not known."""
    reason: str
    message: str = ""
    warning: bool = False
    """Whether it is a problem that a person should know."""

    @property
    def value(self) -> str:
        """The status as Kubernetes writes it."""
        return {True: "True", False: "False", None: "Unknown"}[self.status]


def true(kind: str, reason: str, message: str = "") -> Condition:
    return Condition(kind, True, reason, message)


def false(kind: str, reason: str, message: str = "") -> Condition:
    return Condition(kind, False, reason, message)


def from_problem(kind: str, problem: Problem) -> Condition:
    return Condition(kind, False, problem.reason, problem.message, problem.warning)


def to_status(
    conditions: Iterable[Condition], before: Iterable[Object], generation: int, now: str
) -> list[Object]:
    """The list for the status. A condition whose value has not changed keeps its time."""
    old: Mapping[str, Object] = {c.get("type", ""): c for c in before}
    return [_written(condition, old.get(condition.type), generation, now) for condition in conditions]


def _written(condition: Condition, before: Object | None, generation: int, now: str) -> Object:
    value = condition.value
    since = before.get("lastTransitionTime") if before is not None and before.get("status") == value else None
    if moment(since) is None:
        since = now
    return {
        "type": condition.type,
        "status": value,
        "reason": condition.reason,
        "message": cut(condition.message, MESSAGE_LENGTH),
        "lastTransitionTime": since,
        "observedGeneration": generation,
    }


def news(conditions: Iterable[Condition], before: Iterable[Object]) -> list[Condition]:
    """The conditions that get an event, one for each cause: new warnings, and those that became true."""
    old = {c.get("type", ""): (c.get("status"), c.get("reason")) for c in before}
    told: dict[str, Condition] = {}
    for condition in conditions:
        changed = old.get(condition.type) != (condition.value, condition.reason)
        if changed and (condition.warning or condition.status):
            told.setdefault(condition.reason, condition)
    return list(told.values())
