"""The cost of a job when its last pod is gone."""

from __future__ import annotations

from typing import Any

import pytest

from nitro_operator.observation.metering import PodMeter
from nitro_operator.status.settlement import settled
from operator_objects import make_job, make_view

CPU = {"awake": 200.0, "asleep": 0.0, "starting": 10.0, "draining": 60.0}
CHARGED = {"learner": 1.0, "actors": 0.5, "total": 1.5, "podSeconds": 766.0, "vcpuSeconds": 200.0}
PRICE = 1.66667e-5


def correct(cost: dict[str, Any], meter: PodMeter, **spec: Any) -> dict[str, Any] | None:
    return settled(make_job({"cost": cost}), make_view(**spec), meter)


def test_what_the_pods_used_after_the_learner_looked_is_charged() -> None:
    """In a run that was measured the learner had charged 766 of 1,444 pod-seconds."""
    found = correct(CHARGED | {"estimated": 0.004}, PodMeter(1444.0, CPU, 0.275))
    assert found is not None
    rest = (1444 - 766) * PRICE
    assert found == {
        "actors": pytest.approx(0.5 + rest, abs=1e-6),
        "total": pytest.approx(1.5 + rest, abs=1e-6),
        "estimated": None,
        "podSeconds": 1444.0,
        "vcpuSeconds": 270.0,
    }
    after = CHARGED | {name: value for name, value in found.items() if value is not None}
    assert correct(after, PodMeter(1444.0, CPU, 0.275)) is None, "it is charged once"


def test_pods_that_drained_from_sleep_are_charged_their_memory_and_little_cpu() -> None:
    meter = PodMeter(1444.0, CPU | {"asleep": 5.0, "draining": 12.0}, 0.275)
    found = correct(CHARGED, meter)
    assert found is not None
    awake = 27.0 / 0.275
    assert found["actors"] == pytest.approx(0.5 + (678 * 0.16 + awake * 0.84) * PRICE, abs=2e-6)
    listed = correct(CHARGED, meter, pricing={"pods": "autopilot", "actorMemoryGB": 1.0})
    assert listed is not None
    assert listed["actors"] == pytest.approx(0.5 + (27 * 0.0445 + 678 * 0.0049225) / 3600, abs=1e-6)


def test_several_actors_in_a_pod_have_so_many_times_the_memory() -> None:
    found = correct(CHARGED, PodMeter(866.0, CPU, 0.275), actor={"perPod": 4})
    assert found is not None
    assert found["actors"] == pytest.approx(0.5 + 400 * PRICE, abs=1e-6)


def test_what_a_learner_has_charged_is_not_taken_back() -> None:
    found = correct(CHARGED | {"estimated": 0.1}, PodMeter(700.0, CPU, 0.275))
    assert found is not None
    assert (found["actors"], found["podSeconds"], found["estimated"]) == (0.5, 766.0, None)
    assert correct(CHARGED, PodMeter(700.0, CPU, 0.275)) is None


@pytest.mark.parametrize(
    ("cost", "spec"),
    [
        pytest.param({"actors": 1.0, "total": 2.0}, {}, id="an older learner"),
        pytest.param({}, {}, id="no learner"),
        pytest.param(CHARGED, {"pricing": {"model": "vm"}}, id="machines"),
        pytest.param(CHARGED, {"backend": {"type": "Local"}}, id="no pods"),
    ],
)
def test_only_a_learner_that_bills_by_pods_is_corrected(cost: dict[str, Any], spec: dict[str, Any]) -> None:
    assert correct(cost, PodMeter(1444.0, CPU, 0.275), **spec) is None


def test_a_cost_beyond_all_bounds_stays_one_that_the_status_takes() -> None:
    found = correct(CHARGED | {"actors": 1e12, "total": 1e12}, PodMeter(1444.0, CPU, 0.275))
    assert found is not None
    assert (found["actors"], found["total"]) == (1e12, 1e12)
