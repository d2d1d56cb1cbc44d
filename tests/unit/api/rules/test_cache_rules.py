"""The memory of the Redis between learner and actors."""

from __future__ import annotations

from typing import Any

import pytest

from nitro_api import JobInvalid, load_job

JOB: dict[str, Any] = {
    "apiVersion": "nitro.dev/v1alpha1",
    "kind": "NitroTrainingJob",
    "metadata": {"name": "humanoid"},
    "spec": {
        "environment": {"id": "Humanoid-v5", "rolloutLength": 8192},
        "scaling": {"scaler": "nitro", "maxActors": 64},
        "backend": {"type": "Knative"},
    },
}


def job(memory: Any, **spec: Any) -> dict[str, Any]:
    return {**JOB, "spec": {**JOB["spec"], "cache": {"memory": memory}, **spec}}


def test_a_cache_that_cannot_hold_two_rounds_is_refused_with_what_it_needs() -> None:
    with pytest.raises(JobInvalid) as refused:
        load_job(job("512Mi"))
    (mistake,) = refused.value.errors
    assert mistake.path == "spec.cache.memory"
    assert "two rounds of 64 actors" in mistake.message
    assert "scaling.maxActors" in mistake.message


@pytest.mark.parametrize(
    "given",
    [
        job("1Gi"),
        job("512Mi", scaling={"scaler": "nitro", "maxActors": 16}),
        job("512Mi", scaling={"schedule": [4, 16], "scaler": "schedule"}),
        job("64Mi", environment={"id": "Humanoid-v5", "entryPoint": "mine:make", "rolloutLength": 8192}),
    ],
    ids=["enough", "fewer actors", "a schedule", "unknown shapes"],
)
def test_a_cache_that_may_hold_them_is_accepted(given: dict[str, Any]) -> None:
    load_job(given)


@pytest.mark.parametrize("memory", ["63Mi", 1, "-1Gi"])
def test_the_least_memory_of_a_redis(memory: Any) -> None:
    with pytest.raises(JobInvalid, match="must be at least 64Mi"):
        load_job(job(memory, scaling={"scaler": "nitro", "maxActors": 8}))


@pytest.mark.parametrize(
    ("resources", "path", "message"),
    [
        ({"limits": {"memory": "1Gi"}}, "limits.memory", "must be above the 1024Mi of its data"),
        ({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}, "requests", "must be at most the limits"),
        ({"limits": {"cpu": "-1"}}, "limits", "must not be negative"),
        ({"requests": {"mem": "1Gi"}}, "requests", "must name cpu, memory"),
    ],
)
def test_resources_that_its_container_cannot_have_are_refused(
    resources: dict[str, Any], path: str, message: str
) -> None:
    given = job("1Gi")
    given["spec"]["cache"]["resources"] = resources
    with pytest.raises(JobInvalid) as refused:
        load_job(given)
    (mistake,) = refused.value.errors
    assert mistake.path == f"spec.cache.resources.{path}"
    assert mistake.message.startswith(message)
