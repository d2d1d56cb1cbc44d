"""The job's Secret. It is read by name, never listed. If it is deleted, the run goes on with another one."""

from __future__ import annotations

import logging
import secrets

from nitro_operator.builders import JobView, credentials_secret
from nitro_operator.kube import names
from nitro_operator.kube.client import Kube
from nitro_operator.kube.kinds import Object
from nitro_operator.kube.secrets import find, get_or_create
from nitro_operator.observation.observed import Observed, containers, named_secret
from nitro_operator.reconcile.memory import JobMemory

logger = logging.getLogger(__name__)

CHECK_SECONDS = 120.0
CHECK_SECONDS_WHILE_STARTING = 10.0
NOT_STARTED = {"ContainerCreating", "PodInitializing", "CreateContainerConfigError"}
"""A pod in these states may wait for the Secret: a missing volume shows only as an event."""


async def ensure_secret(kube: Kube, view: JobView, memory: JobMemory, observed: Observed, now: float) -> bool:
    """Create the Secret before the first pods; later look whether it still exists.

    It is looked for before the learner starts, while a pod does not start, and every two minutes.

    Returns:
        False if pods were made with a Secret that is deleted. The memory then has the name of the next one,
        and learner and actors have to be made again: new pods would get the deleted Secret's content by the
        same name.
    """
    starting = any(_waits(pod) for pod in (*observed.actor_pods, observed.learner_pod) if pod is not None)
    rest = CHECK_SECONDS_WHILE_STARTING if starting else CHECK_SECONDS
    if observed.learner_job is not None and now - memory.secret_checked < rest * memory.jitter:
        return True
    wanted = credentials_secret(view)
    if named_secret(observed) != view.credentials:
        await get_or_create(kube, wanted)
    elif await find(kube, wanted) is None:
        logger.warning("%s: Secret %s was deleted: its pods are replaced", view.key, view.credentials)
        memory.name_secret(names.credentials(view.name, secrets.token_hex(4)))
        return False
    memory.secret_checked = now
    return True


def _waits(pod: Object) -> bool:
    states = ((status.get("state") or {}).get("waiting") or {} for status in containers(pod))
    return any(waiting.get("reason") in NOT_STARTED for waiting in states)
