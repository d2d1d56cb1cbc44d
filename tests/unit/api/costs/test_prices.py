"""Prices against the analytic sums."""

from __future__ import annotations

import pytest

from nitro_api.costs.prices import billed_seconds, learner_cost, pod_cost, serverless_cost, vm_cost
from nitro_api.spec.pricing import GivenPricing

PRICING = GivenPricing(pod_gb_second=1.66667e-5, actor_memory_gb=1.0, vm_count=1)


def test_the_vm_formula_over_a_run_equals_the_analytic_sum() -> None:
    rounds = [vm_cost(PRICING, 30.0 + k) for k in range(50)]
    assert sum(cost.total for cost in rounds) == pytest.approx(
        (50 * 30 + 49 * 25) / 3600 * (3.06 + 0.68), rel=1e-3
    )
    assert rounds[0].learner == pytest.approx(30 * 3.06 / 3600)


def test_actors_that_need_several_machines_pay_for_each() -> None:
    one, four = vm_cost(PRICING, 60.0), vm_cost(PRICING.model_copy(update={"vm_count": 4}), 60.0)
    assert four.actors == pytest.approx(4 * one.actors)
    assert four.learner == one.learner


def test_the_serverless_formula_over_a_run_equals_the_analytic_sum() -> None:
    total = sum(serverless_cost(PRICING, 20.0, [2.5] * actors).total for actors in (8, 64, 16))
    expected = 60 * 3.06 / 3600 + 88 * (2.5 * 1.66667e-5 + 2e-7)
    assert total == pytest.approx(expected, rel=1e-3)


def test_provisioned_concurrency_is_paid_idle_and_makes_invocations_cheaper() -> None:
    idle = serverless_cost(GivenPricing(actor_memory_gb=64.0), 3600.0, [], provisioned=1)
    assert idle.actors == pytest.approx(0.96, rel=1e-3)
    assert serverless_cost(PRICING, 3600.0, [], provisioned=64).actors == pytest.approx(0.96, rel=1e-3)
    some = serverless_cost(PRICING, 0.0, [1.0, 1.0, 1.0], provisioned=2).actors
    assert some == pytest.approx(2 * 9.7222e-6 + 1.66667e-5 + 3 * 2e-7)


@pytest.mark.parametrize(
    ("billed", "at_once", "cheap"),
    [
        ([1.0] * 6, 2, 6.0),  # three waves of two
        ([1.0] * 6, 1, 6.0),
        ([1.0] * 6, 3, 4.0),  # two waves of three, of which one is on demand
        ([1.0, 1.0, 4.0, 1.0, 1.0], 3, 4.0),  # the one on demand is busy
        ([3.0, 3.0, 1.0, 1.0, 1.0], 3, 6.0),  # the one on demand is free again first
    ],
)
def test_waves_run_under_the_provisioned_concurrency_that_is_free_again(
    billed: list[float], at_once: int, cheap: float
) -> None:
    found = serverless_cost(PRICING, 0.0, billed, provisioned=2, at_once=at_once).actors
    dear = sum(billed) - cheap
    assert found == pytest.approx(cheap * 9.7222e-6 + dear * 1.66667e-5 + len(billed) * 2e-7)


def test_pods_are_paid_by_their_life() -> None:
    assert pod_cost(GivenPricing(pod_gb_second=1e-5), 500.0) == pytest.approx(5e-3)
    assert learner_cost(PRICING, 3600.0) == 3.06


@pytest.mark.parametrize(
    ("duration", "billed"),
    [(0.0, 0.0), (0.0001, 0.001), (0.069, 0.069), (0.2, 0.2), (0.2001, 0.201), (1.9999999999, 2.0)],
)
def test_lambda_bills_whole_milliseconds(duration: float, billed: float) -> None:
    assert billed_seconds(duration) == pytest.approx(billed, abs=1e-12)


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf")])
def test_impossible_times_are_refused(wrong: float) -> None:
    for attempt in (
        lambda: vm_cost(PRICING, wrong),
        lambda: serverless_cost(PRICING, 1.0, [wrong]),
        lambda: pod_cost(PRICING, wrong),
    ):
        with pytest.raises(ValueError, match="must be finite and not negative"):
            attempt()
