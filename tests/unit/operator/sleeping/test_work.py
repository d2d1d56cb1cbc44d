"""Which sleepers work all the same."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from nitro_api.pools.sleeping import Later, PoolNeed
from nitro_operator.kube.kinds import Object
from nitro_operator.sleeping.memory import Usage, WorkMemory
from operator_objects import actor_pod

START = datetime(2026, 1, 1, tzinfo=UTC)
POD_VCPU = 0.225
NONE = PoolNeed(0)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def asleep(name: str) -> Object:
    return actor_pod(name, cpu="1m", allocated="1m", in_force="1m")


def awake(name: str) -> Object:
    return actor_pod(name, cpu="200m", allocated="200m", in_force="200m")


def used(seconds: float, vcpu: float, *names: str) -> dict[str, Usage]:
    return {name: Usage(at(seconds), vcpu) for name in names or ("a",)}


@pytest.fixture
def memory() -> WorkMemory:
    """Of two sleepers."""
    found = WorkMemory()
    assert found.see([asleep("a"), asleep("b")], at(0))
    return found


def test_a_measurement_of_work_counts_since_the_one_before(memory: WorkMemory) -> None:
    assert memory.worked(used(5, 0.2, "a", "b"), POD_VCPU) == {}, "a part of it was before they slept"
    assert memory.worked(used(20, 0.2), POD_VCPU) == {"a": 15}
    assert memory.worked(used(20, 0.2), POD_VCPU) == {}, "the same again"
    assert memory.worked(used(80, 0.2, "a", "b"), POD_VCPU) == {"a": 60, "b": 75}
    assert memory.working == {"a", "b"}
    assert memory.worked(used(95, 0.003), POD_VCPU) == {}
    assert memory.working == {"b"}


def test_what_was_measured_before_a_sleep_does_not_count(memory: WorkMemory) -> None:
    for seconds in (-30, -15, 0, 10):
        assert memory.worked(used(seconds, 0.2), POD_VCPU) == {}
    memory.see([awake("a"), asleep("b")], at(12))
    assert memory.worked(used(25, 0.2), POD_VCPU) == {}, "it is awake"
    memory.see([asleep("a"), asleep("b")], at(30))
    assert memory.worked(used(25, 0.2), POD_VCPU) == {}
    assert memory.worked(used(40, 0.2), POD_VCPU) == {}
    assert memory.worked(used(55, 0.2), POD_VCPU) == {"a": 15}


@pytest.mark.parametrize(
    ("pod_vcpu", "idle", "working"), [(0.225, 0.022, 0.023), (0.05, 0.019, 0.02), (4.0, 0.39, 0.4)]
)
def test_a_tenth_of_an_awake_pods_cpu_is_work(
    memory: WorkMemory, pod_vcpu: float, idle: float, working: float
) -> None:
    memory.worked(used(5, 0.0), pod_vcpu)
    assert memory.worked(used(20, idle), pod_vcpu) == {}
    assert memory.worked(used(35, working), pod_vcpu) == {"a": 15}


def test_work_is_hidden_that_nobody_has_named_twice_in_a_row(memory: WorkMemory) -> None:
    worked = {"a": 15.0}
    memory.working = {"a"}
    assert not memory.is_hidden(worked, NONE, 0)
    assert not memory.is_hidden({}, NONE, 0), "nothing new was measured"
    assert memory.is_hidden(worked, NONE, 0)
    memory.working = set()
    assert not memory.is_hidden({}, NONE, 0)
    assert not memory.is_hidden(worked, NONE, 0), "it begins anew"


@pytest.mark.parametrize(
    ("need", "awake_pods", "hidden"),
    [
        pytest.param(PoolNeed(4), 4, True, id="more work than it says"),
        pytest.param(PoolNeed(4), 2, False, id="two wakes are refused"),
        pytest.param(PoolNeed(0, (), (Later(10, 4),)), 2, False, id="it needed four a moment ago"),
        pytest.param(PoolNeed(0, (), (Later(20, 4),)), 2, True, id="it has not needed four for long"),
        pytest.param(None, 0, False, id="it says nothing, so all are to be awake"),
    ],
)
def test_named_work_is_not_hidden(need: PoolNeed | None, awake_pods: int, hidden: bool) -> None:
    memory = WorkMemory()
    found = [memory.is_hidden({"a": 15.0}, need, awake_pods) for _ in range(2)]
    assert found == [False, hidden]


def test_pods_that_are_awake_or_start_are_not_looked_at() -> None:
    """A start needs CPU, whatever its pod requests."""
    starting = asleep("b")
    starting["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    assert not WorkMemory().see([awake("a"), starting], at(0))
