"""The job's Secret. It is read by name, never listed, and created again if somebody deletes it."""

from __future__ import annotations

from nitro_operator.builders import JobView, credentials_secret
from nitro_operator.kube.client import Kube
from nitro_operator.kube.errors import ApiError
from nitro_operator.kube.kinds import Object
from nitro_operator.kube.secrets import get_or_create
from nitro_operator.observation.observed import Observed, alive, containers, terminating
from nitro_operator.reconcile.memory import JobMemory

CHECK_SECONDS = 120.0
CHECK_SECONDS_WHILE_STARTING = 10.0
NOT_STARTED = {"ContainerCreating", "PodInitializing", "CreateContainerConfigError"}
"""A pod in these states may wait for the Secret: a missing volume shows only as an event."""


async def ensure_secret(kube: Kube, view: JobView, memory: JobMemory, observed: Observed, now: float) -> None:
    """Create the Secret if it is missing, and replace pods that have older passwords.

    It is checked before the learner starts, while a pod does not start, and every two minutes. Pods are
    evicted, so the learner's Job counts no failure; it resumes from its checkpoint.
    """
    starting = any(_waits(pod) for pod in _pods(observed))
    rest = CHECK_SECONDS_WHILE_STARTING if starting else CHECK_SECONDS
    if observed.learner_job is not None and now - memory.secret_checked < rest * memory.jitter:
        return
    secret = await get_or_create(kube, credentials_secret(view))
    memory.secret_created = secret["metadata"]["creationTimestamp"]
    for pod in _pods(observed):
        if (
            pod["metadata"]["creationTimestamp"] < memory.secret_created
            and not terminating(pod)
            and alive(pod)
        ):
            await _evict(kube, pod)
    memory.secret_checked = now


async def _evict(kube: Kube, pod: Object) -> None:
    try:
        await kube.evict(pod["metadata"]["namespace"], pod["metadata"]["name"])
    except ApiError as error:
        if error.status != 404:
            raise


def _pods(observed: Observed) -> list[Object]:
    learner = [observed.learner_pod] if observed.learner_pod is not None else []
    return [*learner, *observed.actor_pods]


def _waits(pod: Object) -> bool:
    states = ((status.get("state") or {}).get("waiting") or {} for status in containers(pod))
    return any(waiting.get("reason") in NOT_STARTED for waiting in states)
