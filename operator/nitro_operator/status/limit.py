"""The problem of a job that waits for actors."""

from __future__ import annotations

from nitro_operator.observation.diagnosis import Problem
from nitro_operator.scaling.platform import Room


def limit_problem(minimum: int, platform: Room, namespace: Room) -> Problem:
    """The reason why a job waits for the limit of the platform or of its namespace."""
    reason, room, whose, value = "PlatformLimit", platform, "the platform", "platform.maxActors"
    if namespace.limit < platform.limit and minimum > namespace.limit - namespace.taken:
        reason, room = "NamespaceLimit", namespace
        whose, value = "this namespace", "platform.namespaceMaxActors"
    if minimum > room.limit:
        remedy = f"lower spec.scaling.minActors in a new job, or raise the chart's {value}"
        told = f"the job needs {minimum} actors, {whose} may have {room.limit} in all: {remedy}."
        return Problem(reason, told)
    remedy = "it starts by itself when jobs end that hold actors or have waited longer"
    told = f"the job needs {minimum} actors, and other jobs hold {room.taken} of the {room.limit} of {whose}"
    return Problem(reason, f"{told}: {remedy}.")
