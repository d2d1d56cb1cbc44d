"""What rounds cost under each pricing model, against the formulas by hand."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from learner_support import job
from nitro_api import Ledger
from nitro_api.costs.pod_use import STATES, PodUse
from nitro_api.spec.pricing import Pricing
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
        cost = Meter(ledger, pricing, lambda: PodUse(100.0)).round(1, 20.0, BILLED, 3)
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
        assert idle.actors == pytest.approx(0.96, rel=1e-3), "64 GB for an hour: the paper, section 8.1"
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
        one = Meter(ledger, pricing, lambda: PodUse(100.0)).round(1, 20.0, BILLED, 3)
    with Ledger(tmp_path / "shared.jsonl") as ledger:
        eight = Meter(ledger, pricing, lambda: PodUse(100.0, per_pod=8)).round(1, 20.0, BILLED, 3)
    assert eight.actors == pytest.approx(8 * one.actors)
    assert eight.learner == one.learner


def test_paid_and_busy_seconds_go_on_after_a_restart(tmp_path: Path) -> None:
    pricing = job("paper").spec.pricing
    for seconds in (100.0, 160.0):
        with Ledger(tmp_path / "ledger.jsonl") as ledger:
            meter = Meter(ledger, pricing, lambda seconds=seconds: PodUse(seconds))
            meter.round(1, 20.0, BILLED, 3)
    assert meter.work.seconds == pytest.approx(2 * sum(BILLED))
    assert meter.work.invocations == 2 * len(BILLED)
    assert meter.pods is not None
    assert meter.pods.seconds == 160.0
    with Ledger(tmp_path / "local.jsonl") as ledger:
        assert Meter(ledger, pricing).pods is None


class Pods:
    """Pods of 0.275 vCPU: what they have used so far, and what their drain will."""

    def __init__(self) -> None:
        self.seconds, self.cpu = 0.0, dict.fromkeys(STATES, 0.0)
        self.left: PodUse | None = None

    def use(self, seconds: float, **cpu: float) -> None:
        self.seconds += seconds
        self.cpu = {state: total + cpu.get(state, 0.0) for state, total in self.cpu.items()}

    def read(self) -> PodUse:
        return PodUse(self.seconds, dict(self.cpu), 0.275)

    def meter(self, ledger: Ledger, pricing: Pricing) -> Meter:
        return Meter(ledger, pricing, self.read, drain=lambda: self.left)


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line)["details"] for line in (folder / "ledger.jsonl").read_text().splitlines()]


def test_the_ledger_has_cpu_by_state_and_memory_of_each_round(tmp_path: Path) -> None:
    pricing, pods = job("paper", pricing__actorMemoryGB=2.0).spec.pricing, Pods()
    for _ in range(2):  # the second sitting goes on with the first one's totals
        with Ledger(tmp_path / "ledger.jsonl") as ledger:
            meter = pods.meter(ledger, pricing)
            pods.use(10.0, awake=2.0, starting=0.75)
            meter.round(1, 20.0, BILLED, 3)
            pods.use(4.0, asleep=0.1, draining=0.2)
            meter.round(2, 20.0, BILLED, 3)
    found = lines(tmp_path)
    assert [one["podSeconds"] for one in found] == [10.0, 14.0, 24.0, 28.0], "a running total"
    assert [one["roundPodSeconds"] for one in found] == [10.0, 4.0] * 2
    assert [one["roundGBSeconds"] for one in found] == [20.0, 8.0] * 2
    for one in found[::2]:
        assert one["roundVCPUSeconds"] == pytest.approx(
            {"awake": 2.0, "asleep": 0.0, "starting": 0.75, "draining": 0.0}
        )
    for one in found[1::2]:
        assert one["roundVCPUSeconds"] == pytest.approx(
            {"awake": 0.0, "asleep": 0.1, "starting": 0.0, "draining": 0.2}
        )


def test_a_run_whose_pods_never_slept_costs_what_it_always_did(tmp_path: Path) -> None:
    """To the bit, whatever CPU was measured."""
    pricing, pods = job("paper").spec.pricing, Pods()
    with Ledger(tmp_path / "ledger.jsonl") as ledger:
        meter = pods.meter(ledger, pricing)
        pods.use(123.4, awake=33.9, draining=0.1)
        awake = meter.round(1, 20.0, BILLED, 3).actors
        assert awake == 123.4 * 1.0 * pricing.lambda_gb_second
        pods.use(123.4, asleep=123.4 * 0.026)
        slept = meter.round(2, 20.0, BILLED, 3).actors
    assert slept == pytest.approx(awake * (0.16 + 0.84 * 0.026 / 0.275))


def test_the_drain_of_the_end_is_an_estimate_that_a_run_which_goes_on_does_not_pay_again(
    tmp_path: Path,
) -> None:
    pricing, pods = job("paper", pricing__pods="autopilot").spec.pricing, Pods()
    with Ledger(tmp_path / "ledger.jsonl") as ledger:
        meter = pods.meter(ledger, pricing)
        pods.use(100.0, awake=27.5)
        meter.round(1, 20.0, BILLED, 3)
        measured = meter.total.actors
        meter.leave()
        assert (meter.estimated, meter.left) == (0.0, 0.0), "nothing is known of a drain"
        pods.left = PodUse(30.0, {"draining": 8.25}, 0.275)
        meter.leave()
        expected = PodUse(30.0, {"draining": 8.25}, 0.275).dollars(pricing, slept=False)
        assert meter.estimated == pytest.approx(expected)
        assert meter.total.actors == pytest.approx(measured + expected)
        assert meter.pods == replace(pods.read(), pod_vcpu=0.275)
        assert meter.left == 30.0
    assert lines(tmp_path)[-1]["estimatedPodSeconds"] == 30.0
    pods.use(36.0, draining=9.9)
    pods.use(10.0, awake=2.75)
    with Ledger(tmp_path / "ledger.jsonl") as ledger:
        meter = pods.meter(ledger, pricing)
        assert meter.estimated > 0
        meter.round(2, 20.0, BILLED, 3)
        assert meter.estimated == 0.0
        assert meter.total.actors == pytest.approx(pods.read().dollars(pricing, slept=False))


def test_ledgers_and_operators_of_earlier_releases_stay_readable(tmp_path: Path) -> None:
    pricing = job("paper", pricing__pods="node").spec.pricing
    old = {"actors": 3, "seconds": 2.0, "invocations": 3, "billedSeconds": 3.0, "podSeconds": 40.0}
    line = {"round": 1, "learner": 0.1, "actors": 0.2, "details": old}
    (tmp_path / "ledger.jsonl").write_text(json.dumps(line) + "\n")
    with Ledger(tmp_path / "ledger.jsonl") as ledger:
        meter = Meter(ledger, pricing, lambda: PodUse(60.0), pod_vcpu=0.275)
        paid = meter.round(2, 20.0, BILLED, 3)
    assert paid.actors == pytest.approx(20 * (0.275 * pricing.pod_vcpu_second + pricing.pod_gb_second * 0.5))
    assert "roundVCPUSeconds" not in lines(tmp_path)[-1], "it was not measured"


def test_machines_have_no_drain(tmp_path: Path) -> None:
    pricing, pods = job("paper", pricing__model="vm").spec.pricing, Pods()
    pods.left = PodUse(30.0)
    with Ledger(tmp_path / "ledger.jsonl") as ledger:
        pods.meter(ledger, pricing).leave()
        assert ledger.entries == []


def test_a_job_that_is_made_anew_pays_for_its_pods_from_the_first_second(tmp_path: Path) -> None:
    """Its operator counts them from zero, and the ledger has those of the former job."""
    pricing = job("paper").spec.pricing
    for uid, totals in (("old", (600.0, 1000.0)), ("new", (40.0, 100.0)), ("new", (130.0,))):
        with Ledger(tmp_path / "ledger.jsonl") as ledger:
            for total in totals:
                meter = Meter(ledger, pricing, lambda total=total: PodUse(total), job=uid)
                meter.round(1, 20.0, BILLED, 3)
    assert [one["roundPodSeconds"] for one in lines(tmp_path)] == [600.0, 400.0, 40.0, 60.0, 30.0]
    assert meter.pods is not None
    assert (meter.pods.seconds, meter.paid_pod_seconds) == (130.0, 1130.0)
    assert meter.total.actors == pytest.approx(1130 * pricing.pod_gb_second)


def test_the_ledger_of_a_release_that_names_no_job_is_this_jobs(tmp_path: Path) -> None:
    pricing = job("paper").spec.pricing
    with Ledger(tmp_path / "ledger.jsonl") as ledger:
        Meter(ledger, pricing, lambda: PodUse(40.0)).round(1, 20.0, BILLED, 3)
        Meter(ledger, pricing, lambda: PodUse(60.0), job="u").round(2, 20.0, BILLED, 3)
    assert [one["roundPodSeconds"] for one in lines(tmp_path)] == [40.0, 20.0]
