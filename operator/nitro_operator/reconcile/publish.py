"""The writes of the status and of the events. The status is written only if something in it is new."""

import asyncio
import random
from collections.abc import Callable, Mapping

from nitro_api.pools.pod_resources import asleep
from nitro_operator.kube.cache import Cache
from nitro_operator.kube.client import Kube
from nitro_operator.kube.errors import ApiError
from nitro_operator.kube.kinds import TRAINING_JOB, JobKey, Object
from nitro_operator.observation import reported
from nitro_operator.observation.metering import starting
from nitro_operator.observation.observed import actors_of, learner_running, ready, terminating
from nitro_operator.reconcile.context import ReconcileContext
from nitro_operator.reconcile.memory import JobMemory
from nitro_operator.status import document
from nitro_operator.status.conditions import Condition, news
from nitro_operator.status.difference import OWNED, Difference, difference
from nitro_operator.status.pod_report import PodReport
from nitro_operator.status.settlement import settled

METER_SECONDS = 10.0
"""Time between two writes that only change the pod-seconds. Every other write includes them."""
METER_RATE = 5.0
"""Such writes a second, of all jobs together: with more than 50 jobs that have pods each waits longer."""
METER_WRITES = 2
"""Number of such writes at a time."""
COUNT_SECONDS = 2.0
"""Time between two writes that only change the number of ready pods: a burst of pods is a few writes."""
WORDS_SECONDS = 10.0
"""Time between two writes that only change messages of conditions. A webhook may name another request at each
try, and the event of each write begins the next try."""


class Publisher:
    """Publish the result of a reconcile."""

    def __init__(
        self,
        kube: Kube,
        cache: Cache,
        tell: Callable[[Object, Condition], None],
        memories: Mapping[JobKey, JobMemory],
    ) -> None:
        """`memories` are those of all jobs."""
        self._kube = kube
        self._cache = cache
        self._tell = tell
        self._memories = memories
        # Nobody waits for pod-seconds: many such writes must not delay a scale patch.
        self._metering = asyncio.Semaphore(METER_WRITES)

    async def publish(self, run: ReconcileContext) -> None:
        """Write the status if something in it is new, and post an event for each new condition, for a toggle
        of sharing, and for an older run of the job's name. When the last pod of a job that does not run is
        gone, correct its cost."""
        await self._publish(run)
        await self._settle(run)

    async def _publish(self, run: ReconcileContext) -> None:
        memory = run.memory
        for event in (memory.sharing.of(run.job), memory.former.of(run.job, memory.view)):
            if event is not None:
                self._tell(run.job, event)
        situation = _situation(run)
        new = document.build(situation, run.job, run.server_now)
        changes = difference(new, run.job)
        if not self._worth_writing(run, changes):
            return
        before = reported.status(run.job).get("conditions") or []
        if changes.matters or changes.counts:
            written = await self._write(run, new)
        elif self._metering.locked():
            run.again.append(random.uniform(0.5, 1.5))
            return
        else:
            async with self._metering:
                written = await self._write(run, new)
        if not written:
            return
        for condition in news(document.conditions(situation), before):
            self._tell(run.job, condition)
        run.job = self._cache.job(run.key) or run.job

    async def publish_addresses(self, run: ReconcileContext) -> None:
        """Write the addresses alone. All else that is the operator's stays as it was published."""
        if run.addresses is None:
            return
        published = reported.status(run.job)
        owned = {key: published[key] for key in OWNED if key in published}
        if "checkpoint" in owned:  # its round and time are the learner's
            owned["checkpoint"] = {k: v for k, v in owned["checkpoint"].items() if k == "location"}
        owned["actors"] = {**reported.section(run.job, "actors"), "addresses": run.addresses}
        await self._write(run, owned)

    def _worth_writing(self, run: ReconcileContext, changes: Difference) -> bool:
        if changes.matters:
            return True
        metered = self._meter_seconds() * run.memory.jitter
        if run.memory.meter.running:
            run.again.append(metered)
        periods = ((changes.counts, COUNT_SECONDS), (changes.words, WORDS_SECONDS), (changes.meter, metered))
        due = next((seconds for differs, seconds in periods if differs), None)
        if due is None:
            return False
        age = run.now - run.memory.status_written
        if age < due:
            run.again.append(due - age)
        return age >= due

    async def _settle(self, run: ReconcileContext) -> None:
        view, meter = run.memory.view, run.memory.meter
        over = not run.judgement.running and not learner_running(run.observed)
        if view is None or not over or meter.running or run.observed.actor_pods:
            return
        cost = settled(run.job, view, meter)
        if cost is None:
            return
        meta = run.job["metadata"]
        # The learner owns these fields and takes them back with its next report.
        patch = {"metadata": {"uid": meta["uid"]}, "status": {"cost": cost}}
        try:
            answer = await self._kube.merge(TRAINING_JOB, meta["namespace"], meta["name"], patch, "status")
        except ApiError as error:
            if error.status not in (404, 409):
                raise
            return  # it was deleted or created again
        self._cache.put(TRAINING_JOB, answer)
        run.job = self._cache.job(run.key) or run.job

    def _meter_seconds(self) -> float:
        jobs = sum(memory.meter.running for memory in self._memories.values())
        return max(METER_SECONDS, jobs / METER_RATE)

    async def _write(self, run: ReconcileContext, new: Object) -> bool:
        meta = run.job["metadata"]
        identity = {"name": meta["name"], "namespace": meta["namespace"], "uid": meta["uid"]}
        body = {
            "apiVersion": run.job["apiVersion"],
            "kind": run.job["kind"],
            "metadata": identity,
            "status": new,
        }
        try:
            try:
                answer = await self._kube.apply(body, force=True, subresource="status")
            except ApiError as error:
                if error.status != 422:
                    raise
                # An apply keeps other writers' conditions, which may fill the list. So the list is replaced.
                alone = {"status": {"conditions": new["conditions"]}}
                await self._kube.merge(TRAINING_JOB, meta["namespace"], meta["name"], alone, "status")
                answer = await self._kube.apply(body, force=True, subresource="status")
        except ApiError as error:
            if error.status in (404, 409):
                return False  # it was deleted or created again: its own event follows
            raise
        run.memory.status_written = run.now
        self._cache.put(TRAINING_JOB, answer)
        return True


def _situation(run: ReconcileContext) -> document.Situation:
    deployment = run.deployment
    there = [pod for pod in run.observed.actor_pods if ready(pod)]
    return document.Situation(
        judgement=run.judgement,
        observed=run.observed,
        view=run.memory.view,
        waiting=run.waiting,
        leaving=run.leaving,
        trouble=run.memory.trouble,
        actor_trouble=deployment.problem(run.observed) if deployment is not None else None,
        serving=deployment.serving(run.observed) if deployment is not None else False,
        silent=run.silent,
        training=reported.training(run.job),
        heard=run.heard,
        requested=run.requested,
        granted=run.granted,
        ready=deployment.ready(run.observed, run.granted) if deployment is not None else 0,
        pods=PodReport(
            seconds=run.memory.meter.total,
            vcpu_seconds=run.memory.meter.vcpu_seconds,
            pod_vcpu=run.memory.meter.pod_vcpu,
            started=run.memory.lifetimes.started,
            starting=sum(starting(pod) for pod in run.observed.actor_pods),
            draining=sum(terminating(pod) for pod in run.observed.actor_pods),
            times=run.memory.lifetimes.times if deployment is not None and deployment.limited else None,
            awake=sum(actors_of(pod) for pod in there if not asleep(pod)),
            asleep=sum(actors_of(pod) for pod in there if asleep(pod)),
            deferred=run.deferred,
            taken=run.taken,
            sleepless=run.sleepless,
            addresses=run.addresses,
        ),
        provisioned=deployment.provisioned if deployment is not None else None,
    )
