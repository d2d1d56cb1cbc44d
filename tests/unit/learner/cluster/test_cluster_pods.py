"""The actors' pods as a learner knows them: what they have used so far, and what their drain will use."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from nitro_learner.cluster import job_mirror
from nitro_learner.cluster.job_mirror import ClusterPods

STATUS: dict[str, Any] = {
    "podSeconds": 100.0,
    "vcpuSeconds": {"awake": 20.0, "asleep": 1.0, "starting": 2.0, "draining": 0.0},
    "podVCPU": 1.025,
    "ready": 16,
    "asleep": 8,
    "draining": 2,
    "drainSeconds": 30.0,
}
"""Four pods of four actors, of which two sleep, and two that go."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(job_mirror.time, "monotonic", lambda: now[0])
    return now


def read(status: dict[str, Any], before: ClusterPods | None = None) -> ClusterPods:
    found = ClusterPods.of(status, 4, before)
    assert found is not None
    return replace(found, read_at=job_mirror.time.monotonic()) if found is not before else found


def test_ready_pods_use_time_and_cpu_between_the_operators_writes(clock: list[float]) -> None:
    pods = read(STATUS)
    clock[0] += 10
    assert read(STATUS, pods) is pods, "nothing new was written"
    use = pods.now()
    assert use.seconds == 100 + 4 * 10
    assert use.vcpu_seconds == pytest.approx(
        {"awake": 20 + 2 * 10 * 1.025, "asleep": 1 + 2 * 10 * 0.025, "starting": 2.0, "draining": 0.0}
    )
    clock[0] += 3600
    assert pods.now().seconds == 100 + 4 * 120, "after so long a silence they may not run any more"
    later = read(STATUS | {"podSeconds": 150.0}, pods)
    assert later.now().seconds == 150


def test_a_drain_takes_the_measured_time_and_is_half_over_for_pods_that_go() -> None:
    drain = read(STATUS).drain()
    assert drain.seconds == 30 * (2 + 2 + 2 / 2)
    assert drain.vcpu_seconds == pytest.approx({"draining": 30 * (3 * 1.025 + 2 * 0.025)})
    assert read(STATUS | {"ready": 0, "asleep": 0, "draining": 0}).drain().seconds == 0


def test_an_operator_of_an_earlier_release_tells_no_cpu() -> None:
    old = read({"podSeconds": 100.0, "ready": 8, "drainSeconds": 30.0})
    assert (old.now().vcpu_seconds, old.drain().vcpu_seconds) == ({}, {})
    assert old.drain().seconds == 60
    assert ClusterPods.of({"granted": 1}, 1, None) is None
    assert ClusterPods.of({}, 1, old) is old


@pytest.mark.parametrize("wrong", [{"podSeconds": "many"}, {"vcpuSeconds": 3, "podSeconds": 1.0}])
def test_what_cannot_be_read_is_left_out(wrong: dict[str, Any]) -> None:
    found = ClusterPods.of(wrong, 1, None)
    assert found is None or found.use.vcpu_seconds == {}
