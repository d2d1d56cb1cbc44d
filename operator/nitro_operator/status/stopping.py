"""The conditions of a job that does not run. It has stopped when its pods are seen to be gone; until then the
conditions say what is left, and what is in the way."""

from collections.abc import Mapping

from nitro_operator.kube.kinds import Object
from nitro_operator.observation.diagnosis import Problem
from nitro_operator.observation.observed import Observed, alive, terminating
from nitro_operator.status.conditions import (
    ACTORS_READY,
    LEARNER_READY,
    READY,
    SUSPENDED,
    Condition,
    false,
    from_problem,
    true,
)
from nitro_operator.status.phase import Judgement, Stage

STOPPING = "Stopping"
"""Reason of what is to end, and is still there."""
MOST_NAMES = 4
"""Pods that a message names; there may be hundreds."""


Trouble = Mapping[str, Problem]
"""What the API server refused, by component."""


def stops(judgement: Judgement, observed: Observed) -> bool:
    """Whether a job that is not to run still has a pod, or a learner's Job that could start one."""
    if judgement.stage not in (Stage.SUSPENDED, Stage.NOT_ALLOWED):
        return False
    job = observed.learner_job
    return bool(_learners(observed) or _actors(observed)) or (job is not None and not terminating(job))


def ready(judgement: Judgement, observed: Observed, trouble: Trouble) -> Condition:
    problem, left = judgement.problem, _left(observed, trouble)
    if judgement.stage is Stage.DELETED and problem is not None:
        said = f"{problem.message} {left or 'Its learner and its actors are gone.'}"
        return Condition(READY, False, problem.reason, said, problem.warning)
    if stops(judgement, observed):
        return false(READY, STOPPING, left)
    return false(READY, judgement.stage.value)


def learner(judgement: Judgement, observed: Observed, trouble: Problem | None) -> Condition:
    if trouble is not None:
        return from_problem(LEARNER_READY, trouble)  # it cannot be stopped now
    left = _of_learner(observed)
    return false(LEARNER_READY, STOPPING if left else judgement.stage.value, left)


def actors(observed: Observed, trouble: Problem | None) -> Condition:
    left = _of_actors(observed)
    if trouble is not None:  # they could not be released
        said = f"{trouble.message} {left}".strip()
        return Condition(ACTORS_READY, False, trouble.reason, said, trouble.warning)
    return (
        false(ACTORS_READY, STOPPING, left) if left else false(ACTORS_READY, "Released", "no actor is held")
    )


def suspended(judgement: Judgement, observed: Observed, trouble: Trouble, *, asked: bool) -> Condition:
    """Whether a job is suspended.

    Args:
        asked: whether spec.suspend is true; otherwise it is suspended until its settings can change.
    """
    if judgement.stage is not Stage.SUSPENDED:
        return false(SUSPENDED, "NotSuspended")
    if stops(judgement, observed):
        return false(SUSPENDED, STOPPING, _left(observed, trouble))
    goes_on = "settings of the pods have changed; the run continues with them when its learner has ended"
    if asked:
        goes_on = "spec.suspend is true; when it is false, the run continues from its last checkpoint"
    return true(SUSPENDED, "Suspended", goes_on)


def _learners(observed: Observed) -> list[Object]:
    pods = [*([observed.learner_pod] if observed.learner_pod is not None else []), *observed.former_pods]
    return [pod for pod in pods if alive(pod)]


def _actors(observed: Observed) -> list[Object]:
    return [pod for pod in observed.actor_pods if alive(pod)]


def _left(observed: Observed, trouble: Trouble) -> str:
    """All that is left, and what is in the way; empty if nothing is."""
    job = observed.learner_job
    pods = (_of_learner(observed), _of_actors(observed))
    if not any(pods) and job is not None and not terminating(job):
        pods = ("the learner's Job is left.", "")
    return " ".join(filter(None, (*pods, *(problem.message for problem in trouble.values()))))


def _of_learner(observed: Observed) -> str:
    pods = _learners(observed)
    return f"the learner's pod is left: {_named(pods)}." if pods else ""


def _of_actors(observed: Observed) -> str:
    pods = _actors(observed)
    if not pods:
        return ""
    said = f"{len(pods)} of the actors' pods {'is' if len(pods) == 1 else 'are'} left: {_named(pods)}."
    if all(map(terminating, pods)):
        return said
    return (
        f"{said} Knative has not asked all of them to end; if that lasts, see whether the autoscaler and the "
        "controller in Knative's namespace run."
    )


def _named(pods: list[Object]) -> str:
    more = len(pods) - MOST_NAMES
    return ", ".join(map(_pod, pods[:MOST_NAMES])) + (f" and {more} more" if more > 0 else "")


def _pod(pod: Object) -> str:
    """A pod's name, and of one that is ending until when, on which node, and who holds it."""
    meta, node = pod["metadata"], (pod.get("spec") or {}).get("nodeName")
    if not terminating(pod):
        return str(meta["name"])
    finalizers = meta.get("finalizers")
    held = f", held by {', '.join(finalizers)}" if finalizers else ""
    lost = f"; if node {node} is lost: kubectl delete node {node}" if node else ""
    return f"{meta['name']} (it has until {meta['deletionTimestamp']}{held}{lost})"
