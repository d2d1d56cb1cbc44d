"""The job's Secret. It is read by name, never listed, and created again if somebody deletes it; pods with the
former passwords are replaced."""

from __future__ import annotations

from nitro_operator.builders import JobView, credentials_secret
from nitro_operator.kube.client import Kube
from nitro_operator.kube.errors import ApiError
from nitro_operator.kube.kinds import Object
from nitro_operator.kube.secrets import get_or_create
from nitro_operator.observation.observed import Observed, alive, containers, terminating
from nitro_operator.reconcile.memory import JobMemory
from nitro_operator.reconcile.trouble import eviction_refusal

CHECK_SECONDS = 120.0
CHECK_SECONDS_WHILE_STARTING = 10.0
NOT_STARTED = {"ContainerCreating", "PodInitializing", "CreateContainerConfigError"}
"""A pod in these states may wait for the Secret: a missing volume shows only as an event."""


async def ensure_secret(kube: Kube, view: JobView, memory: JobMemory, observed: Observed, now: float) -> None:
    """Create the Secret if it is missing.

    It is checked before the learner starts, while a pod does not start, and every two minutes.
    """
    starting = any(_waits(pod) for pods in _pods(observed).values() for pod in pods)
    rest = CHECK_SECONDS_WHILE_STARTING if starting else CHECK_SECONDS
    if observed.learner_job is not None and now - memory.secret_checked < rest * memory.jitter:
        return
    secret = await get_or_create(kube, credentials_secret(view))
    memory.secret_created = secret["metadata"]["creationTimestamp"]
    memory.secret_checked = now


async def replace_pods(kube: Kube, memory: JobMemory, observed: Observed) -> None:
    """Evict the pods that have passwords of an earlier Secret. A refusal becomes the component's trouble.

    They are not deleted: the learner's Job counts an eviction as no failure, and it resumes from its
    checkpoint.
    """
    for component, pods in _pods(observed).items():
        for pod in pods:
            meta = pod["metadata"]
            if meta["creationTimestamp"] >= memory.secret_created or terminating(pod) or not alive(pod):
                continue
            try:
                await kube.evict(meta["namespace"], meta["name"])
            except ApiError as error:
                memory.trouble.setdefault(component, eviction_refusal(meta["name"], error))
                if not error.disruption_refused:
                    return  # each of the others could take as long
                break  # the component's other pods are most likely of the same budget


def _pods(observed: Observed) -> dict[str, list[Object]]:
    learner = [observed.learner_pod] if observed.learner_pod is not None else []
    return {"learner": learner, "actors": observed.actor_pods}


def _waits(pod: Object) -> bool:
    states = ((status.get("state") or {}).get("waiting") or {} for status in containers(pod))
    return any(waiting.get("reason") in NOT_STARTED for waiting in states)
