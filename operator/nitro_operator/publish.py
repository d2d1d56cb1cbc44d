"""Writing the status: only what is new, and events for what is worth one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from nitro_operator import status
from nitro_operator.cache import Cache
from nitro_operator.client import ApiError, Kube
from nitro_operator.conditions import Condition, news
from nitro_operator.kinds import TRAINING_JOB, Object
from nitro_operator.run import Pass

METER_SECONDS = 60.0
"""Pod-seconds alone are published so often; with any other change they go along."""
METER_WRITES = 2
"""So many of these at a time."""
COUNT_SECONDS = 2.0
"""The number of ready pods alone is published so often: a burst of pods is a few writes, not one for each."""


class Publisher:
    """Publishes what a reconcile has found."""

    def __init__(self, kube: Kube, cache: Cache, tell: Callable[[Object, Condition], None]) -> None:
        self._kube = kube
        self._cache = cache
        self._tell = tell
        # Nobody waits for pod-seconds: a crowd of such writes must not hold up a scale patch.
        self._metering = asyncio.Semaphore(METER_WRITES)

    async def publish(self, run: Pass) -> None:
        """Write the status if it says anything new, and tell of what is new in it."""
        situation = _situation(run)
        new = status.build(situation, run.job, run.server_now)
        found = status.difference(new, run.job)
        if not self._worth_writing(run, found):
            return
        before = (run.job.get("status") or {}).get("conditions") or []
        if found.matters or found.counts:
            written = await self._write(run, new)
        elif self._metering.locked():
            run.again.append(random.uniform(0.5, 1.5))
            return
        else:
            async with self._metering:
                written = await self._write(run, new)
        if not written:
            return
        for condition in news(status.conditions(situation), before):
            self._tell(run.job, condition)
        run.job = self._cache.job(run.key) or run.job

    def _worth_writing(self, run: Pass, found: status.Difference) -> bool:
        if found.matters:
            return True
        metered = METER_SECONDS * run.memory.jitter
        if run.memory.meter.running:
            run.again.append(metered)
        due = COUNT_SECONDS if found.counts else metered if found.meter else None
        if due is None:
            return False
        age = run.now - run.memory.status_written
        if age < due:
            run.again.append(due - age)
        return age >= due

    async def _write(self, run: Pass, new: Object) -> bool:
        meta = run.job["metadata"]
        identity = {"name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"]}
        body = {
            "apiVersion": run.job["apiVersion"],
            "kind": run.job["kind"],
            "metadata": identity,
            "status": new,
        }
        try:
            answer = await self._kube.apply(body, force=True, subresource="status")
        except ApiError as error:
            if error.status in (404, 409):
                return False  # it was deleted, or made anew: its own event comes
            raise
        run.memory.status_written = run.now
        self._cache.put(TRAINING_JOB, answer)
        return True


def _situation(run: Pass) -> status.Situation:
    backend = run.backend
    return status.Situation(
        judgement=run.judgement,
        observed=run.observed,
        view=run.memory.view,
        waiting=run.waiting,
        leaving=run.leaving,
        trouble=run.memory.trouble,
        actor_trouble=backend.problem(run.observed) if backend is not None else None,
        serving=backend.serving(run.observed) if backend is not None else False,
        silent=run.silent,
        heard=run.heard,
        requested=run.requested,
        granted=run.granted,
        ready=backend.ready(run.observed, run.granted) if backend is not None else 0,
        pod_seconds=run.memory.meter.total,
        provisioned=backend.provisioned if backend is not None else None,
    )
