"""The meter of the time that pods run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from nitro_operator.kube.kinds import Object
from nitro_operator.observation import metering
from nitro_operator.observation.metering import PodMeter
from operator_objects import actor_pod, make_job, pod

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


FULL, SLEEPING = 0.225, 0.026
"""vCPU of an awake and of a sleeping pod of `actor_pod`, Knative's container included."""


def starting(name: str) -> Object:
    found = actor_pod(name)
    found["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    return found


def leaving(found: Object) -> Object:
    found["metadata"]["deletionTimestamp"] = "now"
    return found


def asleep(name: str) -> Object:
    return actor_pod(name, cpu="1m", allocated="1m", in_force="1m")


class TestCpu:
    def test_cpu_is_counted_by_state(self) -> None:
        """A pod that drains from sleep stays at what it requests then, and one that is woken is awake."""
        meter = PodMeter()
        meter.sample([], *at(0))
        meter.sample([starting("a"), actor_pod("b"), asleep("c"), leaving(asleep("d"))], *at(0))
        meter.sample([leaving(actor_pod("a")), actor_pod("c", cpu="200m", allocated="1m")], *at(10))
        meter.sample([], *at(14))
        assert meter.total == 4 * 10 + 2 * 4
        assert meter.vcpu_seconds == pytest.approx(
            {
                "starting": 10 * FULL,
                "awake": (10 + 4) * FULL,
                "asleep": 10 * SLEEPING,
                "draining": 10 * SLEEPING + 4 * FULL,
            }
        )
        assert meter.pod_vcpu == pytest.approx(FULL)

    def test_a_sleeper_that_has_worked_costs_as_much_as_an_awake_pod(self) -> None:
        meter = PodMeter()
        meter.worked("a", 100)
        meter.sample([asleep("a"), actor_pod("b")], *at(0))
        before = dict(meter.vcpu_seconds)
        meter.sample([asleep("a"), actor_pod("b")], *at(30))
        meter.worked("a", 30)
        meter.worked("gone", 30)
        grown = {state: total - before[state] for state, total in meter.vcpu_seconds.items()}
        assert sum(grown.values()) == pytest.approx(2 * 30 * meter.pod_vcpu)
        assert grown["asleep"] == pytest.approx(30 * SLEEPING), "no sum ever falls"

    def test_a_pod_that_was_seen_late_was_starting_until_it_was_ready(self) -> None:
        found = actor_pod("a")
        found["status"]["conditions"][0]["lastTransitionTime"] = "2026-01-01T00:00:04Z"
        meter = PodMeter()
        assert meter.sample([found], *at(10)) == 10
        assert meter.vcpu_seconds["starting"] == pytest.approx(4 * FULL)
        assert meter.vcpu_seconds["awake"] == pytest.approx(6 * FULL)

    def test_a_pod_that_has_not_changed_is_not_read_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """256 pods are read at each of a job's events."""
        meter, found, reads = PodMeter(), actor_pod("a"), []
        cpu_of = metering.cpu_of
        monkeypatch.setattr(metering, "cpu_of", lambda pod: reads.append(pod) or cpu_of(pod))
        for seconds in range(5):
            meter.sample([found], *at(seconds))
        assert len(reads) == 1

    def test_cpu_goes_on_after_a_restart_of_the_operator(self) -> None:
        published = {"awake": 50.0, "asleep": 3.0, "starting": 2.0, "draining": 1.0}
        job = make_job({"actors": {"podSeconds": 100.0, "vcpuSeconds": published, "podVCPU": FULL}})
        job["metadata"]["statusWrittenAt"] = "2026-01-01T00:10:00Z"
        now = datetime(2026, 1, 1, 0, 10, 30, tzinfo=UTC)
        meter = PodMeter.restored(job, [asleep("a"), asleep("b")], now)
        assert meter.total == 160
        assert meter.vcpu_seconds == pytest.approx(published | {"asleep": 3 + 2 * 30 * SLEEPING})
        assert meter.pod_vcpu == FULL, "no pod is awake to tell"

    def test_a_status_of_an_earlier_release_has_no_cpu(self) -> None:
        meter = PodMeter.restored(make_job({"actors": {"podSeconds": 100.0}}), [], START)
        assert (meter.total, sum(meter.vcpu_seconds.values()), meter.pod_vcpu) == (100, 0, None)
