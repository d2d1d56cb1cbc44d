"""The learner's copy of the fields that others write in its job, grants and pod-seconds from the operator and
limits from the user; and the watch that keeps it new."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from nitro_api import JobInvalid, resolve_stored
from nitro_api.costs.pod_prices import SIDECAR_VCPU
from nitro_api.costs.pod_use import PodUse
from nitro_api.spec.pods import actors_per_pod
from nitro_api.spec.status import ActorsStatus
from nitro_api.spec.stop import Stop
from nitro_learner.cluster.api import backoff
from nitro_learner.cluster.job import ApiUnavailable, JobClient, JobGone, WatchExpired

_READ = ("podSeconds", "vcpuSeconds", "podVCPU", "ready", "asleep", "draining", "drainSeconds")
_SILENT_SECONDS = 120.0
"""The operator writes more often. After a longer silence the pods may not run any more."""
logger = logging.getLogger(__name__)
_NEVER = object()


@dataclass(frozen=True)
class ClusterPods:
    """status.actors, and when it was read first.

    Attributes:
        use: as the operator has measured it.
        awake: ready pods that are awake.
        asleep: ready pods that sleep.
        draining: pods that are going.
        drain_seconds: median time until a pod is gone.
    """

    use: PodUse
    awake: float
    asleep: float
    draining: float
    drain_seconds: float
    read_at: float = field(default_factory=time.monotonic, compare=False)

    @classmethod
    def of(cls, raw: Mapping[str, Any], per_pod: int, before: Self | None) -> Self | None:
        """The pods of a stored status.actors; `before` where the operator has reported nothing new."""
        actors = ActorsStatus.model_validate({name: raw[name] for name in _READ if name in raw})
        if actors.pod_seconds is None:
            return before
        measured = actors.vcpu_seconds
        use = PodUse(
            actors.pod_seconds,
            measured.to_dict() if measured is not None else {},
            actors.pod_vcpu or 0.0,
            per_pod,
        )
        asleep = (actors.asleep or 0) / per_pod
        awake = max(0.0, (actors.ready or 0) / per_pod - asleep)
        pods = cls(use, awake, asleep, actors.draining or 0, actors.drain_seconds or 0.0)
        return before if pods == before else pods

    def now(self) -> PodUse:
        """What the pods have used until now, if as many as then are still there."""
        since = min(time.monotonic() - self.read_at, _SILENT_SECONDS)
        more = {"awake": self.awake * self.use.pod_vcpu * since, "asleep": self.asleep * SIDECAR_VCPU * since}
        return replace(
            self.use,
            seconds=self.use.seconds + (self.awake + self.asleep) * since,
            vcpu_seconds={name: cpu + more.get(name, 0.0) for name, cpu in self.use.vcpu_seconds.items()},
        )

    def drain(self) -> PodUse:
        """What the pods will use until they are gone. Those that go already are half through."""
        left = self.drain_seconds * (self.awake + self.draining / 2)
        cpu = left * self.use.pod_vcpu + self.drain_seconds * self.asleep * SIDECAR_VCPU
        return replace(
            self.use,
            seconds=left + self.drain_seconds * self.asleep,
            vcpu_seconds={"draining": cpu} if self.use.vcpu_seconds else {},
        )


@dataclass(frozen=True)
class GrantedActors:
    """What the operator says of the actors.

    Attributes:
        addresses: status.actors.addresses, of the pods that are awake; None where there are none.
    """

    granted: int
    ready: int
    addresses: tuple[str, ...] | None


class JobMirror:
    """The newest state of the job. Threads of the reporter write it, others read it.

    Attributes:
        granted: status.actors.granted; None before there is one.
        provisioned: status.actors.provisioned.
        limits: spec.stop, which the user may change while the run goes on; None before the first look.
        gone: whether the job does not exist any more.
    """

    def __init__(self) -> None:
        self.granted: int | None = None
        self.provisioned = 0
        self.limits: Stop | None = None
        self.gone = False
        self._pods: ClusterPods | None = None
        self._stop: Any = _NEVER
        self._actors: GrantedActors | None = None
        self._handler: Callable[[GrantedActors], None] = lambda _: None
        self._on_gone: Callable[[], object] = lambda: None
        self._handling = threading.Lock()

    @property
    def pods(self) -> PodUse | None:
        """What the pods have used: status.actors, and what they have added since; None before the first look.

        The operator writes it every few seconds, and a round may be shorter than that."""
        return self._pods.now() if self._pods is not None else None

    @property
    def drain(self) -> PodUse | None:
        """What the pods will use until they are gone, if no round needs them any more: an estimate."""
        return self._pods.drain() if self._pods is not None else None

    def on_actors(self, handler: Callable[[GrantedActors], None]) -> None:
        """Call `handler` with what the operator says of the actors, now and whenever it changes. Addresses
        are passed on at every look: one that did not answer is tried again then.

        It is called from the thread that writes the mirror, and only while something is granted.
        """
        with self._handling:
            self._handler = handler
            if self._actors is not None and self._actors.granted:
                handler(self._actors)

    def on_gone(self, handler: Callable[[], object]) -> None:
        """Call `handler` once when the job is gone, now or later. It may be called from another thread."""
        with self._handling:
            self._on_gone = handler
            if self.gone:
                handler()

    def lose(self, error: Exception) -> None:
        """Note that the job is gone."""
        with self._handling:
            if not self.gone:
                self.gone = True
                logger.error("%s: nothing more is reported, and the run ends after a checkpoint", error)
                self._on_gone()

    def take(self, job: Mapping[str, Any]) -> None:
        """Take over the job as it is stored."""
        stop = job["spec"].get("stop")
        if stop != self._stop:
            self._take_limits(job, stop)
        actors = (job.get("status") or {}).get("actors") or {}
        self._pods = ClusterPods.of(actors, actors_per_pod(job["spec"]), self._pods)
        self.provisioned = int(actors.get("provisioned") or 0)
        granted, addresses = actors.get("granted"), actors.get("addresses")
        if granted is None:
            return
        with self._handling:
            self.granted, ready = int(granted), int(actors.get("ready") or 0)
            named = None if addresses is None else tuple(addresses)
            before, self._actors = self._actors, GrantedActors(self.granted, ready, named)
            if granted and (named is not None or self._actors != before):
                self._handler(self._actors)

    def _take_limits(self, job: Mapping[str, Any], stop: Any) -> None:
        try:
            limits = resolve_stored(job).spec.stop
        except JobInvalid as error:  # an older learner than the cluster's CRD; the run ends as it would have
            logger.warning("spec.stop has changed to what this learner cannot use: %s", error)
            self._stop = stop
            return
        if self.limits is not None and limits != self.limits:
            logger.info("spec.stop has changed", extra={"fields": {"stop": stop}})
        self._stop, self.limits = stop, limits


class JobWatch:
    """Watch the job in a thread and pass every state of it to the mirror.

    A watch that ends goes on from the last version that was seen. If the API server has forgotten that
    version, the job is read anew. Failures in a row are tried again with a growing, random pause. A job that
    is gone ends the watch.

        watch = JobWatch(client, mirror)
        watch.start()
        watch.stop()
    """

    def __init__(self, client: JobClient, mirror: JobMirror) -> None:
        self._client = client
        self._mirror = mirror
        self._woken = threading.Event()
        self._stopping = False
        self._version: str | None = None
        self._failures = 0
        self._thread = threading.Thread(target=self._run, name="job-watch", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; a connection that does not answer does not hold it up for long."""
        self._stopping = True
        self._woken.set()
        self._client.end_watch()
        if self._thread.is_alive():
            self._thread.join(1.0)

    def _run(self) -> None:
        while not self._stopping:
            self._woken.clear()
            self._woken.wait(self._look())

    def _look(self) -> float:
        """Watch until the connection ends; returns seconds until the next look."""
        self._failures += 1  # in a row, until an event comes: a watch that ends without one counts as well
        try:
            if self._version is None:
                self._take(self._client.get())
            for job in self._client.watch(str(self._version)):
                self._take(job)
                self._failures = 0
                if self._stopping:
                    break
        except WatchExpired:
            self._version = None
        except JobGone as error:
            self._stopping = True
            self._mirror.lose(error)
        except ApiUnavailable as error:
            if self._failures == 1 and not self._stopping:
                logger.info("the watch on the job has ended and is started again: %s", error)
        return backoff(self._failures)

    def _take(self, job: dict[str, Any]) -> None:
        self._mirror.take(job)
        self._version = job["metadata"]["resourceVersion"]
