"""The running operator: watch caches, work queue, resync loop, and the check that all of them are alive."""

import asyncio
import itertools
import logging
import time
from collections.abc import Iterator
from typing import Self

from aiohttp import web

from nitro_operator import metrics
from nitro_operator.backends import KnativeRelease
from nitro_operator.config import Config
from nitro_operator.functions import Aws, FunctionController
from nitro_operator.kube.cache import Cache
from nitro_operator.kube.client import Kube, connect
from nitro_operator.kube.errors import ApiError
from nitro_operator.kube.kinds import NAMESPACE, TRAINING_JOB, WATCHED_CHILDREN, JobKey, Kind, Object
from nitro_operator.kube.lease import Leases
from nitro_operator.kube.queue import WorkQueue
from nitro_operator.kube.watch import Watch, selector
from nitro_operator.observation.diagnosis import Problem
from nitro_operator.reconcile.job import Reconciler
from nitro_operator.reconcile.start import Starter
from nitro_operator.scaling.platform import Platform
from nitro_operator.serving import HttpServer
from nitro_operator.status.conditions import Condition
from nitro_operator.status.events import EventPoster
from nitro_operator.status.summary import JobSummary

logger = logging.getLogger(__name__)

WORKERS = 8
"""Number of reconciles that run at a time. More would not help: a busy API server would only answer later."""
LISTS = 16
"""Number of namespaces that are listed at a time."""
RECONCILE_TIMEOUT_SECONDS = 60.0
KNATIVE_LOOK_SECONDS = 10.0
TURNS_WHILE_PRESENT = 12
RELIST_SECONDS = 60.0
"""Time between two lists. Each lists the next kind again, because a broken watch may miss a deletion."""
RELIST_TIMEOUT_SECONDS = 600.0


class Controller:
    """Owner of everything that lives as long as the process.

    Usage (by main.py)::

        controller = await Controller.start(Config.from_environment())
        controller.notice(kinds.POD, event)      # called by the watches for every event
        controller.check_alive()                 # raises if it is stuck
        await controller.stop()
    """

    def __init__(self, config: Config, kube: Kube, leases: Leases) -> None:
        self._config = config
        self._kube = kube
        kube.may_write = leases.held
        self.cache = Cache()
        self._platform = Platform.of(config)
        self._release = KnativeRelease()
        self._told_release: Problem | None = None
        self._queue = WorkQueue[JobKey](self._reconcile, WORKERS, RECONCILE_TIMEOUT_SECONDS)
        self._functions = FunctionController(
            kube, self.cache, Aws(leases.held), self._tell, self._queue.add, config.lambda_endpoints
        )
        self._reconciler = Reconciler(
            kube,
            self.cache,
            self._platform,
            self._release,
            self._functions,
            config,
            self._tell,
            self._queue.add,
            Starter(kube, self.cache, self._release),
        )
        self._events = EventPoster(kube)
        self._closed: set[str | None] = set()
        self._lists = asyncio.Semaphore(LISTS)
        self._relisting = asyncio.Lock()  # the cache takes one list of a kind at a time
        self._relists: WorkQueue[Kind] = WorkQueue(self.relist, 1, RELIST_TIMEOUT_SECONDS)
        self._ticked = 0.0
        self._resynced: float | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._summary = JobSummary(self.cache.jobs)
        self._health = metrics.Health(
            lambda: self._resynced, lambda: self._queue.length, self._queue.longest_run
        )
        self._filled = False
        self._leases = leases
        self._servers = (
            HttpServer(config.metrics_port, {"/metrics": metrics.scrape}),
            HttpServer(config.health_port, {"/healthz": self._liveness, "/readyz": self._readiness}),
        )
        metrics.PLATFORM_LIMIT.set(config.platform_max_actors)

    @classmethod
    async def start(cls, config: Config) -> Self:
        """Fill the caches and start the loops. An object that is not yet cached would look missing."""
        leases = Leases(
            await connect(),
            config.identity,
            namespace=config.lease_namespace,
            served=config.watch_namespaces,
        )
        controller = cls(config, await connect(), leases)
        for server in controller._servers:
            await server.start()  # first: the kubelet asks while the lists are on their way
        await controller._leases.acquire()
        controller._tasks = [asyncio.create_task(controller._leases.keep(), name="lease")]
        await controller._fill()
        controller._filled = True
        controller._queue.start()
        controller._functions.start()
        controller._relists.start()
        controller._tick()
        controller._tasks += [
            asyncio.create_task(controller._resync(), name="resync"),
            asyncio.create_task(controller._relist_in_turn(), name="relist"),
            asyncio.create_task(controller._events.run(), name="events"),
            asyncio.create_task(controller._look_for_knative(), name="knative"),
            *(
                asyncio.create_task(watch.run(), name=f"watch of {kind} in {namespace or 'all namespaces'}")
                for kind, namespace, watch in controller._watches()
            ),
        ]
        return controller

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._queue.stop()
        await self._functions.stop()
        await self._relists.stop()
        if self._filled:
            await self._reconciler.wake_all()
        await self._leases.release()
        for server in self._servers:
            await server.stop()
        await self._kube.close()
        self._summary.close()
        self._health.close()

    def notice(self, kind: Kind, event: Object) -> None:
        """Store the object of one watch event and queue its job."""
        obj: Object = event["object"]
        key = self.cache.remove(kind, obj) if event["type"] == "DELETED" else self.cache.put(kind, obj)
        if key is not None:
            self._notice_job(key)

    def list_again(self, kind: Kind) -> None:
        """List a kind at once, until that succeeds: its watch may have missed deletions."""
        self._relists.add(kind, at_once=True)

    def check_alive(self) -> None:
        """Raise RuntimeError if a loop has ended, or if the resync loop or a reconcile is stuck."""
        for task in (*self._tasks, *self._queue.loops, *self._functions.loops, *self._relists.loops):
            if task.done():
                raise RuntimeError(f"the loop {task.get_name()!r} has ended")
        if not self._filled:
            return
        silent = asyncio.get_running_loop().time() - self._ticked
        if silent > 3 * self._config.resync_seconds + 30:
            raise RuntimeError(f"the resync loop has been silent for {silent:.0f} s")
        if self._queue.longest_run() > 2 * RECONCILE_TIMEOUT_SECONDS:
            raise RuntimeError(f"a reconcile has been running for {self._queue.longest_run():.0f} s")

    async def _liveness(self, _: web.Request) -> web.Response:
        try:
            self.check_alive()
        except RuntimeError as error:
            return web.Response(status=500, text=str(error))
        return web.Response(text="alive")

    async def _readiness(self, _: web.Request) -> web.Response:
        if self._filled and self._leases.held():
            return web.Response(text="ready")
        missing = "the lists of the API server's objects are not complete, or another operator is at work"
        return web.Response(status=503, text=missing)

    # ------------------------------------------------------------ loops

    async def _resync(self) -> None:
        while True:
            await asyncio.sleep(self._config.resync_seconds)
            self._tick()
            for key, _ in self.cache.jobs():
                self._queue.add(key)

    async def _relist_in_turn(self) -> None:
        for kind in itertools.cycle((TRAINING_JOB, *WATCHED_CHILDREN)):
            await asyncio.sleep(RELIST_SECONDS)
            try:
                await self.relist(kind)
            except ApiError as error:
                logger.warning("cannot list %s now: %s", kind, error)

    async def _look_for_knative(self) -> None:
        """Look for Knative every two minutes, and every few seconds while it is missing."""
        for turn in itertools.count():
            if self._release.problem is not None or turn % TURNS_WHILE_PRESENT == 0:
                await self._release.look(self._kube)
            if self._release.problem != self._told_release:
                self._told_release = self._release.problem
                for key, _ in self.cache.jobs():
                    self._queue.add(key)
            await asyncio.sleep(KNATIVE_LOOK_SECONDS)

    # ------------------------------------------------------------ parts

    def _watches(self) -> Iterator[tuple[Kind, str | None, Watch]]:
        for kind in (TRAINING_JOB, *WATCHED_CHILDREN):
            for namespace in self._config.watch_namespaces or (None,):
                yield kind, namespace, Watch(self._kube, kind, namespace, self.notice, self.list_again)

    async def _fill(self) -> None:
        """List everything once. Wait for an API server that does not answer."""
        kinds = [TRAINING_JOB, *WATCHED_CHILDREN]
        while kinds:
            try:
                await self._release.look(self._kube)
                while kinds:
                    await self.relist(kinds[-1])
                    kinds.pop()
            except ApiError as error:
                logger.warning("waiting for the API server: %s", error)
                await asyncio.sleep(2)

    async def relist(self, kind: Kind) -> None:
        """Make the cache what a list of the kind says."""
        namespaces = self._config.watch_namespaces or (None,)
        async with self._relisting:
            self.cache.expect_list(kind)
            lists = await asyncio.gather(*(self._list_in(kind, namespace) for namespace in namespaces))
            unseen = {
                name for name, objects in zip(namespaces, lists, strict=True) if name and objects is None
            }
            changed = self.cache.replace(kind, itertools.chain.from_iterable(filter(None, lists)), unseen)
            for key in sorted(changed, key=self._reconciler.waits_since):
                self._notice_job(key)

    async def _list_in(self, kind: Kind, namespace: str | None) -> list[Object] | None:
        """The objects in a namespace; None if it exists and may not be read."""
        try:
            async with self._lists:
                objects = await self._kube.list(kind, namespace, **selector(kind))
        except ApiError as error:
            if error.status == 404:  # the kind is not served, so no object of it exists
                return []
            if error.status != 403 or namespace is None:
                raise
            return None if await self._is_there(namespace, error) else []
        self._closed.discard(namespace)
        return objects

    async def _is_there(self, namespace: str, error: ApiError) -> bool:
        """Whether a namespace of watchNamespaces that the operator may not read still exists.

        The operator's Role is deleted together with its namespace, so a deleted namespace may not be read
        either. If it exists, the right is missing, perhaps only while an API server starts: its objects stay.
        """
        if namespace not in self._closed:
            self._closed.add(namespace)
            logger.warning(
                "the namespace %s of watchNamespaces is left out: %s. If it was created again, run `helm "
                "upgrade`, which restores the rights.",
                namespace,
                error,
            )
        try:
            return bool(await self._kube.list(NAMESPACE, None, fieldSelector=f"metadata.name={namespace}"))
        except ApiError:
            return True

    def _notice_job(self, key: JobKey) -> None:
        at_once = False
        try:
            at_once = self._reconciler.noticed(key, held_back=self._queue.holds_back(key))
        except Exception:  # an error in one job must not affect the others; its reconcile meets it again
            logger.exception("a change of the job %s could not be read", key)
        self._queue.add(key, at_once=at_once)

    async def _reconcile(self, key: JobKey) -> float | None:
        after = await self._reconciler.reconcile(key)
        if self.cache.job(key) is None:
            self.cache.forget(key)
            self._queue.forget(key)
        return after

    def _tell(self, job: Object, condition: Condition) -> None:
        """Post an event that `kubectl describe` shows, and log it."""
        name = f"{job['metadata']['namespace']}/{job['metadata']['name']}"
        logger.info(
            "%s: %s=%s %s %s", name, condition.type, condition.status, condition.reason, condition.message
        )
        self._events.add(job, condition)

    def _tick(self) -> None:
        self._ticked = asyncio.get_running_loop().time()
        self._resynced = time.time()
