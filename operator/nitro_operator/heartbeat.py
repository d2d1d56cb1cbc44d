"""Whether a learner lives, counted only while the operator could have heard it."""

from __future__ import annotations

from nitro_operator.kinds import Object
from nitro_operator.observed import Observed, learner_running
from nitro_operator.scaling import HEARTBEAT_SECONDS

LATE_SECONDS = 20.0
"""Two reports are missing: from here on the operator looks at the job itself. The watch may be down, and
nobody tells whether it is."""
LOOK_SECONDS = 10.0
GAP_SECONDS = 30.0
"""Looks further apart than this prove nothing about the time between them."""


class Heartbeat:
    """Counts from when the learner's report last changed, by this process's clock.

    Silence counts only between looks that the API server answered: in an outage learners cannot report, and
    after it they need their time to come back. So the clock starts anew with the first look that succeeds.

    Usage::

        heartbeat.see(job, observed, now)
        if heartbeat.due(now):
            ...  # get the job, then looked(...) and see(...) again
        heard = heartbeat.heard(now)
    """

    def __init__(self) -> None:
        self._mark: tuple[str | None, str | None] | None = None
        self._at = float("-inf")
        self._looked = float("-inf")
        self._blind = False
        self._lost = False

    def see(self, job: Object, observed: Observed, now: float) -> None:
        """Take note of the job as it is: a new report, or another pod, is a sign of life."""
        training = (job.get("status") or {}).get("training") or {}
        pod = observed.learner_pod if learner_running(observed) else None
        mark = (training.get("updatedAt"), pod["metadata"]["uid"] if pod is not None else None)
        if mark != self._mark:
            self._mark, self._at, self._looked = mark, now, now
            self._blind = self._lost = False

    def due(self, now: float) -> bool:
        """Whether the job should be looked at without the watch; always so before a learner is given up."""
        silence = now - self._at
        verdict = silence >= HEARTBEAT_SECONDS and not self._lost
        return self._running and silence >= LATE_SECONDS and (now - self._looked >= LOOK_SECONDS or verdict)

    def looked(self, now: float, *, answered: bool) -> None:
        """Take note of such a look."""
        gap = self._blind or now - self._looked > GAP_SECONDS
        self._looked, self._blind = now, not answered
        if answered and gap and not self._lost:
            self._at = now

    def heard(self, now: float) -> bool:
        """Whether the learner runs and has been heard of lately, or could not have been."""
        sighted = not self._blind and now - self._looked <= GAP_SECONDS
        if sighted and now - self._at >= HEARTBEAT_SECONDS:
            self._lost = True
        return self._running and not self._lost

    def silence(self, now: float) -> float:
        """Seconds since the last sign of life."""
        return now - self._at

    def next_look(self, now: float) -> float:
        """Seconds until the next look is due, if no report comes before."""
        return max(self._at + LATE_SECONDS, self._looked + LOOK_SECONDS) - now

    @property
    def _running(self) -> bool:
        return self._mark is not None and self._mark[1] is not None
