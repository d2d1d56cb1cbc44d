"""Jobs that end before their work is done: deleted ones that a finalizer holds, and suspended ones."""

from __future__ import annotations

from typing import Any

import pytest

from nitro_api.spec.lambda_backend import FINALIZER
from nitro_operator.builders import actor_service
from nitro_operator.kube.kinds import KNATIVE_SERVICE, LEARNER_JOB, POD, TRAINING_JOB
from operator_objects import learner_job, make_view, pod
from reconcile_bench import KEY, Bench, conditions_of, has_secret, reported

Object = dict[str, Any]
GONE = "2026-01-01T00:00:30Z"


def training(monkeypatch: pytest.MonkeyPatch, **metadata: Any) -> Bench:
    """A running job with two actors, of which the operator knows, and that has then been changed."""
    bench = Bench(running=True)
    monkeypatch.setattr("nitro_operator.reconcile.start.ensure_secret", has_secret)
    service = actor_service(make_view())
    service["metadata"] |= {"uid": "service", "resourceVersion": "1", "creationTimestamp": GONE}
    bench.cache.put(KNATIVE_SERVICE, service)
    for name in ("a", "b"):
        bench.cache.put(POD, pod("actor", name=name))
    change(bench, **metadata)
    return bench


def change(bench: Bench, version: int = 2, spec: Object | None = None, **metadata: Any) -> None:
    job = reported(version=version, **(spec or {}))
    job["metadata"] |= {"generation": version, **metadata}
    bench.kube.job = job
    bench.cache.put(TRAINING_JOB, job)


def remove(bench: Bench, *names: str) -> None:
    for name in names:
        bench.cache.remove(POD, pod("actor", name=name))


def status(bench: Bench) -> Object:
    """The whole status, as last published."""
    written = [one["status"] for one in bench.kube.written if "phase" in one.get("status", {})]
    found: Object = written[-1]
    return found


def pod_seconds(bench: Bench) -> float:
    found: float = status(bench)["actors"]["podSeconds"]
    return found


@pytest.mark.parametrize(
    ("finalizers", "warns"),
    [
        (["drill.example/x"], True),
        (["foregroundDeletion"], False),
        ([FINALIZER], False),
        ([FINALIZER, "drill.example/x"], True),
    ],
)
async def test_a_deleted_job_is_stopped_at_once_whoever_holds_it(
    monkeypatch: pytest.MonkeyPatch, finalizers: list[str], warns: bool
) -> None:
    bench = training(monkeypatch, deletionTimestamp=GONE, finalizers=finalizers)
    await bench.reconciler.reconcile(KEY)
    assert sorted(bench.kube.deleted) == ["Job", "Service"]
    assert (status(bench)["phase"], status(bench)["actors"]["granted"]) == ("Deleting", 0)
    said = conditions_of(bench)["Ready"]
    assert (said["status"], said["reason"]) == ("False", "Deleted")
    assert all(finalizer in said["message"] for finalizer in finalizers)
    assert "2 of the actors' pods are left: a, b." in said["message"]
    assert [one.reason for one in bench.told if one.warning] == (["Deleted"] if warns else [])
    assert bench.platform.held == 0


async def test_a_deleted_job_is_metered_until_its_pods_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = training(monkeypatch, deletionTimestamp=GONE, finalizers=["drill.example/x"])
    await bench.reconciler.reconcile(KEY)
    before = pod_seconds(bench)
    bench.cache.remove(LEARNER_JOB, learner_job(namespace="team", labels={"nitro.dev/job": "hopper"}))
    bench.cache.remove(POD, pod("learner"))
    for version, (seconds, name) in enumerate(((10, "a"), (30, "b")), start=3):
        bench.now = seconds
        remove(bench, name)
        change(bench, version, deletionTimestamp=GONE, finalizers=["drill.example/x"])
        await bench.reconciler.reconcile(KEY)
    assert pod_seconds(bench) == before + 10 + 30
    assert "Its learner and its actors are gone." in conditions_of(bench)["Ready"]["message"]


@pytest.mark.parametrize("condition", ["Complete", "Failed"])
async def test_a_deleted_job_that_has_ended_keeps_its_end(
    monkeypatch: pytest.MonkeyPatch, condition: str
) -> None:
    spec = {"ttlSecondsAfterFinished": 0}
    bench = training(monkeypatch)
    change(bench, 3, spec, deletionTimestamp=GONE, finalizers=["drill.example/x"])
    ended = learner_job(condition, namespace="team", resourceVersion="2", labels={"nitro.dev/job": "hopper"})
    bench.cache.put(LEARNER_JOB, ended)
    await bench.reconciler.reconcile(KEY)
    assert status(bench)["phase"] == {"Complete": "Succeeded", "Failed": "Failed"}[condition]
    assert "NitroTrainingJob" not in bench.kube.deleted, "it is deleted already"


async def test_a_job_that_is_deleted_without_its_children_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = training(monkeypatch, deletionTimestamp=GONE, finalizers=["orphan"])
    await bench.reconciler.reconcile(KEY)
    assert (bench.kube.deleted, bench.kube.written) == ([], [])


async def test_a_job_is_suspended_when_its_last_pod_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = training(monkeypatch)
    change(bench, 3, {"suspend": True})
    await bench.reconciler.reconcile(KEY)
    left = conditions_of(bench)["Suspended"]
    assert (left["status"], left["reason"]) == ("False", "Stopping")
    assert "the learner's pod is left: p." in left["message"]
    bench.cache.remove(LEARNER_JOB, learner_job(namespace="team", labels={"nitro.dev/job": "hopper"}))
    bench.cache.remove(POD, pod("learner"))
    for version, name, left in ((4, "a", 2), (5, "b", 1)):
        change(bench, version, {"suspend": True})
        await bench.reconciler.reconcile(KEY)
        assert status(bench)["phase"] == "Stopping"
        assert f"{left} of the actors' pods" in conditions_of(bench)["ActorsReady"]["message"]
        assert status(bench)["actors"]["ready"] == left
        remove(bench, name)
    change(bench, 6, {"suspend": True})
    await bench.reconciler.reconcile(KEY)
    assert status(bench)["phase"] == "Suspended"
    assert conditions_of(bench)["Suspended"]["status"] == "True"


async def test_a_pod_that_cannot_end_is_named_with_who_holds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = training(monkeypatch)
    held = pod("actor", name="a")
    held["metadata"] |= {"resourceVersion": "2", "deletionTimestamp": GONE, "finalizers": ["drill.example/p"]}
    held["spec"] = {"nodeName": "far"}
    bench.cache.put(POD, held)
    change(bench, 3, {"suspend": True})
    await bench.reconciler.reconcile(KEY)
    said = conditions_of(bench)["Suspended"]["message"]
    assert f"a (it has until {GONE}, held by drill.example/p; if node far is lost: kubectl delete" in said


async def test_many_pods_that_are_left_are_counted_and_few_named(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = training(monkeypatch)
    for number in range(200):
        bench.cache.put(POD, pod("actor", name=f"pod-{number:03}"))
    change(bench, 3, {"suspend": True})
    await bench.reconciler.reconcile(KEY)
    said = conditions_of(bench)["ActorsReady"]["message"]
    assert "202 of the actors' pods are left" in said
    assert "and 198 more" in said
    assert len(said) < 400


async def test_pods_are_counted_and_metered_while_a_reconcile_is_held_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = training(monkeypatch)
    await bench.reconciler.reconcile(KEY)
    before = pod_seconds(bench)
    bench.now = 10
    remove(bench, "a", "b")
    assert not bench.reconciler.noticed(KEY, held_back=True), "no reason to try before its time"
    bench.now = 60
    await bench.reconciler.reconcile(KEY)
    assert pod_seconds(bench) == before + 20


async def test_who_changes_or_deletes_a_job_waits_for_no_delay() -> None:
    bench = Bench(running=True)
    assert bench.reconciler.noticed(KEY), "it is new"
    await bench.reconciler.reconcile(KEY)
    assert not bench.reconciler.noticed(KEY)
    change(bench, 2, generation=1)
    assert not bench.reconciler.noticed(KEY), "its learner reports"
    change(bench, 3, {"suspend": True})
    assert bench.reconciler.noticed(KEY), "its spec has changed"
    await bench.reconciler.reconcile(KEY)
    assert not bench.reconciler.noticed(KEY)
    bench.cache.remove(TRAINING_JOB, bench.kube.job)
    assert bench.reconciler.noticed(KEY), "it is gone"


async def test_the_cost_is_corrected_once_when_the_last_pod_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    cost = {"learner": 1.0, "actors": 0.5, "total": 1.5, "podSeconds": 2.0, "estimated": 0.1}
    bench = training(monkeypatch)

    async def suspended(version: int, paid: Object) -> list[Object]:
        change(bench, version, {"suspend": True})
        for job in (bench.kube.job, bench.cache.job(KEY)):
            job["status"]["cost"] = paid
        before = len(bench.kube.written)
        await bench.reconciler.reconcile(KEY)
        merged = [one["status"] for one in bench.kube.written[before:] if "phase" not in one["status"]]
        return [one["cost"] for one in merged if "cost" in one]

    assert await suspended(3, cost) == [], "its pods are there"
    bench.cache.remove(LEARNER_JOB, learner_job(namespace="team", labels={"nitro.dev/job": "hopper"}))
    bench.cache.remove(POD, pod("learner"))
    remove(bench, "a")
    bench.now = 10
    assert await suspended(4, cost) == [], "one is left"
    remove(bench, "b")
    bench.now = 40
    (paid,) = await suspended(5, cost)
    total = pod_seconds(bench)
    assert paid["podSeconds"] == pytest.approx(total)
    assert paid["actors"] == pytest.approx(0.5 + (total - 2) * 1.66667e-5, abs=1e-6)
    assert paid["estimated"] is None
    assert await suspended(6, cost | {"podSeconds": paid["podSeconds"]}) != [], "the estimate is still told"
    kept = {name: value for name, value in (cost | paid).items() if value is not None}
    assert await suspended(7, kept) == []


async def test_pod_seconds_are_published_every_few_seconds_and_more_rarely_for_many_jobs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nitro_operator.reconcile.memory.random.uniform", lambda *_: 1.0)
    bench = training(monkeypatch)
    await bench.reconciler.reconcile(KEY)

    async def published(seconds: float) -> float | None:
        bench.now, before = seconds, len(bench.kube.written)
        await bench.reconciler.reconcile(KEY)
        written = [one["status"] for one in bench.kube.written[before:] if "phase" in one.get("status", {})]
        if not written:
            return None
        job = bench.cache.job(KEY)
        version = str(int(job["metadata"]["resourceVersion"]) + 1)
        metadata = job["metadata"] | {"resourceVersion": version}
        bench.kube.job = {**job, "metadata": metadata, "status": job["status"] | written[-1]}
        bench.cache.put(TRAINING_JOB, bench.kube.job)
        found: float = written[-1]["actors"]["podSeconds"]
        return found

    await published(0.0)
    first = await published(10.5)
    assert first is not None
    assert await published(15.0) is None
    assert await published(21.0) == pytest.approx(first + 2 * 10.5, abs=0.1)
    for number in range(149):
        name = f"other-{number}"
        job, actor = reported(), pod("actor", name=name)
        job["metadata"] |= {"name": name, "uid": name}
        actor["metadata"]["labels"] |= {"nitro.dev/job": name}
        bench.cache.put(TRAINING_JOB, job)
        bench.cache.put(POD, actor)
        bench.reconciler.noticed(KEY._replace(name=name), held_back=True)
    assert await published(40.0) is None, "150 jobs write five times a second together"
    assert await published(52.0) is not None
