"""Work of sleepers that a learner does not name: it is metered as awake, and ends their sleep.

A learner is a tenant's program. One that hides what it needs could send its work to sleepers, and pay 1m of
CPU for it. So the operator reads what actors use from the cluster's metrics API. A kubelet measures that from
outside of the pod: nothing in a pod can change it, whatever way the work took. Where a cluster serves no such
API nothing is found.
"""

import asyncio
import logging

from nitro_api.pools.pod_resources import ACTOR
from nitro_api.quantities import amount_of
from nitro_operator.kube import names
from nitro_operator.kube.client import Kube
from nitro_operator.kube.errors import ApiError
from nitro_operator.kube.kinds import POD_METRICS, JobKey, Object
from nitro_operator.observation.diagnosis import Problem
from nitro_operator.observation.metering import state_of
from nitro_operator.observation.reported import moment
from nitro_operator.reconcile.context import ReconcileContext
from nitro_operator.sleeping.memory import Usage
from nitro_operator.sleeping.plan import uid_of

LOOK_SECONDS = 15.0
"""Time between two looks at the sleepers of a job. Metrics servers measure every 15 to 60 s."""
WAIT_SECONDS = 3.0
"""Time for an answer: the reconcile waits for it."""
ABSENT_SECONDS, SILENT_SECONDS = 600.0, 60.0
"""Times after which a metrics API is asked again that is not there, or that did not answer."""

HIDDEN = Problem(
    "SleepersWork",
    "actors do not sleep for ten minutes, because sleeping ones used CPU while the learner said that it "
    "needed no more than were awake: it gives them work without saying so, or the environment computes while "
    "nobody asks it for a step. That time counts as awake. Remedy: have the environment rest between steps, "
    "or set spec.scaling.sleep to never.",
)

logger = logging.getLogger(__name__)


class HiddenWork:
    """Find it, for one job at a time."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._off_until = float("-inf")

    async def look(self, run: ReconcileContext) -> None:
        """Meter what sleepers have worked, at most every LOOK_SECONDS. Keep them awake if nobody named it."""
        memory, meter = run.memory.sleep, run.memory.meter
        pods = [pod for pod in run.observed.actor_pods if uid_of(pod) in memory.own]
        if not memory.work.see(pods, run.server_now) or meter.pod_vcpu is None or run.now < self._off_until:
            return
        left = memory.look_at - run.now
        run.again.append(max(left, 0.0) or LOOK_SECONDS)
        if left > 0:
            return
        memory.look_at = run.now + LOOK_SECONDS
        usages = {uid_of(pod): used for pod, used in await self._measured(run, pods)}
        worked = memory.work.worked(usages, meter.pod_vcpu)
        for uid, seconds in worked.items():
            meter.worked(uid, seconds)
        view = run.memory.view
        need = memory.clock.need(view.spec.actor.per_pod, run.now) if view is not None else None
        awake = sum(state_of(pod) == "awake" for pod in pods)
        if memory.work.is_hidden(worked, need, awake) and memory.off is None:
            logger.warning("%s: its actors do not sleep: %d worked in their sleep", run.key, len(worked))
            memory.turn_off(HIDDEN, run.now)
            run.again.append(0.0)

    async def _measured(self, run: ReconcileContext, pods: list[Object]) -> list[tuple[Object, Usage]]:
        """The last measurement of each pod that has one."""
        by_name = {pod["metadata"]["name"]: pod for pod in pods}
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                metrics = await self._kube.list(
                    POD_METRICS, run.key.namespace, labelSelector=_actors(run.key)
                )
        except (ApiError, TimeoutError) as error:
            absent = isinstance(error, ApiError) and error.status in (403, 404)
            self._off_until = run.now + (ABSENT_SECONDS if absent else SILENT_SECONDS)
            logger.info("nobody sees whether sleepers work, the metrics API does not answer: %r", error)
            return []
        named = [(by_name.get(metric["metadata"]["name"]), _usage(metric)) for metric in metrics]
        return [(pod, usage) for pod, usage in named if pod is not None and usage is not None]


def _actors(key: JobKey) -> str:
    return f"{names.JOB_LABEL}={key.name},{names.COMPONENT_LABEL}={names.ACTOR}"


def _usage(metrics: Object) -> Usage | None:
    """What the API says of a pod's actor; None where that cannot be read."""
    at = moment(metrics.get("timestamp"))
    said = [
        container["usage"]["cpu"]
        for container in metrics.get("containers") or []
        if container.get("name") == ACTOR
    ]
    if at is None or not said:
        return None
    return Usage(at, amount_of(said[0]))
