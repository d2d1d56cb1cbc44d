"""Pod-seconds: the time for which actor pods have existed on a node, terminating ones included."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from nitro_operator.kube.kinds import Object
from nitro_operator.kube.slim import STATUS_WRITTEN_AT
from nitro_operator.observation import reported
from nitro_operator.observation.observed import alive

LONGEST_GAP_SECONDS = 3600.0


class PodMeter:
    """Integrate the number of pods over time. The sum is exact if it is sampled at every event of a pod.

    A pod is first seen some time after its start, because the kubelet reports late on a busy node. That time
    is added when the pod is first seen.

    Usage::

        meter = PodMeter.restored(job, pods, server_now)
        total = meter.sample(pods, monotonic, server_now)
    """

    def __init__(self, total: float = 0.0) -> None:
        self.total = total
        self._pods: set[str] = set()
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
        found = cls(published)
        found._meet(pods, server_now, gap)
        return found

    def sample(self, pods: Sequence[Object], now: float, server_now: datetime) -> float:
        """Pod-seconds up to now; `now` is monotonic, in seconds."""
        if self._at is not None:
            self.total += len(self._pods) * (now - self._at)
        self._at = now
        self._meet(pods, server_now, LONGEST_GAP_SECONDS)
        return self.total

    @property
    def running(self) -> bool:
        return bool(self._pods)

    def _meet(self, pods: Sequence[Object], server_now: datetime, most: float) -> None:
        """Add the time since the start of each pod that is new, at most `most` seconds."""
        known, self._pods = self._pods, {pod["metadata"]["uid"] for pod in pods if billed(pod)}
        ages = (_age(pod, server_now) for pod in pods if pod["metadata"]["uid"] in self._pods - known)
        self.total += sum(min(most, max(0.0, age)) for age in ages)


def billed(pod: Object) -> bool:
    """Whether a pod occupies a node: accepted by a kubelet and not over."""
    return "startTime" in (pod.get("status") or {}) and alive(pod)


def _age(pod: Object, server_now: datetime) -> float:
    """Seconds since a kubelet accepted a pod. Its clock may be wrong: a pod is not older than its object."""
    created = datetime.fromisoformat(pod["metadata"]["creationTimestamp"])
    started = reported.moment(pod["status"]["startTime"]) or created
    return (server_now - max(created, started)).total_seconds()
