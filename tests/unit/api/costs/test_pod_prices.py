"""Price lists of pods: what fills the two prices, what a pod costs by them, and what is refused."""

from __future__ import annotations

import re
from typing import Any

import pytest

from docs_support import ROOT
from nitro_api import JobInvalid, NitroTrainingJob, load_job, resolve, warnings
from nitro_api.costs.pod_prices import AUTOPILOT, CPU_SHARE, FARGATE, NODE, POD_PRICES, pod_vcpu
from nitro_api.costs.pod_use import PodUse
from nitro_api.costs.prices import pod_cost
from nitro_api.spec.pricing import Pricing

JOB = """\
apiVersion: nitro.dev/v1alpha1
kind: NitroTrainingJob
metadata: {name: hopper}
spec:
  environment: {id: Hopper-v5}
"""
AWAKE, ASLEEP = 0.275, 0.026
"""vCPU of a pod of the default size."""


def job(*changes: str) -> NitroTrainingJob:
    return load_job(JOB, changes)


def prices(*settings: str) -> Pricing:
    return resolve(job(*settings)).spec.pricing


def test_a_stored_job_keeps_its_total_where_no_pod_sleeps() -> None:
    """A price of memory alone is that of an awake pod, whatever CPU it requests."""
    for given in (prices(), prices("spec.pricing.podGBSecond=2e-5"), prices("spec.pricing.pods=lambda-like")):
        before = 1234.5 * given.pod_gb_second
        assert pod_cost(given, 1234.5) == before
        assert pod_cost(given, 1234.5, 99.0) == before
        use = PodUse(1234.5, {"awake": 321.0, "asleep": 0.0}, AWAKE)
        assert use.dollars(given, slept=False) == before
        assert PodUse(1234.5).dollars(given, slept=False) == before, "an older operator's"


def test_of_a_price_of_memory_alone_the_part_that_is_cpu_is_saved_by_sleep() -> None:
    """A sandbox of Lambda with one vCPU has 1,769 MB, and so much of it is CPU at Fargate's prices."""
    cpu, memory = FARGATE.vcpu_hour, FARGATE.gb_hour * 1769 / 1024
    assert CPU_SHARE == 0.84 == round(cpu / (cpu + memory), 2)
    given, seconds = prices("spec.pricing.actorMemoryGB=2"), 1000.0
    slept = PodUse(seconds, {"asleep": seconds * ASLEEP}, AWAKE, per_pod=4).dollars(given, slept=True)
    assert slept == pytest.approx(seconds * 8 * given.pod_gb_second * (0.16 + 0.84 * ASLEEP / AWAKE))
    awake = PodUse(seconds, {"awake": seconds * AWAKE}, AWAKE, per_pod=4)
    assert awake.dollars(given, slept=True) == pytest.approx(awake.dollars(given, slept=False))


def test_parts_of_a_use_cost_together_what_the_whole_costs() -> None:
    whole = PodUse(100.0, {"awake": 20.0, "asleep": 1.0, "starting": 1.0, "draining": 0.5}, AWAKE)
    half = PodUse(30.0, {"awake": 6.0, "asleep": 0.9, "starting": 1.0}, AWAKE)
    for given in (prices(), prices("spec.pricing.pods=autopilot")):
        parts = [half.dollars(given, slept=True), whole.since(half).dollars(given, slept=True)]
        assert sum(parts) == pytest.approx(whole.dollars(given, slept=True))
    assert PodUse(1.0, {"awake": 1.0}).at_least(half) == PodUse(30.0, half.vcpu_seconds)


@pytest.mark.parametrize("name", POD_PRICES)
def test_a_list_fills_both_prices_and_each_may_be_given(name: str) -> None:
    listed = POD_PRICES[name]
    found = prices(f"spec.pricing.pods={name}")
    assert (found.pod_vcpu_second, found.pod_gb_second) == (listed.vcpu_second, listed.gb_second)
    assert pod_cost(found, 7200.0, 3600.0) == pytest.approx(2 * listed.gb_hour + listed.vcpu_hour)
    own = prices(f"spec.pricing={{pods: {name}, podVCPUSecond: 3e-5}}")
    assert (own.pod_vcpu_second, own.pod_gb_second) == (3e-5, listed.gb_second)
    own = prices(f"spec.pricing={{pods: {name}, podGBSecond: 3e-5}}")
    assert (own.pod_vcpu_second, own.pod_gb_second) == (listed.vcpu_second, 3e-5)
    assert resolve(resolve(job(f"spec.pricing.pods={name}"))) == resolve(job(f"spec.pricing.pods={name}"))


def test_two_given_prices_need_no_list() -> None:
    found = prices("spec.pricing={podGBSecond: 1e-6, podVCPUSecond: 1e-5}")
    assert pod_cost(found, 10.0, 100.0) == pytest.approx(1e-5 + 1e-3)


@pytest.mark.parametrize(
    ("resources", "memory"),
    [
        ("{}", 0.5),
        ("{requests: {memory: 512Mi}, limits: {memory: 2Gi}}", 0.5),
        ("{limits: {memory: 2Gi}}", 2.0),
    ],
)
def test_providers_count_requested_memory(resources: str, memory: float) -> None:
    assert (
        prices("spec.pricing.pods=autopilot", f"spec.actor.resources={resources}").actor_memory_gb == memory
    )


def test_a_node_is_divided_without_a_rest() -> None:
    assert 16 * NODE.vcpu_hour + 32 * NODE.gb_hour == pytest.approx(0.68)
    assert NODE.vcpu_hour / NODE.gb_hour == pytest.approx(FARGATE.vcpu_hour / FARGATE.gb_hour)


@pytest.mark.parametrize(
    ("settings", "field", "sentence"),
    [
        ("{pods: autopilot, model: vm}", "pods", "excludes model: vm, which pays machines"),
        ("{podVCPUSecond: 1e-5}", "podVCPUSecond", "is only allowed beside podGBSecond"),
        ("{pods: lambda-like, podVCPUSecond: 1e-5}", "podVCPUSecond", "is only allowed beside podGBSecond"),
        ("{pods: gke}", "pods", "lambda-like"),
        ("{pods: node, podGBSecond: -1}", "podGBSecond", "must be a number from 0"),
    ],
)
def test_settings_that_contradict_are_refused(settings: str, field: str, sentence: str) -> None:
    with pytest.raises(JobInvalid) as refused:
        job(f"spec.pricing={settings}")
    assert [mistake.path for mistake in refused.value.errors] == [f"spec.pricing.{field}"]
    assert sentence in str(refused.value)


def test_invocations_have_no_list_of_pods() -> None:
    function = "spec.backend={type: Lambda, lambda: {manage: false, functionName: f, region: us-east-2}}"
    with pytest.raises(JobInvalid, match=r"is only allowed without backend\.type: Lambda"):
        job(function, "spec.pricing.pods=fargate")
    assert job(function, "spec.pricing.pods=lambda-like").spec.pricing.pods == "lambda-like"


def told(*settings: str) -> list[str]:
    return [one for one in warnings(job(*settings)) if "spec.pricing.pods" in one]


def test_a_pod_of_which_a_provider_counts_more_is_named() -> None:
    small = told("spec.pricing.pods=autopilot", "spec.actor.resources={requests: {cpu: 100m, memory: 2Gi}}")
    assert "0.125 vCPU and 2 GB as at least 0.308 vCPU and 2 GB" in small[0]
    fargate = told("spec.pricing.pods=fargate")
    assert "0.275 vCPU and 0.5 GB as at least 0.275 vCPU and 0.75 GB" in fargate[0]
    assert told("spec.pricing.pods=autopilot") == []
    assert told("spec.pricing.pods=node", "spec.actor.resources={requests: {cpu: 10m}}") == []
    assert told() == []


def test_the_floors_are_those_of_the_providers() -> None:
    assert AUTOPILOT.counted(0.01, 0.01) == (0.05, 0.05)
    assert AUTOPILOT.counted(0.026, 1.0) == pytest.approx((1 / 6.5, 1.0))
    assert FARGATE.counted(0.1, 0.1) == (0.25, 0.5)
    assert FARGATE.counted(1.0, 8.0) == pytest.approx((8.25 / 8, 8.25))
    assert NODE.counted(0.01, 5.0) == (0.01, 5.0)


def test_an_awake_pod_requests_its_actors_and_knatives_container() -> None:
    assert pod_vcpu(job().spec.actor) == pytest.approx(AWAKE)
    shared = job("spec.actor={perPod: 8, resources: {limits: {cpu: 500m}}}").spec.actor
    assert pod_vcpu(shared) == pytest.approx(4.025)


def rows() -> dict[str, Any]:
    text = (ROOT / "docs" / "pricing.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| `([a-z-]+)` \| (.*) \|$", text, re.MULTILINE)
    return {name: cells.split(" | ") for name, cells in found if cells.count(" | ") == 5}


def test_the_page_has_the_lists_of_the_code() -> None:
    table = rows()
    assert set(table) == {"lambda-like", *POD_PRICES}
    for name, listed in POD_PRICES.items():
        vcpu, gb, where, read, counts, resized = table[name]
        assert (vcpu, gb) == (f"{listed.vcpu_hour:.5g}", f"{listed.gb_hour:.5g}")
        assert (where, read, resized) == (f"{listed.place}: {listed.source}", listed.read, listed.resized)
        for value, unit in ((listed.least_vcpu, "vCPU"), (listed.least_gb, "GB")):
            assert not value or f"{value:g} {unit}" in counts
        if listed.gb_per_vcpu is not None:
            assert "{:g} to {:g} GB".format(*listed.gb_per_vcpu) in counts
        if listed.extra_gb:
            assert f"{listed.extra_gb * 1024:g} MB" in counts
    assert f"{CPU_SHARE:.0%}".replace("%", " %") in table["lambda-like"][0]
