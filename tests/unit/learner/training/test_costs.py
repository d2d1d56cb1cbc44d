"""What rounds cost under each pricing model, against the formulas by hand."""

import json
from pathlib import Path

import pytest

from learner_support import job
from nitro_api import Ledger
from nitro_learner.training.costs import Meter

BILLED = [2.5, 2.5, 3.0]
INVOCATIONS = 8.0 * 1.66667e-5 + 3 * 2e-7


def test_machines_are_paid_by_wall_time_independent_of_the_actors(tmp_path: Path) -> None:
    pricing = job("paper", pricing__model="vm").spec.pricing
    assert pricing.vm_count == 4, "64 actors, 16 to a machine"
    with Ledger(tmp_path / "ledger.jsonl") as ledger:
        meter = Meter(ledger, pricing)
        meter.round(1, 20.0, BILLED, 3)
        own = meter.round(2, 40.0, BILLED * 10, 30)
        assert own.learner == pytest.approx(40 * 3.06 / 3600)
        total = meter.total
        assert total.learner == pytest.approx(60 * 3.06 / 3600)
        assert total.actors == pytest.approx(60 * 4 * 0.68 / 3600)
    first = json.loads((tmp_path / "ledger.jsonl").read_text().splitlines()[0])
    assert first["details"]["invocationDollars"] == pytest.approx(INVOCATIONS)


def test_pods_are_metered_but_not_paid_when_machines_are_paid(tmp_path: Path) -> None:
    pricing = job("paper", pricing__model="vm").spec.pricing
    with Ledger(tmp_path / "ledger.jsonl") as ledger:
        cost = Meter(ledger, pricing, lambda: 100.0).round(1, 20.0, BILLED, 3)
        details = ledger.entries[0].details
    assert cost.actors == pytest.approx(20 * 4 * 0.68 / 3600)
    assert details["podSeconds"] == 100.0
    assert details["invocationDollars"] == pytest.approx(INVOCATIONS)


def test_without_a_pricing_model_invocations_are_paid(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.jsonl") as ledger:
        cost = Meter(ledger, job("paper").spec.pricing).round(1, 20.0, BILLED, 3)
        assert "invocationDollars" not in ledger.entries[0].details
    assert cost.actors == pytest.approx(INVOCATIONS)


def test_sandboxes_that_are_kept_ready_are_paid_for_the_whole_round(tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.jsonl") as ledger:
        meter = Meter(ledger, job("paper").spec.pricing, provisioned=lambda: 64)
        idle = meter.round(1, 3600.0, [], 0)
        assert idle.actors == pytest.approx(0.96, rel=1e-3), "64 GB for an hour: nitro-spec, section 6"
        busy = meter.round(2, 20.0, BILLED, 3)
        assert ledger.entries[1].details["provisioned"] == 64
        waves = meter.round(3, 20.0, BILLED * 40, 120, at_once=64)
        assert waves.actors == pytest.approx(40 * 8.0 * 9.7222e-6 + 120 * 2e-7 + 20.0 * 64 * 4.1667e-6)
    # Invocations under provisioned concurrency have their own, lower price.
    expected = 8.0 * 9.7222e-6 + 3 * 2e-7 + 20.0 * 64 * 4.1667e-6
    assert busy.actors == pytest.approx(expected)


@pytest.mark.parametrize(
    ("settings", "machines"),
    [
        ({"scaling__scaler": "fixed", "scaling__initialActors": 16}, 1),
        ({"scaling__scaler": "fixed", "scaling__initialActors": 17}, 2),
        ({"scaling__maxActors": 16}, 1),
        ({"scaling__maxActors": 100}, 7),
        ({"pricing__vmCount": 1}, 1),
    ],
    ids=str,
)
def test_machines_host_the_largest_round(settings: dict[str, object], machines: int) -> None:
    assert job("paper", **settings).spec.pricing.vm_count == machines


def test_a_pod_of_several_actors_costs_so_many_times_one(tmp_path: Path) -> None:
    pricing = job("paper").spec.pricing
    with Ledger(tmp_path / "ledger.jsonl") as ledger:
        one = Meter(ledger, pricing, lambda: 100.0).round(1, 20.0, BILLED, 3)
    with Ledger(tmp_path / "shared.jsonl") as ledger:
        eight = Meter(ledger, pricing, lambda: 100.0, per_pod=8).round(1, 20.0, BILLED, 3)
    assert eight.actors == pytest.approx(8 * one.actors)
    assert eight.learner == one.learner


def test_paid_and_busy_seconds_go_on_after_a_restart(tmp_path: Path) -> None:
    pricing = job("paper").spec.pricing
    for seconds in (100.0, 160.0):
        with Ledger(tmp_path / "ledger.jsonl") as ledger:
            meter = Meter(ledger, pricing, lambda seconds=seconds: seconds)
            meter.round(1, 20.0, BILLED, 3)
    assert meter.work.seconds == pytest.approx(2 * sum(BILLED))
    assert meter.work.invocations == 2 * len(BILLED)
    assert meter.pod_seconds == 160.0
    with Ledger(tmp_path / "local.jsonl") as ledger:
        assert Meter(ledger, pricing).pod_seconds is None
