"""The problem of a job that waits for actors."""

from __future__ import annotations

from nitro_operator.observation.diagnosis import Problem
from nitro_operator.scaling.platform import Room


def limit_problem(minimum: int, platform: Room, namespace: Room, *, per_pod: int = 1) -> Problem:
    """The reason why a job waits for the limit of the platform or of its namespace."""
    needs, fields = f"the job needs {minimum} actors", "spec.scaling.minActors"
    if per_pod > 1:
        needs, fields = f"{needs} in pods of {per_pod}", f"{fields} or spec.actor.perPod"
    reason, room, whose, value = "PlatformLimit", platform, "the platform", "platform.maxActors"
    if namespace.limit < platform.limit and minimum > namespace.limit - namespace.taken:
        reason, room = "NamespaceLimit", namespace
        whose, value = "this namespace", "platform.namespaceMaxActors"
    if minimum > room.limit:
        remedy = f"lower {fields} in a new job, or raise the chart's {value}"
        told = f"{needs}, {whose} may have {room.limit} in all: {remedy}."
        return Problem(reason, told)
    remedy = "it starts by itself when jobs end that hold actors or have waited longer"
    told = f"{needs}, and other jobs hold {room.taken} of the {room.limit} of {whose}"
    return Problem(reason, f"{told}: {remedy}.")
