"""What the operator remembers of a job between two reconciles."""

from __future__ import annotations

import json
import tracemalloc
from dataclasses import replace

import pytest
from prometheus_client import generate_latest

from nitro_operator.kube.cache import Cache
from nitro_operator.kube.decoding import SPEC_LEVELS, decode
from nitro_operator.kube.kinds import TRAINING_JOB, JobKey, Object
from nitro_operator.observation.metering import PodMeter
from nitro_operator.reconcile.memory import JobMemory, RequestClock
from operator_objects import CONFIG, make_job
from operator_support import large_job


def test_labels_that_come_later_are_those_of_the_run() -> None:
    """As Kueue's queue: labels change without a new generation of the spec."""
    job = make_job()
    job["metadata"]["generation"] = 1
    memory = JobMemory("uid", PodMeter())
    memory.read(job, CONFIG)
    labels = {"kueue.x-k8s.io/queue-name": "training"}
    memory.read({**job, "metadata": job["metadata"] | {"labels": labels}}, CONFIG)
    assert memory.view is not None
    assert memory.view.job["metadata"]["labels"] == labels


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


@pytest.mark.parametrize("block", ["scaling", "algorithm", "network"])
def test_other_code_of_ones_own_is_refused_where_the_platform_forbids_entry_points(block: str) -> None:
    job = make_job(**{block: {"entryPoint": "os:system"}})
    memory = JobMemory("uid", PodMeter())
    memory.read(job, replace(CONFIG, entry_points=False))
    assert memory.not_allowed is not None
    assert memory.not_allowed.reason == "EntryPointForbidden"
    assert memory.not_allowed.message.startswith(f"spec.{block}.entryPoint: 'os:system' names a module")
    allowed = JobMemory("uid", PodMeter())
    allowed.read(job, CONFIG)
    assert (allowed.not_allowed, allowed.invalid) == (None, None)


def test_a_large_job_needs_little_more_memory_than_it_has_bytes() -> None:
    """Parsed by Python, a byte of such a job needs seven. tests/benchmarks/bench_stored_jobs.py measures the
    whole operator beside thousands of them."""
    count, cache, memories = 4, Cache(), []
    texts = [json.dumps(stored_form(large_job(f"job-{number}", 200))).encode() for number in range(count)]
    warm = decode(texts[0])
    JobMemory("u", PodMeter()).read(warm, CONFIG)  # the models and the schema are loaded by the first job
    del warm
    tracemalloc.start()
    for text in texts:
        job = decode(text)
        cache.put(TRAINING_JOB, job)
        memories.append(JobMemory(job["metadata"]["uid"], PodMeter()))
        memories[-1].read(dict(cache.jobs())[JobKey("team", job["metadata"]["name"])], CONFIG)
        assert memories[-1].invalid is None
    del job
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 2 * sum(map(len, texts))


def stored_form(job: Object) -> Object:
    meta = make_job()["metadata"]
    return {**job, "metadata": {**meta, **job["metadata"], "uid": job["metadata"]["name"]}}


def test_the_memory_of_the_process_is_among_the_metrics() -> None:
    assert b"\nprocess_resident_memory_bytes " in generate_latest()


def test_a_spec_that_the_operator_fails_to_read_is_invalid_and_harms_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_: Object) -> None:
        raise OverflowError("cannot convert float infinity to integer")

    monkeypatch.setattr("nitro_operator.reconcile.memory.resolve_stored", fail)
    memory = JobMemory("uid", PodMeter())
    memory.read(make_job(), CONFIG)
    assert memory.invalid is not None
    assert "OverflowError" in memory.invalid
