"""Pods with passwords of a deleted Secret: they are evicted, and what a refused eviction must not hold up."""

from __future__ import annotations

import pytest

from nitro_operator.kube.errors import ApiError
from nitro_operator.kube.kinds import POD
from nitro_operator.reconcile.job import Unfinished
from operator_objects import pod
from reconcile_bench import KEY, Bench, conditions_of

BUDGET = ApiError(429, "TooManyRequests", "Cannot evict pod", ["DisruptionBudget"])


def losing(monkeypatch: pytest.MonkeyPatch, **kept: ApiError) -> Bench:
    """A running job whose Secret is lost, with two actors. Each of its pods is older than the new Secret."""
    bench = Bench(monkeypatch, running=True)
    for name in ("one", "two"):
        bench.cache.put(POD, pod("actor", name=name))
    bench.kube.kept, bench.kube.made_at = kept, "2026-01-01T00:00:04Z"
    return bench


def made(bench: Bench) -> set[str]:
    return {one["kind"] for one in bench.kube.written}


async def test_pods_with_older_passwords_are_evicted(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = losing(monkeypatch)
    await bench.reconciler.reconcile(KEY)
    assert bench.kube.evicted == ["p", "one", "two"]


@pytest.mark.parametrize(
    ("blocked", "condition", "tried"),
    [("p", "LearnerReady", ["p", "one", "two"]), ("one", "ActorsReady", ["p", "one"])],
)
async def test_an_eviction_that_a_budget_blocks_is_told_and_holds_up_nothing(
    monkeypatch: pytest.MonkeyPatch, blocked: str, condition: str, tried: list[str]
) -> None:
    bench = losing(monkeypatch, **{blocked: BUDGET})
    for _ in range(2):
        bench.kube.evicted.clear()
        with pytest.raises(Unfinished, match=f"the pod {blocked} has passwords of a Secret"):
            await bench.reconciler.reconcile(KEY)
        assert bench.kube.evicted == tried, "it is tried again each time"
    assert {"Secret", "Role", "NetworkPolicy", "Service"} <= made(bench)
    said = conditions_of(bench)
    assert {one["type"] for one in said.values() if one["reason"] == "EvictionBlocked"} == {
        "Ready",
        condition,
    }
    bench.kube.kept.clear()
    await bench.reconciler.reconcile(KEY)
    assert conditions_of(bench)[condition]["reason"] != "EvictionBlocked"


async def test_an_eviction_that_fails_otherwise_ends_the_evictions_of_this_reconcile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each of the others could take as long, and the status has to be published."""
    bench = losing(monkeypatch, p=ApiError(0, "Unreachable", "TimeoutError()"))
    with pytest.raises(Unfinished, match="Pod p cannot be written now"):
        await bench.reconciler.reconcile(KEY)
    assert bench.kube.evicted == ["p"]
    assert {"Role", "NitroTrainingJob"} <= made(bench)
