"""Detects a learner that does not report any more, but only while its reports could arrive."""

from nitro_operator.kube.kinds import Object
from nitro_operator.observation import reported
from nitro_operator.observation.observed import Observed, learner_running
from nitro_operator.scaling.demand import HEARTBEAT_SECONDS

LATE_SECONDS = 20.0
"""Silence after which the operator reads the job itself: two reports are missing, and the watch may be
broken without a sign."""
LOOK_SECONDS = 10.0
GAP_SECONDS = 30.0
"""Two looks with a longer gap prove nothing about the time between them."""


class Heartbeat:
    """Measure the time since the learner's report last changed, by this process's clock.

    Silence counts only between looks that the API server answered. In an outage learners cannot report, and
    after it they need time to come back. So the clock starts again with the first look that succeeds.

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
        """Note the job's state: a new report, or another pod, is a sign of life."""
        training = reported.section(job, "training")
        pod = observed.learner_pod if learner_running(observed) else None
        mark = (training.get("updatedAt"), pod["metadata"]["uid"] if pod is not None else None)
        if mark != self._mark:
            self._mark, self._at, self._looked = mark, now, now
            self._blind = self._lost = False

    def due(self, now: float) -> bool:
        """Whether to read the job without the watch. That is always done before a learner is given up."""
        silence = now - self._at
        verdict = silence >= HEARTBEAT_SECONDS and not self._lost
        return self._running and silence >= LATE_SECONDS and (now - self._looked >= LOOK_SECONDS or verdict)

    def looked(self, now: float, *, answered: bool) -> None:
        """Note that the job was read without the watch, and whether the API server answered."""
        gap = self._blind or now - self._looked > GAP_SECONDS
        self._looked, self._blind = now, not answered
        if answered and gap and not self._lost:
            self._at = now

    def heard(self, now: float) -> bool:
        """Whether the learner runs and has reported lately, or could not report."""
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
