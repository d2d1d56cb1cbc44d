"""What the operator remembers of a job between two reconciles."""

from __future__ import annotations

import pytest

from nitro_operator.kube.decoding import SPEC_LEVELS, decode
from nitro_operator.observation.metering import PodMeter
from nitro_operator.reconcile.memory import JobMemory, RequestClock
from operator_objects import CONFIG, make_job


def test_only_a_request_that_was_observed_to_change_is_timed() -> None:
    clock = RequestClock()
    clock.see(make_job({"training": {"requestedActors": 4}}), 1.0)
    assert clock.answered(2.0) is None
    clock.see(make_job({"training": {"requestedActors": 6}}), 3.0)
    clock.see(make_job({"training": {"requestedActors": 6, "round": 2}}), 4.0)
    assert clock.answered(5.0) == 2.0
    assert clock.answered(6.0) is None


@pytest.mark.parametrize("deep", [SPEC_LEVELS, 150, 300, 10_000])
def test_a_spec_that_is_too_deep_is_invalid_and_names_the_field(deep: int) -> None:
    kwargs = {"deep": decode(b"[" * deep + b"]" * deep)}
    memory = JobMemory("uid", PodMeter())
    memory.read(make_job(environment={"id": "Hopper-v5", "kwargs": kwargs}), CONFIG)
    assert memory.view is None
    assert memory.invalid is not None
    assert "spec.environment.kwargs" in memory.invalid
