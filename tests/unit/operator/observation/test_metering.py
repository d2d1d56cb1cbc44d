"""The meter of the time that pods run."""

from __future__ import annotations

from datetime import UTC, datetime

from nitro_operator.observation.metering import PodMeter
from operator_objects import make_job, pod


class TestMeter:
    def test_the_meter_integrates_pods_including_terminating_ones(self) -> None:
        meter = PodMeter()
        leaving = pod("actor", name="b")
        leaving["metadata"]["deletionTimestamp"] = "now"
        meter.sample([], 0)
        meter.sample([pod("actor", name="a"), leaving], 10)
        meter.sample([pod("actor", name="a")], 15)
        assert meter.sample([], 20) == 2 * 5 + 1 * 5
        assert not meter.running

    def test_a_pod_counts_from_its_start_on_a_node_until_its_end(self) -> None:
        pending, ended = pod("actor"), pod("actor", phase="Succeeded")
        del pending["status"]["startTime"]
        meter = PodMeter()
        meter.sample([pending, ended], 0)
        assert meter.sample([], 100) == 0

    def test_a_restored_meter_adds_the_time_since_the_last_status(self) -> None:
        job = make_job({"actors": {"podSeconds": 100.0}})
        job["metadata"]["statusWrittenAt"] = "2026-01-01T00:10:00Z"
        old, young = pod("actor", name="a"), pod("actor", name="b")
        young["metadata"]["creationTimestamp"] = "2026-01-01T00:10:20Z"
        now = datetime(2026, 1, 1, 0, 10, 30, tzinfo=UTC)
        assert PodMeter.restored(job, [old, young], now).total == 100 + 30 + 10
        early = datetime(2026, 1, 1, 0, 9, 0, tzinfo=UTC)
        assert PodMeter.restored(job, [old], early).total == 100, "a clock that went back takes nothing away"
