"""Whether a job's learner reports."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from nitro_operator.kube.cache import Cache
from nitro_operator.kube.client import Kube
from nitro_operator.kube.errors import ApiError
from nitro_operator.kube.kinds import TRAINING_JOB, JobKey
from nitro_operator.reconcile.context import ReconcileContext

logger = logging.getLogger(__name__)


async def listen(run: ReconcileContext, kube: Kube, cache: Cache, wake: Callable[[JobKey], None]) -> None:
    """Find out whether the learner reports. If it is late, read the job: the watch may be broken."""
    heartbeat = run.memory.heartbeat
    heartbeat.see(run.job, run.observed, run.now)
    if heartbeat.due(run.now):
        try:
            fresh = await kube.get(TRAINING_JOB, run.key.namespace, run.key.name)
        except ApiError as error:
            logger.warning("%s: cannot see whether its learner reports: %s", run.key, error)
            heartbeat.looked(_now(), answered=False)
        else:
            heartbeat.looked(_now(), answered=True)
            heartbeat.see(fresh, run.observed, run.now)
            if fresh["metadata"]["resourceVersion"] != run.job["metadata"]["resourceVersion"]:
                cache.put(TRAINING_JOB, fresh)
                # It may hold a new request: the next reconcile looks at it.
                wake(run.key)
    run.heard = heartbeat.heard(run.now)
    if run.heard:
        run.again.append(max(heartbeat.next_look(run.now), 0) + 0.1)


def _now() -> float:
    return asyncio.get_running_loop().time()
