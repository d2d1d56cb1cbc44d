"""How long a job's actor pods take to start and to end in this cluster."""

from collections import deque
from collections.abc import Sequence
from datetime import datetime, timedelta
from statistics import median
from typing import Self

from nitro_api.pools.holding import USUAL, PodTimes
from nitro_api.pools.pod_resources import asleep, to_sleep
from nitro_operator.kube.kinds import Object
from nitro_operator.kube.slim import STATUS_WRITTEN_AT
from nitro_operator.observation import reported
from nitro_operator.observation.observed import condition, holds, terminating

SAMPLES = 64
LONGEST_SECONDS = 600.0
"""A pod that took longer waited for a node or an image. Its time says nothing about other pods."""


class PodLifetimes:
    """Count a job's actor pods and measure their times, at every event of a pod."""

    def __init__(self, times: PodTimes = USUAL, started: int = 0) -> None:
        self.started = started
        """Pods that were started so far."""
        self._before = times
        self._starts: deque[float] = deque(maxlen=SAMPLES)
        self._drains: deque[float] = deque(maxlen=SAMPLES)
        self._wakes: deque[float] = deque(maxlen=SAMPLES)
        self._woken: dict[str, float] = {}
        self._starting: set[str] = set()
        self._asked: dict[str, datetime] = {}
        self._known: set[str] = set()

    @classmethod
    def restored(cls, job: Object, pods: Sequence[Object], server_now: datetime) -> Self:
        """Continue from the status. Pods that were created after it was written are added."""
        actors = reported.actors(job)
        times = PodTimes(
            USUAL.start if actors.start_seconds is None else _bounded(actors.start_seconds),
            USUAL.drain if actors.drain_seconds is None else _bounded(actors.drain_seconds),
            USUAL.wake if actors.wake_seconds is None else _bounded(actors.wake_seconds),
        )
        lifetimes = cls(times, actors.started or 0)
        written = reported.moment(job["metadata"].get(STATUS_WRITTEN_AT))
        old = [pod for pod in pods if written is not None and _created(pod) <= written]
        lifetimes._known = {pod["metadata"]["uid"] for pod in old}
        lifetimes._starting = {pod["metadata"]["uid"] for pod in old if _ready_at(pod) is None}
        lifetimes.see(pods, server_now)
        return lifetimes

    @property
    def times(self) -> PodTimes:
        """The medians of the last pods. If none has been seen, those of the status or the usual ones."""
        return PodTimes(
            median(self._starts) if self._starts else self._before.start,
            median(self._drains) if self._drains else self._before.drain,
            median(self._wakes) if self._wakes else self._before.wake,
        )

    def see(self, pods: Sequence[Object], server_now: datetime, now: float | None = None) -> None:
        """Note the pods that exist now. All times are the API server's, `server_now` too. `now` is monotonic,
        in seconds: a wake takes so little that the API server's whole seconds do not measure it."""
        present = {pod["metadata"]["uid"]: pod for pod in pods}
        new = present.keys() - self._known
        self.started += len(new)
        self._starting |= new
        for uid in [uid for uid in self._starting if uid in present]:
            ready = _ready_at(present[uid])
            if ready is not None:
                self._starts.append(_bounded((ready - _created(present[uid])).total_seconds()))
                self._starting.remove(uid)
        for uid in [uid for uid in self._asked if uid not in present]:
            self._drains.append(_bounded((server_now - self._asked.pop(uid)).total_seconds()))
        for uid, pod in present.items():
            if terminating(pod):
                # A later deletion with a shorter grace period moves the end, not the beginning.
                self._asked.setdefault(uid, asked_at(pod))
            if now is not None:
                self._see_wake(uid, pod, now)
        self._woken = {uid: at for uid, at in self._woken.items() if uid in present}
        self._starting &= present.keys()
        self._known = set(present)

    def _see_wake(self, uid: str, pod: Object, now: float) -> None:
        """Measure a wake, from the answer to its patch on. One that its node defers waits for room: its time
        says nothing about others."""
        if not asleep(pod):
            if uid in self._woken:
                self._wakes.append(_bounded(now - self._woken.pop(uid)))
        elif to_sleep(pod) or holds(pod, "PodResizePending"):
            self._woken.pop(uid, None)
        elif uid in self._known:
            self._woken.setdefault(uid, now)


def asked_at(pod: Object) -> datetime:
    """The time at which the deletion of a terminating pod was requested.

    Of a longer grace period only LONGEST_SECONDS count: anybody who may delete the pod sets it, and a date
    has bounds.
    """
    meta = pod["metadata"]
    grace = _bounded(float(meta.get("deletionGracePeriodSeconds") or 0))
    return datetime.fromisoformat(meta["deletionTimestamp"]) - timedelta(seconds=grace)


def _created(pod: Object) -> datetime:
    return datetime.fromisoformat(pod["metadata"]["creationTimestamp"])


def _ready_at(pod: Object) -> datetime | None:
    """The time at which a pod became ready; None if it is not ready, or is terminating."""
    ready = condition(pod, "Ready")
    if ready is None or ready.get("status") != "True" or terminating(pod):
        return None
    return reported.moment(ready.get("lastTransitionTime"))


def _bounded(seconds: float) -> float:
    return min(max(seconds, 0.0), LONGEST_SECONDS)
