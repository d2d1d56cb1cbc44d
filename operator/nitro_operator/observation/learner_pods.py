"""The learner pod that the present is about: the newest one that was ever seen, also when it is gone.

Older pods that have stayed tell about earlier events, so they are no evidence of the present one.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from nitro_operator.kube.kinds import Object
from nitro_operator.observation import reported
from nitro_operator.observation.lifetimes import asked_at
from nitro_operator.observation.observed import (
    LearnerEnd,
    Observed,
    alive,
    condition,
    containers,
    created,
    learner_exit,
    terminating,
)

FIRST_WAIT, LONGEST_WAIT = timedelta(seconds=10), timedelta(minutes=10)
"""Back-off of Kubernetes' Job controller: it waits twice as long after each further pod that has ended."""
CLOCKS = timedelta(seconds=2)
"""A report that is later than a pod's end by more than this is another pod's. A kubelet counts in seconds."""


class LearnerPods:
    """Memory of the learner pods of one Job."""

    def __init__(self) -> None:
        self._job_uid: str | None = None
        self._forget()

    def _forget(self) -> None:
        self._newest: Object | None = None
        self._exited: Object | None = None
        """The newest one, as it was when its learner had ended by itself."""
        self._over_at: datetime | None = None
        """The time at which the newest one was first seen to be over, or gone."""
        self._gone = False
        self._ended: set[str] = set()

    def present(self, observed: Observed, job: Object, server_now: datetime) -> Observed:
        """What was observed, with the pod that the present is about, and with that pod's end."""
        learner_job, pod = observed.learner_job, observed.learner_pod
        uid = learner_job["metadata"]["uid"] if learner_job is not None else None
        if uid != self._job_uid:
            self._job_uid = uid
            self._forget()
        if learner_job is None:
            return observed
        if pod is None or not self._is_present(pod, job):
            pod, self._gone = None, self._newest is not None
        else:
            self._meet(pod)
        if self._newest is not None and (self._gone or not alive(self._newest)):
            self._over_at = self._over_at or server_now
            self._ended.add(self._newest["metadata"]["uid"])
        return replace(observed, learner_pod=pod, learner_end=self._end(learner_job))

    def _is_present(self, pod: Object, job: Object) -> bool:
        if self._newest is not None:
            return created(pod) >= created(self._newest)
        # This operator has just started. A later report means that a newer pod was there.
        ended, told = finished_at(pod), reported.moment(reported.section(job, "training").get("updatedAt"))
        return ended is None or told is None or told <= ended + CLOCKS

    def _meet(self, pod: Object) -> None:
        if self._newest is None or self._newest["metadata"]["uid"] != pod["metadata"]["uid"]:
            self._exited = self._over_at = None
        self._newest, self._gone = pod, False
        if _ended_by_itself(pod):
            self._exited = pod

    def _end(self, learner_job: Object) -> LearnerEnd | None:
        pod = self._newest
        if pod is None:
            return None
        over = self._gone or not alive(pod)
        if not over and not terminating(pod) and self._exited is None:
            return None
        ended = (finished_at(pod) or self._over_at) if over else None
        failed = (learner_job.get("status") or {}).get("failed") or 0
        due = ended + backoff(max(len(self._ended), failed)) if ended is not None else None
        return LearnerEnd(self._exited or pod, self._exited is not None, ended, due)


def backoff(ended_pods: int) -> timedelta:
    """The time that Kubernetes waits before it starts a Job's next pod."""
    doublings = min(max(ended_pods - 1, 0), 10)
    return min(FIRST_WAIT * (1 << doublings), LONGEST_WAIT)


def finished_at(pod: Object) -> datetime | None:
    """The time at which a pod's last container ended; None if one has not, or if none is known."""
    states = [(container.get("state") or {}).get("terminated") for container in containers(pod)]
    if alive(pod) or not states or None in states:
        return None
    times = [reported.moment(ended.get("finishedAt")) for ended in states if ended is not None]
    return max((time for time in times if time is not None), default=None)


def disruption(pod: Object) -> str | None:
    """Why the cluster has ended a pod: an eviction, a drained or lost node, a preemption. None if it has
    not."""
    target = condition(pod, "DisruptionTarget") or {}
    if target.get("status") != "True":
        target = pod.get("status") or {}
    told = [target[name].strip() for name in ("reason", "message") if target.get(name)]
    return ": ".join(told) or None


def _ended_by_itself(pod: Object) -> bool:
    """Whether a pod's learner ended before anybody asked the pod to end."""
    ended = learner_exit(pod)
    if ended is None or disruption(pod) is not None:
        return False
    at = reported.moment(ended.get("finishedAt"))
    return not terminating(pod) or (at is not None and at < asked_at(pod))
