"""The metrics of a job: series by namespace and name, removed with the job."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from prometheus_client import REGISTRY, generate_latest

from nitro_operator.kube.kinds import JobKey, Object
from nitro_operator.status.summary import JobSummary
from operator_objects import make_job

STATUS: Object = {
    "phase": "Running",
    "training": {
        "round": 3,
        "envSteps": 4096,
        "rewardMean": 12.5,
        "boostingScore": 0.25,
        "updatedAt": "2026-01-01T00:00:10.5Z",
    },
    "progress": {"percent": 37.5, "by": "rounds", "etaSeconds": 60},
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


def test_series_are_read_from_status_and_spec(jobs: dict[JobKey, Object]) -> None:
    jobs[JobKey("team", "hopper")] = make_job(STATUS, stop={"rounds": 10, "budgetDollars": 1})
    assert value("nitro_job_status_round") == 3
    assert value("nitro_job_progress_ratio") == 0.375
    assert value("nitro_job_status_actors_ready") == 5
    assert value("nitro_job_status_heartbeat_timestamp_seconds") == 1767225610.5
    assert value("nitro_job_status_pod_seconds_total") == 100.5
    assert value("nitro_job_status_cost_dollars_total", component="actors") == 0.25
    assert value("nitro_job_status_phase", phase="Running") == 1
    assert value("nitro_job_spec_budget_dollars") == 1
    assert REGISTRY.get_sample_value("nitro_jobs", {"phase": "Running"}) == 1
    assert REGISTRY.get_sample_value("nitro_jobs", {"phase": "Failed"}) == 0


def test_the_states_of_actors_are_series(jobs: dict[JobKey, Object]) -> None:
    states = {"awake": 4, "asleep": 2, "deferred": 1, "starting": 3, "draining": 5}
    vcpu = {"awake": 90.5, "asleep": 1.5, "starting": 4.5, "draining": 2.5}
    actors = {**states, "podVCPU": 1.025, "vcpuSeconds": vcpu}
    jobs[JobKey("team", "hopper")] = make_job({"training": {"needsNow": 4}, "actors": actors})
    for state, number in states.items():
        assert value(f"nitro_job_status_actors_{state}") == number
    for state, seconds in vcpu.items():
        assert value("nitro_job_status_vcpu_seconds_total", state=state) == seconds
    assert value("nitro_job_status_actors_needed") == 4
    assert value("nitro_job_status_pod_vcpu") == 1.025


@pytest.mark.parametrize(
    ("status", "scaling", "scaler"),
    [({"scaler": "fixed"}, {}, "fixed"), ({}, {"scaler": "kungfu"}, "kungfu"), ({}, {}, "")],
    ids=["the preset's", "the job's", "not known yet"],
)
def test_the_scaler_is_a_label(
    jobs: dict[JobKey, Object], status: Object, scaling: Object, scaler: str
) -> None:
    jobs[JobKey("team", "hopper")] = make_job(status, scaling=scaling)
    labels = {"environment": "Hopper-v5", "algorithm": "ppo", "scaler": scaler, "backend": "Knative"}
    spec = jobs[JobKey("team", "hopper")]["spec"]
    spec |= {"algorithm": {"name": "ppo"}, "backend": {"type": "Knative"}}
    assert value("nitro_job_info", **labels) == 1


@pytest.mark.parametrize(("spec", "actors"), [({}, 1), ({"actor": {}}, 1), ({"actor": {"perPod": 4}}, 4)])
def test_a_job_that_does_not_say_so_has_one_actor_in_a_pod(
    jobs: dict[JobKey, Object], spec: Object, actors: int
) -> None:
    jobs[JobKey("team", "hopper")] = make_job(**spec)
    assert value("nitro_job_spec_actors_per_pod") == actors


def test_absent_fields_have_no_series(jobs: dict[JobKey, Object]) -> None:
    jobs[JobKey("team", "hopper")] = make_job()
    assert value("nitro_job_status_phase", phase="Pending") == 1
    assert value("nitro_job_status_evaluation_mean") is None
    assert value("nitro_job_status_cost_dollars_total", component="learner") is None
    assert value("nitro_job_progress_ratio") is None
    assert value("nitro_job_spec_target_reward") is None


def test_jobs_of_one_name_in_two_namespaces_have_separate_series(jobs: dict[JobKey, Object]) -> None:
    other = STATUS | {"training": {"round": 7}}
    jobs[JobKey("team", "hopper")] = make_job(STATUS)
    jobs[JobKey("rivals", "hopper")] = make_job(other)
    assert (value("nitro_job_status_round"), value("nitro_job_status_round", "rivals")) == (3, 7)


def test_the_series_of_a_deleted_job_are_removed(jobs: dict[JobKey, Object]) -> None:
    jobs[JobKey("team", "hopper")] = make_job(STATUS)
    assert 'job_name="hopper"' in generate_latest().decode()
    del jobs[JobKey("team", "hopper")]
    assert 'job_name="hopper"' not in generate_latest().decode()


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("updatedAt", "2026-01-01T00:00:00+99:99"),
        ("updatedAt", 7),
        ("round", 1e308),
        ("round", -1),
        ("rewardMean", "high"),
        ("rewardMean", [[]]),
        ("envSteps", {"a": None}),
    ],
)
def test_an_invalid_value_has_no_series_and_is_counted(
    jobs: dict[JobKey, Object], field: str, bad: object
) -> None:
    series = {
        "updatedAt": "nitro_job_status_heartbeat_timestamp_seconds",
        "round": "nitro_job_status_round",
        "rewardMean": "nitro_job_status_reward_mean",
        "envSteps": "nitro_job_status_env_steps",
    }
    training = STATUS["training"] | {field: bad}
    jobs[JobKey("team", "hopper")] = make_job(STATUS | {"training": training})
    assert value("nitro_job_status_invalid") == 1
    assert [name for name in series if value(series[name]) is None] == [field]
    assert value("nitro_job_status_actors_ready") == 5
    jobs[JobKey("team", "hopper")] = make_job(STATUS)
    assert value("nitro_job_status_invalid") == 0
