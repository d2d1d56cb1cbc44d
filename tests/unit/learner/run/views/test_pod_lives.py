"""The lives of pods, from what the API server says at each event."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from nitro_api.pools.pod_resources import asleep, cpu_of
from nitro_learner.run.views.pod_lives import PodLives, vcpu_seconds

BEGAN = 1_767_225_600.0


def stamp(seconds: float) -> str:
    return datetime.fromtimestamp(BEGAN + seconds, UTC).isoformat().replace("+00:00", "Z")


def pod(
    uid: str = "a",
    *,
    bound: float | None = 0,
    ready: float | None = None,
    wanted: str = "200m",
    given: str | None = "200m",
    allocated: str | None = None,
    **metadata: Any,
) -> dict[str, Any]:
    """An actor's pod; times are seconds from BEGAN on. `given` is in force, `allocated` set aside."""
    times = {"PodScheduled": bound, "Ready": ready}
    conditions = [
        {"type": kind, "status": "False" if at is None else "True", "lastTransitionTime": stamp(at or 0)}
        for kind, at in times.items()
    ]
    actor: dict[str, Any] = {"name": "actor"}
    if given:
        actor["resources"] = {"requests": {"cpu": given}}
        actor["allocatedResources"] = {"cpu": allocated or given}
    return {
        "metadata": {"uid": uid, **metadata},
        "spec": {
            "containers": [
                {"name": "actor", "resources": {"requests": {"cpu": wanted, "memory": "512Mi"}}},
                {"name": "queue-proxy", "resources": {"requests": {"cpu": "25m"}}},
            ]
        },
        "status": {"phase": "Running", "conditions": conditions, "containerStatuses": [actor]},
    }


def test_a_life_has_a_span_for_each_state() -> None:
    lives = PodLives()
    events = [
        (1, pod(given=None)),
        (5, pod(ready=5)),
        (15, pod(ready=5, wanted="1m")),  # is to sleep, and has its CPU still
        (16, pod(ready=5, wanted="1m", given="1m")),
        (25, pod(ready=5, given="1m")),  # is to wake, and the kubelet has no room yet
        (27, pod(ready=5)),
        (37, pod(ready=5, deletionTimestamp=stamp(67))),
        (60, pod(deletionTimestamp=stamp(67))),
    ]
    for at, seen in events:
        lives.see([seen], BEGAN + at)
    assert lives.running
    lives.see([], BEGAN + 70)
    assert not lives.running
    (spans,) = lives.spans(BEGAN + 100)
    found = [(one.state, one.began - BEGAN, one.ended - BEGAN, round(one.vcpu, 3)) for one in spans]
    assert found == [
        ("starting", 0, 5, 0.225),
        ("awake", 5, 16, 0.225),
        ("asleep", 16, 25, 0.026),
        ("asleep", 25, 27, 0.225),
        ("awake", 27, 37, 0.225),
        ("draining", 37, 70, 0.225),
    ]
    sums = vcpu_seconds([spans])
    assert sums == pytest.approx(
        {"starting": 1.125, "awake": 21 * 0.225, "asleep": 9 * 0.026 + 2 * 0.225, "draining": 33 * 0.225}
    )
    assert lives.gigabyte_seconds(BEGAN + 100) == pytest.approx(35)


def test_a_pod_that_is_met_late_has_its_past() -> None:
    lives = PodLives()
    lives.see([pod(ready=4, wanted="1m", given="1m")], BEGAN + 10)
    (spans,) = lives.spans(BEGAN + 12)
    assert [(one.state, one.seconds) for one in spans] == [("starting", 4), ("awake", 6), ("asleep", 2)]


def test_pods_on_no_node_are_not_counted_and_ended_ones_no_more() -> None:
    lives = PodLives()
    ended = pod("b", ready=1)
    lives.see([pod("a", bound=None), ended], BEGAN + 5)
    ended["status"]["phase"] = "Failed"
    lives.see([pod("a", bound=None), ended], BEGAN + 7)
    (spans,) = lives.spans(BEGAN + 50)
    assert spans[-1].ended == BEGAN + 7


def test_a_pod_that_is_not_ready_for_a_moment_does_not_start_again() -> None:
    lives = PodLives()
    for at, ready in ((1, None), (3, 3), (9, None), (12, 12)):
        lives.see([pod(ready=ready)], BEGAN + at)
    (spans,) = lives.spans(BEGAN + 20)
    assert [one.state for one in spans] == ["starting", "awake"]


@pytest.mark.parametrize(
    ("changes", "vcpu", "sleeps"),
    [
        ({}, 0.225, False),
        ({"given": None}, 0.225, False),
        ({"wanted": "1m", "given": "1m"}, 0.026, True),
        ({"wanted": "1m", "given": "200m", "allocated": "1m"}, 0.225, False),
        ({"wanted": "200m", "given": "1m"}, 0.225, True),
        ({"wanted": "200m", "given": "1m", "allocated": "200m"}, 0.225, False),
    ],
    ids=["awake", "new", "asleep", "falling asleep", "deferred", "waking"],
)
def test_requests_count_as_the_scheduler_counts_them(
    changes: dict[str, Any], vcpu: float, sleeps: bool
) -> None:
    assert cpu_of(pod(**changes)) == pytest.approx(vcpu)
    assert asleep(pod(**changes)) is sleeps
