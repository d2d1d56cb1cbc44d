"""The learner's copy of the fields that others write in its job: grants and pod-seconds from the operator,
limits from the user."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from nitro_api import JobInvalid, resolve_stored
from nitro_api.costs.pod_use import PodUse
from nitro_api.spec.pods import actors_per_pod
from nitro_api.spec.stop import Stop
from nitro_learner.cluster.cluster_pods import ClusterPods

logger = logging.getLogger(__name__)

_NEVER = object()


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
        self._handler: Callable[[int, int], None] = lambda *_: None
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

    def on_actors(self, handler: Callable[[int, int], None]) -> None:
        """Call `handler` with status.actors.granted and .ready, now and whenever one of them changes.

        It is called from the thread that writes the mirror, and only while something is granted.
        """
        with self._handling:
            self._handler = handler
            if self.granted:
                handler(self.granted, self._ready)

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
        granted, ready = actors.get("granted"), int(actors.get("ready") or 0)
        if granted is not None and (granted, ready) != (self.granted, self._ready):
            with self._handling:
                self.granted, self._ready = int(granted), ready
                if granted:
                    self._handler(self.granted, ready)

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
