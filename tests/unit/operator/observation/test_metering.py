"""The meter of the time that pods run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from nitro_operator.observation.metering import PodMeter
from operator_objects import make_job, pod

START = datetime(2026, 1, 1, tzinfo=UTC)
"""When the pods of `pod` were created and started."""


def at(seconds: float) -> tuple[float, datetime]:
    """The monotonic and the API server's time, so long after the pods' start."""
    return 1000 + seconds, START + timedelta(seconds=seconds)


class TestMeter:
    def test_the_meter_integrates_pods_including_terminating_ones(self) -> None:
        meter = PodMeter()
        leaving = pod("actor", name="b")
        leaving["metadata"]["deletionTimestamp"] = "now"
        meter.sample([], *at(0))
        meter.sample([pod("actor", name="a"), leaving], *at(0))
        meter.sample([pod("actor", name="a")], *at(5))
        assert meter.sample([], *at(10)) == 2 * 5 + 1 * 5
        assert not meter.running

    def test_a_pod_counts_from_its_start_also_when_it_is_seen_late(self) -> None:
        """A busy kubelet reports a pod's start seconds later."""
        meter = PodMeter()
        early, late, wrong = pod("actor", name="a"), pod("actor", name="b"), pod("actor", name="c")
        late["status"]["startTime"] = "2026-01-01T00:00:04Z"
        wrong["metadata"]["creationTimestamp"] = "2026-01-01T00:00:06Z"
        assert meter.sample([early, late, wrong], *at(7)) == 7 + 3 + 1, "no pod is older than its object"
        assert meter.sample([early, late], *at(9)) == 11 + 3 * 2
        assert meter.sample([], *at(10)) == 17 + 2 * 1

    def test_a_pod_counts_from_its_start_on_a_node_until_its_end(self) -> None:
        pending, ended = pod("actor"), pod("actor", phase="Succeeded")
        del pending["status"]["startTime"]
        meter = PodMeter()
        meter.sample([pending, ended], *at(0))
        assert meter.sample([], *at(100)) == 0

    def test_a_restored_meter_adds_the_time_since_the_last_status(self) -> None:
        job = make_job({"actors": {"podSeconds": 100.0}})
        job["metadata"]["statusWrittenAt"] = "2026-01-01T00:10:00Z"
        old, young = pod("actor", name="a"), pod("actor", name="b")
        young["metadata"]["creationTimestamp"] = "2026-01-01T00:10:20Z"
        now = datetime(2026, 1, 1, 0, 10, 30, tzinfo=UTC)
        meter = PodMeter.restored(job, [old, young], now)
        assert meter.total == 100 + 30 + 10
        assert meter.sample([old, young], 0, now) == 140, "known pods are not counted again"
        early = datetime(2026, 1, 1, 0, 9, 0, tzinfo=UTC)
        assert PodMeter.restored(job, [old], early).total == 100, "a clock that went back takes nothing away"
