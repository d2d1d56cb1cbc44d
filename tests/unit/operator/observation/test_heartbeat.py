"""The heartbeat of a learner: when a learner counts as silent."""

from __future__ import annotations

from nitro_operator.observation.heartbeat import GAP_SECONDS, Heartbeat
from nitro_operator.observation.observed import Observed
from operator_objects import RUNNING, pod
from reconcile_bench import reported

LEARNER = Observed(learner_pod=pod("learner", redis=RUNNING, learner=RUNNING))


class TestHeartbeat:
    def heard(self, beat: Heartbeat, now: float, *, answered: bool = True) -> bool:
        """What the reconcile does, with a learner that does not report."""
        beat.see(reported(), LEARNER, now)
        if beat.due(now):
            beat.looked(now, answered=answered)
        return beat.heard(now)

    def test_the_timeout_counts_from_the_last_change_on_the_operators_clock(self) -> None:
        beat = Heartbeat()
        assert all(self.heard(beat, now) for now in (100.0, 120, 130, 140, 150, 159))
        assert not self.heard(beat, 160.1)
        beat.see(reported("1970-01-01T00:00:10Z"), LEARNER, 161)
        assert beat.heard(161)
        beat.see(reported("1970-01-01T00:00:10Z"), Observed(), 162)
        assert not beat.heard(162), "no learner runs"

    def test_time_without_a_read_of_the_job_does_not_count(self) -> None:
        beat = Heartbeat()
        assert all(self.heard(beat, now, answered=False) for now in range(0, 300, 10))
        assert all(self.heard(beat, now) for now in range(300, 360, 10)), "a minute anew"
        assert not self.heard(beat, 360)

    def test_a_gap_between_reconciles_does_not_count(self) -> None:
        beat = Heartbeat()
        assert self.heard(beat, 0)
        assert self.heard(beat, 61 + GAP_SECONDS)

    def test_an_outage_does_not_revive_a_silent_learner(self) -> None:
        beat = Heartbeat()
        assert not [self.heard(beat, now) for now in range(0, 70, 10)][-1]
        assert not self.heard(beat, 80, answered=False)
        assert not self.heard(beat, 90)
