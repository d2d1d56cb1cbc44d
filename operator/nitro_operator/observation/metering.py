"""Pod-seconds: the time for which actor pods have existed on a node, terminating ones included."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from nitro_operator.kube.cache import STATUS_WRITTEN_AT
from nitro_operator.kube.kinds import Object
from nitro_operator.observation import reported
from nitro_operator.observation.observed import alive

LONGEST_GAP_SECONDS = 3600.0


class PodMeter:
    """Integrate the number of pods over time. The sum is exact if it is sampled at every event of a pod.

    Usage::

        meter = PodMeter.restored(job, pods, server_now)
        total = meter.sample(pods, monotonic)
    """

    def __init__(self, total: float = 0.0) -> None:
        self.total = total
        self._pods = 0
        self._at: float | None = None

    @classmethod
    def restored(cls, job: Object, pods: Sequence[Object], server_now: datetime) -> PodMeter:
        """Continue from the published number, and add the time of existing pods since its publication.

        Both times are the API server's, so a wrong clock of this machine changes nothing.
        """
        published = reported.pod_seconds(job)
        written = job["metadata"].get(STATUS_WRITTEN_AT)
        if written is None:
            return cls(published)
        gap = min(
            max(0.0, (server_now - datetime.fromisoformat(written)).total_seconds()), LONGEST_GAP_SECONDS
        )
        ages = ((server_now - _created(pod)).total_seconds() for pod in pods if billed(pod))
        return cls(published + sum(min(gap, max(0.0, age)) for age in ages))

    def sample(self, pods: Sequence[Object], now: float) -> float:
        """Pod-seconds up to now; `now` is monotonic, in seconds."""
        if self._at is not None:
            self.total += self._pods * (now - self._at)
        self._at = now
        self._pods = sum(billed(pod) for pod in pods)
        return self.total

    @property
    def running(self) -> bool:
        return self._pods > 0


def billed(pod: Object) -> bool:
    """Whether a pod occupies a node: accepted by a kubelet and not over."""
    return "startTime" in (pod.get("status") or {}) and alive(pod)


def _created(pod: Object) -> datetime:
    return datetime.fromisoformat(pod["metadata"]["creationTimestamp"])
