"""The reconcile of one job. It is level-triggered: every run reads the whole state again."""

import asyncio
import logging
from collections.abc import Callable

from nitro_operator import metrics
from nitro_operator.backends import KnativeRelease, deployment_of, unread_deployment
from nitro_operator.config import Config
from nitro_operator.functions import FunctionController, finalizer
from nitro_operator.kube.cache import Cache
from nitro_operator.kube.client import Kube
from nitro_operator.kube.errors import ApiError
from nitro_operator.kube.kinds import TRAINING_JOB, JobKey, Object
from nitro_operator.kube.queue import TryAgain
from nitro_operator.observation import reported
from nitro_operator.observation.observed import Observed, actor_pods, observe, terminating
from nitro_operator.reconcile import permission
from nitro_operator.reconcile.code import find_code
from nitro_operator.reconcile.context import ReconcileContext
from nitro_operator.reconcile.ending import Ending
from nitro_operator.reconcile.hidden_work import HiddenWork
from nitro_operator.reconcile.memory import JobMemory
from nitro_operator.reconcile.publish import Publisher
from nitro_operator.reconcile.share import ActorShares
from nitro_operator.reconcile.sleep import Sleeping
from nitro_operator.reconcile.source import find_source
from nitro_operator.reconcile.start import Starter
from nitro_operator.reconcile.trouble import refusal
from nitro_operator.scaling.platform import Platform
from nitro_operator.status.conditions import Condition
from nitro_operator.status.phase import Stage, phase_of, seconds_left

logger = logging.getLogger(__name__)


FAREWELL_SECONDS = 8.0
"""Time to wake all actors before the process ends; Kubernetes kills it after 15 s."""


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


class Unfinished(TryAgain):
    """Something was refused, and the status says what. The queue tries again later."""


class Reconciler:
    """Reconciles jobs. The work queue never runs `reconcile` twice at a time for the same job."""

    def __init__(
        self,
        kube: Kube,
        cache: Cache,
        platform: Platform,
        release: KnativeRelease,
        functions: FunctionController,
        config: Config,
        tell: Callable[[Object, Condition], None],
        wake: Callable[[JobKey], None],
        starter: Starter,
        now: Callable[[], float] = _loop_time,
    ) -> None:
        """`now` tells the time: monotonic, in seconds."""
        self._kube = kube
        self._cache = cache
        self._platform = platform
        self._sleeping = Sleeping(kube, cache, config)
        self._shares = ActorShares(platform, self._sleeping)
        self._hidden_work = HiddenWork(kube)
        self._memories: dict[JobKey, JobMemory] = {}
        self._publisher = Publisher(kube, cache, tell, self._memories)
        self._release = release
        self._functions = functions
        self._config = config
        self._wake = wake
        self._starter = starter
        self._ending = Ending(kube)
        self._now = now

    def waits_since(self, key: JobKey) -> float:
        """The time since which a job asks for actors. Unix seconds; 0 of a job that is gone.

        An operator that starts takes up the jobs in this order. A younger job that asked first would get
        actors that an older one waits for.
        """
        job = self._cache.job(key)
        return reported.waiting_since(job, self._kube.server_now()).timestamp() if job is not None else 0.0

    def noticed(self, key: JobKey, *, held_back: bool = False) -> bool:
        """Note that a job or a child of it has changed: the latency of its scaling is measured from here. The
        pods of a job whose reconcile is held back after a failure are counted here.

        Returns:
            Whether the reconcile must not wait: somebody has made, changed or deleted the job.
        """
        job = self._cache.job(key)
        if job is None:
            return True
        known = self._memories.get(key)
        memory = self._memory(key, job)
        memory.requests.see(job, self._now())
        if held_back:
            self._count(key, memory, observe(self._cache, job))
        return known is None or not known.has_read(job)

    async def reconcile(self, key: JobKey) -> float | None:
        """Reconcile one job. Returns seconds until the next reconcile, if nothing happens before."""
        # The queue cancels a reconcile that hangs.
        errors = metrics.RECONCILE_ERRORS.count_exceptions((Exception, asyncio.CancelledError))
        with metrics.RECONCILE_SECONDS.time(), errors:
            version = self._platform.version
            try:
                return await self._reconcile(key)
            except ApiError as error:
                if not error.namespace_terminating:
                    raise
                self._leave(key)
                return None
            finally:
                if self._platform.version != version:
                    self._wake_others(key)
                metrics.GRANTED.set(self._platform.held)

    async def _reconcile(self, key: JobKey) -> float | None:
        job = self._cache.job(key)
        if job is None:
            self._depart(key)
            return None
        if terminating(job):
            self._functions.notice(key)
            if finalizer.orphans(job):
                return None  # whoever deleted it wants its children to stay as they are
        run = self._look(key, job)
        if run.memory.namespace_ending:
            return None
        if run.judgement.stage is Stage.ACTIVE:
            await self._advance(run)
            await self._publish(run)
            await self._sleeping.carry_out(run)
            await self._ending.end_pod(run)
        elif run.judgement.stage is Stage.HELD:
            await self._listen(run)
            self._shares.keep(run)
            self._watch_deadline(run)
            await self._publish(run)
            await self._sleeping.carry_out(run)
            await self._ending.end_pod(run)
        elif run.judgement.finished:
            self._platform.withdraw(key)
            await self._scale(run, 0)
            if reported.since(run.job, "completionTime", run.server_now) is None:
                await self._publish(run)  # the status has the end before anything is deleted
            await self._ending.clean_up(run)
            await self._publish(run)
        else:  # deleted, suspended, not allowed, or invalid; an invalid job has no learner to stop
            self._platform.withdraw(key)
            if run.judgement.stage is Stage.DELETED:
                await self._ending.remove_actors(run)
            else:
                await self._scale(run, 0)
            await self._ending.stop(run)
            await self._publish(run)
        await self._hidden_work.look(run)
        if run.memory.trouble:
            raise Unfinished("; ".join(problem.message for problem in run.memory.trouble.values()))
        return min(run.again, default=None)

    def _look(self, key: JobKey, job: Object) -> ReconcileContext:
        memory = self._memory(key, job)
        memory.read(job, self._config)
        server_now, now = self._kube.server_now(), self._now()
        observed = memory.learner_pods.present(observe(self._cache, job), job, server_now)
        settings = memory.view.settings_hash if memory.view is not None else None
        judgement = phase_of(job, observed, memory.invalid, server_now, settings)
        if judgement.stage is Stage.ACTIVE:
            judgement = permission.judged(memory.not_allowed, memory.unlisted, observed) or judgement
        self._count(key, memory, observed)
        run = ReconcileContext(key, job, memory, observed, judgement, now, server_now)
        if memory.view is not None:
            run.deployment = deployment_of(memory.view.spec, self._release, self._functions.state(key))
        else:
            run.deployment = unread_deployment(observed, self._release)
        memory.trouble = {}
        return run

    def _count(self, key: JobKey, memory: JobMemory, observed: Observed) -> None:
        """Count and meter the actor pods that exist now."""
        memory.meter.sample(observed.actor_pods, self._now(), self._kube.server_now())
        memory.lifetimes.see(observed.actor_pods, self._kube.server_now(), self._now())
        self._shares.count(key, actor_pods(self._cache, key), memory.sleep.work.working)

    async def _listen(self, run: ReconcileContext) -> None:
        """Find out whether the learner reports. If it is late, read the job: the watch may be broken."""
        heartbeat = run.memory.heartbeat
        heartbeat.see(run.job, run.observed, run.now)
        if heartbeat.due(run.now):
            try:
                fresh = await self._kube.get(TRAINING_JOB, run.key.namespace, run.key.name)
            except ApiError as error:
                logger.warning("%s: cannot see whether its learner reports: %s", run.key, error)
                heartbeat.looked(self._now(), answered=False)
            else:
                heartbeat.looked(self._now(), answered=True)
                heartbeat.see(fresh, run.observed, run.now)
                if fresh["metadata"]["resourceVersion"] != run.job["metadata"]["resourceVersion"]:
                    self._cache.put(TRAINING_JOB, fresh)
                    # It may hold a new request: the next reconcile looks at it.
                    self._wake(run.key)
        run.heard = heartbeat.heard(run.now)
        if run.heard:
            run.again.append(max(heartbeat.next_look(run.now), 0) + 0.1)

    async def wake_all(self) -> None:
        """Wake all sleeping actors, because the operator ends: what comes next may know no sleepers."""
        jobs = [(key, self._cache.job(key)) for key in self._memories]
        runs = [self._look(key, job) for key, job in jobs if job is not None]
        try:
            async with asyncio.timeout(FAREWELL_SECONDS):
                await asyncio.gather(*map(self._sleeping.wake_all, runs))
                await asyncio.gather(*map(self._publisher.publish_addresses, runs))
        except (TimeoutError, ApiError) as error:
            logger.warning("some actors sleep on: %r", error)

    # ------------------------------------------------------------ active jobs

    async def _advance(self, run: ReconcileContext) -> None:
        view, deployment = run.memory.view, run.deployment
        assert view is not None
        assert deployment is not None
        await self._listen(run)
        find_source(run, view, self._cache)
        await find_code(run, view, self._kube)
        self._shares.take(run, view, deployment)
        actors = self._shares.actors(run, view, deployment)
        await self._sleeping.before(run, view, actors)
        await self._scale(run, actors)
        if run.waiting is None:
            await self._starter.start(run, view, deployment)
            if run.memory.trouble and observe(self._cache, run.job).learner_job is None:
                self._shares.release(run)  # others may run until what refused it is mended
        self._watch_deadline(run)

    def _watch_deadline(self, run: ReconcileContext) -> None:
        if (left := seconds_left(run.job, run.server_now)) is not None:
            run.again.append(max(left, 0) + 0.1)

    # ------------------------------------------------------------ jobs that do not run

    def _depart(self, key: JobKey) -> None:
        """Forget a job that is gone. Its children go with it."""
        self._functions.notice(key)
        self._forget(key)
        self._shares.count(key, actor_pods(self._cache, key))

    async def _scale(self, run: ReconcileContext, actors: int) -> None:
        """Set the number of actors. A refusal becomes the actors' trouble: the learner, which may have to be
        deleted, and the status must not wait for Knative."""
        view = run.memory.view
        if view is not None and run.deployment is not None:
            active = run.judgement.stage is Stage.ACTIVE
            function = run.deployment.function(view, active=active, actors=actors)
            if function is not None:
                self._functions.want(run.key, function)
        patch = run.deployment.scaling(run.observed, actors) if run.deployment is not None else None
        if patch is None:
            run.memory.requests.answered(run.now)
            return
        try:
            answer = await self._kube.merge(patch.kind, run.key.namespace, patch.name, patch.patch)
        except ApiError as error:
            if error.namespace_terminating:
                raise
            run.memory.trouble["actors"] = refusal(patch.kind, patch.name, error)
            return
        logger.info("%s: %d actors (requested %d, granted %d)", run.key, actors, run.requested, run.granted)
        latency = run.memory.requests.answered(self._now())
        if latency is not None and actors > 0:
            metrics.SCORE_TO_SCALE.observe(latency)
        self._cache.put(patch.kind, answer)

    async def _publish(self, run: ReconcileContext) -> None:
        await self._sleeping.addresses(run)
        await self._publisher.publish(run)
        limited = run.deployment is None or run.deployment.limited
        self._platform.published(run.key, run.granted if limited else 0)

    # ------------------------------------------------------------ memory

    def _memory(self, key: JobKey, job: Object) -> JobMemory:
        memory = self._memories.get(key)
        uid = job["metadata"]["uid"]
        if memory is not None and memory.uid != uid:
            self._forget(key)
        if memory is None or memory.uid != uid:
            memory = JobMemory.restored(job, observe(self._cache, job), self._kube.server_now())
            self._memories[key] = memory
            memory.read(job, self._config)
            granted, view = reported.actors(job).granted or 0, memory.view
            if view is None:
                granted = min(granted, self._platform.limits.of(key.namespace))
            else:
                granted = min(granted, view.spec.scaling.max_actors)
            self._platform.seen(key, granted)
            self._shares.count(key, actor_pods(self._cache, key))
        return memory

    def _leave(self, key: JobKey) -> None:
        """Give up a job whose namespace is being deleted: everything in it goes by itself."""
        logger.info("%s: its namespace is being deleted; nothing more is done for it", key)
        self._memories[key].namespace_ending = True
        self._platform.withdraw(key)

    def _forget(self, key: JobKey) -> None:
        self._memories.pop(key, None)
        self._starter.forget(key)
        self._platform.forget(key)

    def _wake_others(self, key: JobKey) -> None:
        for other in self._platform.unsettled():
            if other != key:
                self._wake(other)
