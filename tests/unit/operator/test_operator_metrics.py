"""What the operator tells of jobs and of itself: series per namespace and job, gone with the job."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from operator_objects import make_job
from prometheus_client import REGISTRY, generate_latest

from nitro_operator.kinds import JobKey, Object
from nitro_operator.metrics import Health
from nitro_operator.summary import JobSummary

STATUS: Object = {
    "phase": "Running",
    "training": {
        "round": 3,
        "envSteps": 4096,
        "rewardMean": 12.5,
        "boostingScore": 0.25,
        "updatedAt": "2026-01-01T00:00:10.5Z",
    },
    "actors": {"requested": 8, "granted": 6, "ready": 5, "podSeconds": 100.5},
    "cost": {"learner": 0.5, "actors": 0.25, "total": 0.75},
}


@pytest.fixture
def jobs() -> Iterator[dict[JobKey, Object]]:
    """Jobs that a JobSummary tells of."""
    found: dict[JobKey, Object] = {}
    summary = JobSummary(lambda: found.items())
    yield found
    summary.close()


def value(name: str, namespace: str = "team", **labels: str) -> float | None:
    return REGISTRY.get_sample_value(name, {"namespace": namespace, "job_name": "hopper", **labels})


def test_a_job_is_told_from_its_status_and_spec(jobs: dict[JobKey, Object]) -> None:
    jobs[JobKey("team", "hopper")] = make_job(STATUS, stop={"rounds": 10, "budgetDollars": 1})
    assert value("nitro_job_status_round") == 3
    assert value("nitro_job_status_actors_ready") == 5
    assert value("nitro_job_status_heartbeat_timestamp_seconds") == 1767225610.5
    assert value("nitro_job_status_pod_seconds_total") == 100.5
    assert value("nitro_job_status_cost_dollars_total", component="actors") == 0.25
    assert value("nitro_job_status_phase", phase="Running") == 1
    assert value("nitro_job_spec_budget_dollars") == 1
    assert REGISTRY.get_sample_value("nitro_jobs", {"phase": "Running"}) == 1
    assert REGISTRY.get_sample_value("nitro_jobs", {"phase": "Failed"}) == 0


def test_what_a_job_does_not_have_has_no_series(jobs: dict[JobKey, Object]) -> None:
    jobs[JobKey("team", "hopper")] = make_job()
    assert value("nitro_job_status_phase", phase="Pending") == 1
    assert value("nitro_job_status_evaluation_mean") is None
    assert value("nitro_job_status_cost_dollars_total", component="learner") is None
    assert value("nitro_job_spec_target_reward") is None


def test_two_jobs_of_one_name_are_told_apart(jobs: dict[JobKey, Object]) -> None:
    other = STATUS | {"training": {"round": 7}}
    jobs[JobKey("team", "hopper")] = make_job(STATUS)
    jobs[JobKey("rivals", "hopper")] = make_job(other)
    assert (value("nitro_job_status_round"), value("nitro_job_status_round", "rivals")) == (3, 7)


def test_the_series_of_a_deleted_job_go(jobs: dict[JobKey, Object]) -> None:
    jobs[JobKey("team", "hopper")] = make_job(STATUS)
    assert 'job_name="hopper"' in generate_latest().decode()
    del jobs[JobKey("team", "hopper")]
    assert 'job_name="hopper"' not in generate_latest().decode()


def test_the_operators_health_is_read_at_the_scrape() -> None:
    resynced = [10.0]
    health = Health(lambda: resynced[0], lambda: 2, lambda: 0.5)
    try:
        assert REGISTRY.get_sample_value("nitro_operator_resync_timestamp_seconds") == 10
        resynced[0] = 30.0
        assert REGISTRY.get_sample_value("nitro_operator_resync_timestamp_seconds") == 30
        assert REGISTRY.get_sample_value("nitro_operator_queued_jobs") == 2
        assert REGISTRY.get_sample_value("nitro_operator_longest_reconcile_seconds") == 0.5
    finally:
        health.close()
