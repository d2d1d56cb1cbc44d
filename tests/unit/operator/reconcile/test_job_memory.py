"""What the operator remembers of a job between two reconciles."""

from __future__ import annotations

from dataclasses import replace

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


def test_the_age_of_a_request() -> None:
    clock = RequestClock()
    assert clock.age(9.0) == 0.0
    for n in range(4):
        clock.see(make_job({"training": {"round": n // 2, "requestedAt": str(n // 2)}}), float(n))
    assert clock.age(5.5) == 3.5


@pytest.mark.parametrize("deep", [SPEC_LEVELS, 150, 300, 10_000])
def test_a_spec_that_is_too_deep_is_invalid_and_names_the_field(deep: int) -> None:
    kwargs = {"deep": decode(b"[" * deep + b"]" * deep)}
    memory = JobMemory("uid", PodMeter())
    memory.read(make_job(environment={"id": "Hopper-v5", "kwargs": kwargs}), CONFIG)
    assert memory.view is None
    assert memory.invalid is not None
    assert "spec.environment.kwargs" in memory.invalid


@pytest.mark.parametrize(
    ("environment", "field"),
    [
        ({"entryPoint": "os:system"}, "entryPoint: 'os:system'"),
        ({"entryPoint": "os:system", "id": "Hopper-v5"}, "entryPoint: 'os:system'"),
        ({"id": "my_package:Own-v0"}, "id: 'my_package:Own-v0'"),
        ({"id": "Hopper-v5"}, None),
        ({"id": "mpe2/simple_spread_v3"}, None),
    ],
)
def test_a_module_to_import_is_refused_where_the_platform_forbids_it(
    environment: dict[str, str], field: str | None
) -> None:
    several = {"algorithm": {"name": "ippo"}} if "/" in environment.get("id", "") else {}
    job = make_job(environment=environment, **several)
    memory = JobMemory("uid", PodMeter())
    memory.read(job, replace(CONFIG, entry_points=False))
    found = memory.not_allowed
    assert (found and found.message.startswith(f"spec.environment.{field} names")) == (field and True)
    allowed = JobMemory("uid", PodMeter())
    allowed.read(job, CONFIG)
    assert (allowed.not_allowed, allowed.invalid) == (None, None)
