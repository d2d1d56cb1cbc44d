"""Requests that the API server refuses: what must not wait for them, and what the job says of them."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from nitro_operator.backends.knative import scale_annotations
from nitro_operator.builders import actor_service
from nitro_operator.config import Config
from nitro_operator.kube.errors import ApiError
from nitro_operator.kube.kinds import (
    EVENT,
    KNATIVE_SERVICE,
    LEARNER_JOB,
    POD,
    REVISION,
    ROLE,
    TRAINING_JOB,
    Kind,
)
from nitro_operator.reconcile.job import Unfinished
from operator_objects import CONFIG, learner_job, make_view, pod
from reconcile_bench import GOING, KEY, Bench, conditions_of, has_secret, reported

Object = dict[str, Any]


def refusing(
    monkeypatch: pytest.MonkeyPatch, kind: Kind = REVISION, config: Config = CONFIG, **job: Any
) -> Bench:
    """A running job with three of its eight actors. Requests to one kind fail, as if a webhook were down."""
    bench = Bench(running=True, config=config)
    monkeypatch.setattr("nitro_operator.reconcile.start.ensure_secret", has_secret)
    changed = reported(version=2, **job)
    changed["status"]["startTime"] = "2026-01-01T00:00:00Z"
    bench.kube.job = changed
    bench.cache.put(TRAINING_JOB, changed)
    bench.has_revision(**scale_annotations(3))
    bench.kube.refused = {kind: ApiError(500, "InternalError", "failed calling webhook")}
    return bench


async def reconciled(bench: Bench) -> Object:
    """The status that a reconcile has published which is to be tried again."""
    with pytest.raises(Unfinished, match="tried again by itself"):
        await bench.reconciler.reconcile(KEY)
    written = [obj for obj in bench.kube.written if obj["kind"] == "NitroTrainingJob"]
    status: Object = written[-1]["status"]
    return status


@pytest.mark.parametrize(
    ("spec", "phase"),
    [
        ({"suspend": True}, "Stopping"),
        ({"environment": {"id": "my.module:make"}}, "Stopping"),  # which the platform forbids
        ({"activeDeadlineSeconds": 1}, "Failed"),
    ],
)
async def test_a_learner_that_must_end_is_deleted_all_the_same(
    monkeypatch: pytest.MonkeyPatch, spec: Object, phase: str
) -> None:
    bench = refusing(monkeypatch, config=dataclasses.replace(CONFIG, entry_points=False), **spec)
    assert (await reconciled(bench))["phase"] == phase
    assert bench.kube.deleted == ["Job"]
    said = conditions_of(bench)["ActorsReady"]
    assert said["reason"] == "ApiUnavailable"
    assert "Revision hopper-actors-v1" in said["message"], "its actors still run"


async def test_a_finished_job_is_deleted_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = refusing(monkeypatch, ttlSecondsAfterFinished=1)
    done = learner_job("Complete", namespace="team", labels={"nitro.dev/job": "hopper"})
    bench.cache.put(LEARNER_JOB, done)
    bench.kube.job["status"]["completionTime"] = "2026-01-01T00:00:01Z"
    await reconciled(bench)
    assert bench.kube.deleted == ["NitroTrainingJob"]
    version = bench.kube.job["metadata"]["resourceVersion"]
    assert bench.kube.versions == [version], "a job that a user has just changed stays"


async def test_an_active_job_publishes_its_status_and_makes_what_it_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = refusing(monkeypatch)
    assert (await reconciled(bench))["actors"]["requested"] == 8
    assert conditions_of(bench)["ActorsReady"]["reason"] == "ApiUnavailable"
    assert "Role" in [obj["kind"] for obj in bench.kube.written]
    bench.kube.refused = {}
    await bench.reconciler.reconcile(KEY)
    assert conditions_of(bench)["ActorsReady"]["reason"] == "Serving"


WEBHOOK = 'failed calling webhook "hook.test": Post "https://10.0.0.9": read tcp 10.0.0.1:{}: reset by peer'


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ApiError(0, "Unreachable", "PATCH /x: TimeoutError()"), "or from a webhook that it asks"),
        (ApiError(500, "InternalError", WEBHOOK.format(51234)), "the webhook hook.test fails"),
    ],
)
@pytest.mark.parametrize(("kind", "condition"), [(REVISION, "ActorsReady"), (ROLE, "LearnerReady")])
async def test_an_active_job_publishes_its_status_while_a_webhook_hangs(
    monkeypatch: pytest.MonkeyPatch, kind: Kind, condition: str, error: ApiError, told: str
) -> None:
    """The children after one that took long are not written: each could take as long."""
    monkeypatch.setattr("nitro_operator.reconcile.apply.SLOW_SECONDS", 0.0)
    bench = refusing(monkeypatch)
    bench.kube.refused = {kind: error}
    assert (await reconciled(bench))["actors"]["requested"] == 8
    assert conditions_of(bench)[condition]["reason"] == "ApiUnavailable"
    assert told in conditions_of(bench)[condition]["message"]
    written = [obj["kind"] for obj in bench.kube.written]
    assert {"Revision", "Role"} <= set(written)
    assert ("RoleBinding" in written) == (kind is REVISION)
    bench.kube.refused = {}
    await bench.reconciler.reconcile(KEY)
    assert conditions_of(bench)[condition]["reason"] != "ApiUnavailable"


@pytest.mark.parametrize("spec", [{"suspend": True}, {"activeDeadlineSeconds": 1}])
async def test_a_job_whose_learner_cannot_be_deleted_now_publishes_its_status(
    monkeypatch: pytest.MonkeyPatch, spec: Object
) -> None:
    bench = refusing(monkeypatch, LEARNER_JOB, **spec)
    status = await reconciled(bench)
    assert status["phase"] == ("Stopping" if "suspend" in spec else "Failed")
    said = conditions_of(bench)["LearnerReady"]
    assert said["reason"] == "ApiUnavailable"
    assert "Job hopper-learner" in said["message"], "its learner still runs"
    bench.kube.job = reported(version=3, **spec) | {"status": status}
    bench.cache.put(TRAINING_JOB, bench.kube.job)
    bench.kube.written.clear()
    with pytest.raises(Unfinished, match="Job hopper-learner"):
        await bench.reconciler.reconcile(KEY)
    assert "NitroTrainingJob" not in [obj["kind"] for obj in bench.kube.written], "nothing is new"
    bench.kube.refused = {}
    await bench.reconciler.reconcile(KEY)
    assert bench.kube.deleted == ["Job"]


async def test_a_webhook_whose_message_names_another_port_each_time_changes_no_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = refusing(monkeypatch)
    told = []
    for port in (50001, 50002):
        bench.kube.refused = {REVISION: ApiError(500, "InternalError", WEBHOOK.format(port))}
        await reconciled(bench)
        told.append(conditions_of(bench)["ActorsReady"]["message"])
    assert told[0] == told[1]


async def test_a_denial_whose_words_change_at_each_try_is_rarely_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each write has an event, which begins the next try: the job would be written as fast as possible."""
    bench, seconds = refusing(monkeypatch), list[float]()
    for number in range(100):
        bench.now = number / 4
        denial = f'admission webhook "hook.test" denied the request: not allowed (request {number})'
        bench.kube.refused = {ROLE: ApiError(403, "Forbidden", denial)}
        bench.kube.written.clear()
        with pytest.raises(Unfinished, match=f"request {number}"):
            await bench.reconciler.reconcile(KEY)
        for written in bench.kube.written:
            if written["kind"] == TRAINING_JOB.kind:
                seconds.append(bench.now)
                said = conditions_of(bench)["LearnerReady"]
                assert (said["reason"], denial in said["message"]) == ("Forbidden", True)
                bench.kube.job = reported(version=3 + number)
                bench.kube.job["status"] |= written["status"]
                bench.cache.put(TRAINING_JOB, bench.kube.job)
    assert seconds == [0, 10, 20]
    bench.kube.refused = {ROLE: ApiError(422, "Invalid", "another cause")}
    with pytest.raises(Unfinished):
        await bench.reconciler.reconcile(KEY)
    assert conditions_of(bench)["LearnerReady"]["reason"] == "Refused", "another cause is written at once"


async def test_a_write_that_came_beside_another_is_no_taken_name(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = refusing(monkeypatch, suspend=True)
    bench.kube.refused = {REVISION: ApiError(409, "Conflict", "the object has been modified")}
    await reconciled(bench)
    assert conditions_of(bench)["ActorsReady"]["reason"] == "ApiUnavailable"


async def test_a_deadline_that_cannot_be_set_is_told_and_the_status_published(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = refusing(monkeypatch, LEARNER_JOB, activeDeadlineSeconds=600)
    job = learner_job(namespace="team", resourceVersion="2", labels={"nitro.dev/job": "hopper"})
    job["metadata"]["creationTimestamp"] = job["status"]["startTime"] = "2026-01-01T00:00:00Z"
    bench.cache.put(LEARNER_JOB, job)
    assert (await reconciled(bench))["actors"]["requested"] == 8
    assert "Job hopper-learner" in conditions_of(bench)["LearnerReady"]["message"]


async def test_events_that_cannot_be_read_are_told_and_the_status_published(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A Job without a pod: its events would say why."""
    bench = refusing(monkeypatch, EVENT)
    bench.cache.remove(POD, pod("learner"))
    monkeypatch.setattr("nitro_operator.reconcile.start.PODLESS_SECONDS", 1.0)
    await reconciled(bench)
    said = conditions_of(bench)["LearnerReady"]
    assert said["reason"] == "ApiUnavailable"
    assert "Job hopper-learner has no pod" in said["message"]


async def test_actors_of_another_image_that_cannot_be_deleted_are_told_and_the_status_published(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = refusing(monkeypatch, KNATIVE_SERVICE)
    bench.cache.remove(LEARNER_JOB, learner_job(namespace="team", labels={"nitro.dev/job": "hopper"}))
    bench.cache.remove(POD, pod("learner"))
    old = actor_service(make_view(actor={"image": "registry.test/actor:0"}))
    old["metadata"] |= {"uid": "old", "creationTimestamp": "2026-01-01T00:00:00Z"}
    bench.cache.put(KNATIVE_SERVICE, old)
    assert (await reconciled(bench))["phase"] == "Starting"
    assert "Service hopper-actors" in conditions_of(bench)["LearnerReady"]["message"]
    assert conditions_of(bench)["ActorsReady"]["reason"] == "ApiUnavailable"


async def test_a_scale_patch_that_is_refused_for_a_terminating_namespace_is_no_trouble(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = refusing(monkeypatch, suspend=True)
    bench.kube.refused = {REVISION: ApiError(403, "Forbidden", GOING)}
    assert await bench.reconciler.reconcile(KEY) is None
