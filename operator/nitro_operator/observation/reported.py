"""A job's status, read so that no value in it can do harm.

A learner may write its job's whole status, so it is a tenant's input. The API server checks it only against
the schema: a date may have a time zone that does not exist, and an integer may be 1e308.
"""

from datetime import UTC, datetime
from typing import Any

from nitro_api.spec.learner_status import TrainingStatus
from nitro_api.spec.status import ActorsStatus
from nitro_operator.kube.kinds import Object

MOST_POD_SECONDS = 1e12
"""Upper bound of a job's pod-seconds: ten thousand pods for three years. A larger number is not believed."""


def training(job: Object) -> TrainingStatus | None:
    """The learner's report; None before the first."""
    raw = section(job, "training")
    return TrainingStatus.model_validate(raw) if raw else None


def actors(job: Object) -> ActorsStatus:
    return ActorsStatus.model_validate(section(job, "actors"))


def section(job: Object, name: str) -> Object:
    """One part of the status as it is stored; empty where there is none."""
    value = status(job).get(name)
    return value if isinstance(value, dict) else {}


def status(job: Object) -> Object:
    """The status as it is stored."""
    value = job.get("status")
    return value if isinstance(value, dict) else {}


def moment(text: Any) -> datetime | None:
    """A point in time from the status; None if it is absent or not a valid time."""
    try:
        time = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def since(job: Object, name: str, now: datetime) -> datetime | None:
    """A point in time from the status, limited to the job's life: from its creation until now."""
    began = moment(status(job).get(name))
    if began is None:
        return None
    created = moment(job["metadata"].get("creationTimestamp"))
    return min(max(began, created) if created is not None else began, now)


def waiting_since(job: Object, now: datetime) -> datetime:
    """The time since which a job asks for actors: its creation, or the end of its last suspension.

    A job that was prepared long ago must not pass all others when it is resumed.
    """
    created = moment(job["metadata"]["creationTimestamp"]) or now
    by_type = {c.get("type"): c for c in status(job).get("conditions") or []}
    suspended, complete = by_type.get("Suspended") or {}, by_type.get("Complete") or {}
    if suspended.get("status") == "True":
        return now
    changed, first = (moment(holder.get("lastTransitionTime")) for holder in (suspended, complete))
    # Both conditions come with the first status. Only a suspension changes the one and not the other.
    if changed is None or changed == first:
        return created
    return min(max(changed, created), now)


def pod_seconds(job: Object) -> float:
    return min(actors(job).pod_seconds or 0.0, MOST_POD_SECONDS)


def vcpu_seconds(job: Object) -> dict[str, float]:
    """The CPU that pods have requested, by state; empty if no release that measured it has published it."""
    seconds = actors(job).vcpu_seconds
    numbers = seconds.to_dict() if seconds is not None else {}
    return {state: min(number, MOST_POD_SECONDS) for state, number in numbers.items()}
