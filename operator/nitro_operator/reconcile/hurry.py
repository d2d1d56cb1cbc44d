"""Idle actor pods that are terminating end at once.

Knative's queue-proxy waits 30 s before it ends, for requests that may still be on their way to its pod. The
operator knows when there are none: a round ends after all its requests are answered. So a pod that was
terminating when a round began has nothing to do after the end of that round. If a request were interrupted
nevertheless, the learner would send it again, with the same result.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import datetime, timedelta

from nitro_operator.kube.client import ApiError, Kube
from nitro_operator.kube.kinds import Object
from nitro_operator.observation.lifetimes import asked_at
from nitro_operator.observation.observed import alive, learner_running, terminating
from nitro_operator.reconcile.context import ReconcileContext
from nitro_operator.status.phase import Stage

logger = logging.getLogger(__name__)

SETTLE = timedelta(seconds=5)
"""Time after which nobody sends requests to a pod that is going: its address has been removed everywhere."""
GRACE_SECONDS = 1
AT_ONCE = 8


class Hurrier:
    """Shorten the grace period of actor pods that have nothing to do."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._room = asyncio.Semaphore(AT_ONCE)

    async def hurry(self, run: ReconcileContext) -> None:
        """End a job's terminating pods at once if they are known to be idle."""
        view = run.memory.view
        in_rounds = view is not None and view.spec.algorithm.record.feeding == "rounds"
        ended = run.judgement.stage is not Stage.ACTIVE and not learner_running(run.observed)
        pods = idle_pods(
            run.observed.actor_pods,
            run.memory.requests.began if in_rounds else [],
            run.server_now,
            ended=ended,
        )
        await asyncio.gather(*(self._end(pod) for pod in pods))

    async def _end(self, pod: Object) -> None:
        meta = pod["metadata"]
        async with self._room:
            try:
                await self._kube.evict(meta["namespace"], meta["name"], grace_seconds=GRACE_SECONDS)
            except ApiError as error:
                if error.status != 404:
                    logger.info("%s keeps its grace period: %s", meta["name"], error)


def idle_pods(
    pods: Sequence[Object], requests: Sequence[datetime], now: datetime, *, ended: bool
) -> list[Object]:
    """The terminating pods that have nothing to do.

    Args:
        pods: actor pods of a job.
        requests: when the last two rounds began; empty if requests may outlast their round.
        now: the API server's time, like all other times here.
        ended: whether the learner has ended, so that nobody waits for an answer.
    """
    before = now if ended else requests[0] - SETTLE if len(requests) == 2 else None
    if before is None:
        return []
    going = (pod for pod in pods if terminating(pod) and alive(pod))
    return [pod for pod in going if asked_at(pod) <= before and _left(pod, now) > GRACE_SECONDS]


def _left(pod: Object, now: datetime) -> float:
    """Seconds that are left of a pod's grace period."""
    return (datetime.fromisoformat(pod["metadata"]["deletionTimestamp"]) - now).total_seconds()
