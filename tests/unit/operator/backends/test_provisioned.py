"""Provisioned concurrency by the holding rule: money in place of pod-seconds."""

from __future__ import annotations

import pytest

from nitro_api.pools.holding import Demand, Holding, PastRound, hold
from nitro_api.spec.pricing import GivenPricing, Pricing
from nitro_operator.backends import lambda_actors
from nitro_operator.backends.lambda_actors import provisioned_times

HELD = 64


def idle_for(seconds: float, pricing: Pricing, most: int = HELD) -> Holding:
    """What is held of 64 sandboxes that every round requested until so long ago."""
    past = [PastRound(HELD, 5.0)] * 12
    return hold(Demand(8, elapsed=seconds, past=past, most=most), HELD, provisioned_times(pricing))


def test_an_idle_sandbox_costs_as_much_in_a_cycle_as_a_cold_start() -> None:
    price = GivenPricing()
    times = provisioned_times(price)
    assert times.cycle * price.provisioned_gb_second == pytest.approx(times.start * price.lambda_gb_second)
    dear = GivenPricing(provisioned_gb_second=1.0)
    assert provisioned_times(dear).drain == 0


@pytest.mark.parametrize("cold_start", [0.1, 1, 3, 10])
def test_no_cold_start_that_aws_permits_holds_an_idle_sandbox_for_two_minutes(
    monkeypatch: pytest.MonkeyPatch, cold_start: float
) -> None:
    monkeypatch.setattr(lambda_actors, "COLD_START_SECONDS", cold_start)
    assert idle_for(0, GivenPricing()).actors == HELD
    assert idle_for(120, GivenPricing()) == Holding(8)


def test_sandboxes_that_are_free_while_idle_are_held_while_a_later_round_can_request_them() -> None:
    free = GivenPricing(provisioned_gb_second=0)
    assert idle_for(1e6, free) == Holding(HELD)
    assert idle_for(1e6, free, most=20) == Holding(20)
