"""Which pods sleep, wake and are replaced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nitro_operator.sleeping.plan import Plan, PodPhases, Target, first_to_go, pending, plan, restarts
from operator_objects import actor_pod

Object = dict[str, Any]
CPU = 0.2


def awake(name: str) -> Object:
    return actor_pod(name, cpu="200m", allocated="200m", in_force="200m")


def asleep(name: str) -> Object:
    return actor_pod(name, cpu="1m", allocated="1m", in_force="1m")


def waking(name: str, reason: str | None = None) -> Object:
    pod = actor_pod(name, cpu="200m", allocated="1m", in_force="1m")
    if reason is not None:
        condition = {"type": "PodResizePending", "status": "True", "reason": reason, "message": "no room"}
        pod["status"]["conditions"].append(condition)
    return pod


def planned(pods: Sequence[Object], target: int, working: int = 0, order: str = "", **late: float) -> Plan:
    found = Target(target, working, CPU, patience=40.0)
    return plan(PodPhases.of(pods, CPU), list(order), found, late)


def names(pods: Sequence[Object]) -> str:
    return "".join(pod["metadata"]["name"] for pod in pods)


def test_those_beyond_the_target_sleep_in_the_order_of_their_addresses() -> None:
    found = planned([awake("a"), awake("b"), awake("c")], 1, order="cab")
    assert (names(found.published), names(found.sleep), found.wake) == ("c", "ab", [])


def test_a_pod_that_woke_comes_after_those_that_were_there() -> None:
    assert names(planned([awake("a"), awake("b")], 2, order="b").published) == "ba"


def test_the_oldest_sleepers_wake_first_and_no_more_than_are_missing() -> None:
    pods = [asleep("a"), asleep("b"), asleep("c"), waking("d"), awake("e")]
    assert names(planned(pods, 4).wake) == "ab"
    assert names(planned(pods, 2).wake) == ""


def test_nothing_that_works_is_put_to_sleep() -> None:
    """The grant may have shrunk while the learner has work on more pods than it may use for new work."""
    found = planned([awake("a"), awake("b"), awake("c")], 1, working=2, order="abc")
    assert (names(found.published), names(found.sleep)) == ("a", "c")


def test_a_wake_that_is_not_needed_any_more_is_taken_back() -> None:
    found = planned([awake("a"), waking("b")], 1, order="a")
    assert names(found.sleep) == "b"


def test_a_wake_is_given_up_if_it_can_never_be_or_waits_too_long_for_a_pod_that_is_needed() -> None:
    pods = [awake("a"), waking("b", "Deferred"), waking("c", "Infeasible"), waking("d", "Deferred")]
    assert names(planned(pods, 4, working=4, b=41.0, d=3.0).replace) == "bc"
    assert names(planned(pods, 4, working=1, b=41.0, d=3.0).replace) == "", "nobody needs them yet"


def test_a_pod_with_another_request_is_left_alone() -> None:
    pods = [actor_pod("a", cpu="300m", allocated="300m", in_force="300m"), awake("b")]
    found = planned(pods, 0)
    assert (names(found.order), names(found.sleep)) == ("ab", "b")


def test_of_pods_that_go_the_sleepers_are_first_then_the_last_addresses() -> None:
    phases = PodPhases.of([awake("a"), asleep("b"), awake("c"), asleep("d")], CPU)
    assert names(first_to_go(phases, ["c", "a"], 4, 1)) == "dba"
    assert first_to_go(phases, ["c", "a"], 4, 4) == []


def starting(name: str, cpu: str = "200m") -> Object:
    pod = actor_pod(name, cpu=cpu)
    pod["status"]["conditions"] = []
    return pod


def test_pods_that_start_sleep_as_far_as_nobody_needs_them_and_wake_after_the_sleepers() -> None:
    pods = [awake("a"), starting("b"), starting("c"), starting("d", "1m"), starting("e", "1m")]
    assert names(planned(pods, 0).sleep) == "abc"
    assert names(planned(pods, 2).sleep) == "c", "one of those that start is needed, too"
    assert names(planned(pods, 3).wake) == ""
    assert names(planned(pods, 4).wake) == "d"
    assert names(planned([*pods, asleep("f")], 5).wake) == "fd"
    assert names(planned(pods, 5).published) == "a"


def test_pods_without_a_node_and_those_that_go_have_no_phase_nor_has_one_that_is_not_ready_for_a_moment() -> (
    None
):
    unplaced, going, worked = starting("a"), asleep("b"), starting("c")
    unplaced["spec"]["nodeName"] = None
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert PodPhases.of([unplaced, going, worked], CPU, been_ready={"c"}) == PodPhases()


def test_why_a_resize_waits_and_what_would_restart() -> None:
    assert pending(waking("a", "Deferred")) == ("Deferred", "no room")
    assert pending(awake("a")) is None
    pod = awake("a")
    assert not restarts(pod)
    pod["spec"]["containers"][0]["resizePolicy"] = [
        {"resourceName": "memory", "restartPolicy": "RestartContainer"},
        {"resourceName": "cpu", "restartPolicy": "NotRequired"},
    ]
    assert not restarts(pod)
    pod["spec"]["containers"][0]["resizePolicy"][1]["restartPolicy"] = "RestartContainer"
    assert restarts(pod)
