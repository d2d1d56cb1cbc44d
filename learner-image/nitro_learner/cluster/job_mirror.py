"""The learner's copy of the fields that others write in its job: grants and pod-seconds from the operator,
limits from the user."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nitro_api import JobInvalid, resolve_stored
from nitro_api.costs.pod_use import PodUse
from nitro_api.spec.pods import actors_per_pod
from nitro_api.spec.stop import Stop
from nitro_learner.cluster.cluster_pods import ClusterPods

logger = logging.getLogger(__name__)

_NEVER = object()


@dataclass(frozen=True)
class GrantedActors:
    """What the operator says of the actors.

    Attributes:
        granted: status.actors.granted.
        ready: status.actors.ready.
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
        self._ready = 0
        self._per_pod = 1
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
        self._per_pod = actors_per_pod(job["spec"])
        actors = (job.get("status") or {}).get("actors") or {}
        self._pods = ClusterPods.of(actors, self._per_pod, self._pods)
        self.provisioned = int(actors.get("provisioned") or 0)
        granted, addresses = actors.get("granted"), actors.get("addresses")
        if granted is None:
            return
        with self._handling:
            self.granted, self._ready = int(granted), int(actors.get("ready") or 0)
            named = None if addresses is None else tuple(addresses)
            before, self._actors = self._actors, GrantedActors(self.granted, self._ready, named)
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
