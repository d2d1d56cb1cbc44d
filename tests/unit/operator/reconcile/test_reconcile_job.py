"""The reconcile of one job on a fake API server."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from prometheus_client import REGISTRY

from nitro_operator.backends.knative import scale_annotations
from nitro_operator.functions.state import FunctionState
from nitro_operator.kube.errors import ApiError
from nitro_operator.kube.kinds import (
    KNATIVE_SERVICE,
    LEARNER_JOB,
    POD,
    TRAINING_JOB,
    VOLUME_CLAIM,
    JobKey,
)
from nitro_operator.kube.names import labels
from nitro_operator.reconcile.job import Unfinished
from nitro_operator.scaling.grants import Limits
from operator_objects import RUNNING, make_job, pod, terminated
from reconcile_bench import GOING, KEY, Bench, conditions_of, has_secret, note, reported

Object = dict[str, Any]
FUNCTION = {
    "image": "123456789012.dkr.ecr.us-east-2.amazonaws.com/nitro-actor:0.1.0",
    "roleArn": "arn:aws:iam::123456789012:role/nitro-actor",
}


async def test_the_job_of_a_late_learner_is_read_without_the_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(running=True)
    monkeypatch.setattr(bench.starter, "start", lambda *_: note([], None))
    await bench.reconciler.reconcile(KEY)
    assert bench.kube.read == [], "nothing is late yet"
    bench.kube.unreadable = ApiError(0, "Unreachable", "")
    for bench.now in (30.0, 60, 90):
        await bench.reconciler.reconcile(KEY)
    bench.kube.unreadable = None
    bench.kube.job = reported("1970-01-01T00:01:40Z", version=2)
    bench.now = 100.0
    await bench.reconciler.reconcile(KEY)
    told = [conditions_of(bench, published)["LearnerReady"]["reason"] for published in range(5)]
    assert told == ["Running"] * 5
    assert bench.cache.job(KEY)["status"] == bench.kube.job["status"]  # type: ignore[index]
    assert bench.woken == [KEY]


async def test_a_learner_that_begins_to_run_during_a_reconcile_is_not_called_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench(running=False)
    monkeypatch.setattr("nitro_operator.reconcile.start.ensure_secret", has_secret)
    await bench.reconciler.reconcile(KEY)

    async def begins(*_: object) -> bool:
        new = pod("learner", redis=RUNNING, learner=RUNNING)
        new["metadata"]["ownerReferences"] = [{"uid": "made"}]
        bench.cache.put(POD, new)
        return True

    monkeypatch.setattr("nitro_operator.reconcile.start.ensure_secret", begins)
    await bench.reconciler.reconcile(KEY)
    assert conditions_of(bench)["LearnerReady"]["reason"] == "Running"


async def test_a_restarting_learner_keeps_its_provisioned_concurrency(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its pod is evicted at second 5; nothing runs until the ten minutes between changes are over."""
    bench = Bench(running=True)
    function = {**FUNCTION, "provisionedConcurrency": {"minutesBetweenChanges": 10}}
    bench.cache.put(TRAINING_JOB, reported(version=2, backend={"type": "Lambda", "lambda": function}))
    wanted = []
    monkeypatch.setattr(bench.functions, "want", lambda _, want: wanted.append(want.actors))
    monkeypatch.setattr(bench.starter, "start", lambda *_: note([], None))
    await bench.reconciler.reconcile(KEY)
    assert wanted == [None], "an operator that has just started keeps what there is"
    monkeypatch.setattr(bench.functions, "state", lambda _: FunctionState(ready=True))
    await bench.reconciler.reconcile(KEY)
    bench.cache.remove(POD, pod("learner", redis=RUNNING, learner=RUNNING))
    for bench.now in (5.0, 100, 600, 606):
        await bench.reconciler.reconcile(KEY)
    assert wanted[1:] == [8, 8, 8, 8, 0]


@pytest.mark.parametrize(
    ("hold", "exit_code", "wanted"),
    [("auto", 1, [8, 8, 0]), (30, 1, [8, 0, 0]), (0, 1, [0, 0, 0]), ("auto", 0, [0, 0, 0])],
)
async def test_a_restarting_learner_keeps_its_pods_for_as_long_as_that_pays(
    monkeypatch: pytest.MonkeyPatch, hold: str | int, exit_code: int, wanted: list[int]
) -> None:
    """It ends at second 5. Its pods need 10 s to start and 30 s to drain; one that is done needs none."""
    bench = Bench(running=True)
    bench.cache.put(TRAINING_JOB, reported(version=2, scaling={"hold": hold, "initialActors": 8}))
    bench.has_revision()
    monkeypatch.setattr(bench.starter, "start", lambda *_: note([], None))
    await bench.reconciler.reconcile(KEY)
    ended = pod("learner", redis=RUNNING, learner=terminated(exit_code))
    ended["metadata"]["resourceVersion"] = "2"
    bench.cache.put(POD, ended | {"apiVersion": "v1", "kind": "Pod"})
    for bench.now in (5.0, 40, 46):
        await bench.reconciler.reconcile(KEY)
    assert bench.scales == [8, *wanted]


async def test_invocations_of_a_function_take_nothing_from_the_platforms_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench(running=True)
    bench.cache.put(TRAINING_JOB, reported(version=2, backend={"type": "Lambda", "lambda": FUNCTION}))
    monkeypatch.setattr(bench.starter, "start", lambda *_: note([], None))
    await bench.reconciler.reconcile(KEY)
    assert bench.kube.written[-1]["status"]["actors"]["requested"] == 8
    assert bench.platform.held == 0


@pytest.mark.parametrize(("limit", "granted", "pods"), [(8, 6, 2), (9, 9, 3), (10**6, 9, 3)])
async def test_pods_of_several_actors_stay_within_the_platforms_limit(
    monkeypatch: pytest.MonkeyPatch, limit: int, granted: int, pods: int
) -> None:
    """It has 4 actors at least and requests 8."""
    bench = Bench(running=True)
    bench.cache.put(TRAINING_JOB, reported(version=2, actor={"perPod": 3}))
    bench.has_revision()
    bench.platform.limits = Limits(limit)
    monkeypatch.setattr(bench.starter, "start", lambda *_: note([], None))
    await bench.reconciler.reconcile(KEY)
    patched = [one for one in bench.kube.written if one["kind"] == "Revision"]
    annotations = patched[-1]["metadata"]["annotations"]
    assert {name: annotations[name] for name in scale_annotations(pods)} == scale_annotations(pods)
    actors = bench.kube.written[-1]["status"]["actors"]
    assert (actors["requested"], actors["granted"]) == (8, granted)


async def test_a_learner_whose_job_was_deleted_ends_before_another_one_starts() -> None:
    """`kubectl delete job` removes the Job at once, and its pod has two minutes to write a checkpoint."""
    bench = Bench(running=True)
    await bench.reconciler.reconcile(KEY)
    former = bench.cache.get(LEARNER_JOB, KEY, "hopper-learner")
    assert former is not None
    bench.cache.remove(LEARNER_JOB, former)
    bench.kube.written.clear()
    await bench.reconciler.reconcile(KEY)
    assert "Job" not in [one["kind"] for one in bench.kube.written]
    told = conditions_of(bench)["LearnerReady"]
    assert (told["reason"], "its pods must end first: p." in told["message"]) == ("Waiting", True)
    ended = pod("learner", phase="Succeeded", redis=RUNNING, learner=terminated(0))
    ended["metadata"]["resourceVersion"] = "2"
    bench.cache.put(POD, ended)
    await bench.reconciler.reconcile(KEY)
    assert "Job" in [one["kind"] for one in bench.kube.written]


async def test_a_learner_that_goes_during_a_look_is_made_at_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The next look first asks whether its actors are outdated: they may have a deleted Secret's token."""
    bench = Bench(running=True)

    async def goes(*_: object) -> bool:
        for kind, name in ((LEARNER_JOB, "hopper-learner"), (POD, "p")):
            found = bench.cache.get(kind, KEY, name)
            if found is not None:
                bench.cache.remove(kind, found)
        return True

    monkeypatch.setattr("nitro_operator.reconcile.start.ensure_secret", goes)
    await bench.reconciler.reconcile(KEY)
    assert "Job" not in [one["kind"] for one in bench.kube.written]
    await bench.reconciler.reconcile(KEY)
    assert "Job" in [one["kind"] for one in bench.kube.written]


async def test_one_more_actor_is_requested_while_none_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that Knative's activator, which may have missed them, looks at them anew."""
    bench = Bench(running=True)
    monkeypatch.setattr(bench.starter, "start", lambda *_: note([], None))

    async def says(version: int, **training: str) -> None:
        job = reported(version=version)
        job["status"]["training"] |= training
        bench.cache.put(TRAINING_JOB, job)
        await bench.reconciler.reconcile(KEY)

    silent = {"reason": "ActorsSilent", "message": "no actor has answered yet"}
    bench.has_revision("Unknown")
    await says(2, **silent)
    bench.has_revision(version=2)
    await says(3, **silent)
    await says(4)
    assert bench.scales == [8, 9, 8], "not before there is one that could answer"


async def test_a_job_that_cannot_be_read_keeps_no_more_than_its_grant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever may write to its Revision could otherwise take the actors of all other jobs."""
    bench = Bench(running=True)
    monkeypatch.setattr(bench.starter, "start", lambda *_: note([], None))
    await bench.reconciler.reconcile(KEY)
    granted = bench.platform.holds(KEY)
    assert granted > 0
    bench.has_revision(**scale_annotations(4000))
    unreadable = reported(version=2, seed=-1)
    unreadable["metadata"]["generation"] = 2
    bench.cache.put(TRAINING_JOB, unreadable)
    await bench.reconciler.reconcile(KEY)
    assert bench.kube.written[-1]["status"]["conditions"][0]["reason"] == "InvalidSpec"
    assert bench.platform.holds(KEY) == granted


async def test_a_revision_that_is_not_deleted_is_named() -> None:
    """A resumed run waits for what was made before it, which may hang in somebody's finalizer."""
    bench = Bench(running=False)
    resumed = make_job({"startTime": "2026-01-01T00:00:00Z"})
    resumed["metadata"]["resourceVersion"] = "2"
    bench.cache.put(TRAINING_JOB, resumed)
    bench.has_revision(**scale_annotations(0))
    await bench.reconciler.reconcile(KEY)
    conditions = {one["type"]: one for one in bench.kube.written[-1]["status"]["conditions"]}
    assert conditions["LearnerReady"]["reason"] == "Waiting"
    assert "must be removed first: Revision hopper-actors-v1" in conditions["LearnerReady"]["message"]
    assert [obj["kind"] for obj in bench.kube.written] == ["NitroTrainingJob"]


@pytest.mark.parametrize(("status", "starts"), [(400, False), (422, False), (500, True)])
async def test_no_learner_starts_when_the_api_server_refuses_its_actors(
    monkeypatch: pytest.MonkeyPatch, status: int, starts: bool
) -> None:
    """Knative refuses a time-out above its own; an API server that is ill comes back."""
    bench = Bench(running=False)
    monkeypatch.setattr("nitro_operator.reconcile.start.ensure_secret", has_secret)
    job = make_job(actor={"timeoutSeconds": 900})
    job["metadata"]["resourceVersion"] = "2"
    bench.cache.put(TRAINING_JOB, job)
    refusal = ApiError(status, "BadRequest", "expected 0 <= 900 <= 600: timeoutSeconds")
    bench.kube.refused = {KNATIVE_SERVICE: refusal}
    with pytest.raises(Unfinished):
        await bench.reconciler.reconcile(KEY)
    assert ("Job" in [obj["kind"] for obj in bench.kube.written]) is starts
    if not starts:
        assert conditions_of(bench)["Ready"]["reason"] == "Refused"
        assert "900 <= 600" in conditions_of(bench)["LearnerReady"]["message"]
    held = bench.platform.holds(KEY)
    assert (held > 0) is starts, "a job that cannot start keeps no other waiting"
    assert bench.kube.written[-1]["status"]["actors"]["granted"] == held


KNATIVE_SAYS = (
    'admission webhook "validation.webhook.serving.knative.dev" denied the request: validation failed: '
)


@pytest.mark.parametrize(
    ("refusal", "flags"),
    [
        (
            "must not set the field(s): spec.template.spec.nodeSelector, spec.template.spec.tolerations",
            ["kubernetes.podspec-nodeselector", "kubernetes.podspec-tolerations"],
        ),
        (
            "Persistent volume claim support is disabled, but found persistent volume claim data\n"
            "Persistent volume write support is disabled, but found persistent volume claim data that is not "
            "read-only",
            ["kubernetes.podspec-persistent-volume-claim", "kubernetes.podspec-persistent-volume-write"],
        ),
    ],
)
async def test_the_condition_names_the_feature_flag_that_knative_asks_for(
    monkeypatch: pytest.MonkeyPatch, refusal: str, flags: list[str]
) -> None:
    bench = Bench(running=False)
    monkeypatch.setattr("nitro_operator.reconcile.start.ensure_secret", has_secret)
    bench.kube.refused = {KNATIVE_SERVICE: ApiError(400, "BadRequest", KNATIVE_SAYS + refusal)}
    with pytest.raises(Unfinished):
        await bench.reconciler.reconcile(KEY)
    assert "Job" not in [obj["kind"] for obj in bench.kube.written]
    said = conditions_of(bench)["Ready"]
    assert said["reason"] == "KnativeFeatureDisabled"
    assert all(flag in said["message"] for flag in flags)
    assert "config-features" in said["message"]


class TestClaimOfAnEarlierJob:
    def bench(self, monkeypatch: pytest.MonkeyPatch, size: str, *, running: bool = False) -> Bench:
        bench = Bench(running=running)
        job = make_job(learner={"checkpoint": {"pvc": {"size": "10Gi"}}})
        job["metadata"]["resourceVersion"] = "2"
        bench.cache.put(TRAINING_JOB, job)
        meta = {"name": "hopper-checkpoint", "namespace": "team", "labels": labels("hopper", "learner")}
        claim = {"spec": {"resources": {"requests": {"storage": size}}}, "metadata": meta}
        bench.cache.put(VOLUME_CLAIM, claim)
        monkeypatch.setattr("nitro_operator.reconcile.start.ensure_secret", has_secret)
        return bench

    @pytest.mark.parametrize("size", ["1Gi", "9999Mi"])
    async def test_a_claim_that_is_too_small_grows(self, monkeypatch: pytest.MonkeyPatch, size: str) -> None:
        bench = self.bench(monkeypatch, size)
        await bench.reconciler.reconcile(KEY)
        claim, learner = [
            obj for obj in bench.kube.written if obj["kind"] in ("PersistentVolumeClaim", "Job")
        ]
        assert claim["spec"] == {"resources": {"requests": {"storage": "10Gi"}}}
        assert learner["kind"] == "Job"

    @pytest.mark.parametrize("size", ["10Gi", "10240Mi", "1Ti"])
    async def test_a_claim_that_is_large_enough_is_not_changed(
        self, monkeypatch: pytest.MonkeyPatch, size: str
    ) -> None:
        bench = self.bench(monkeypatch, size)
        await bench.reconciler.reconcile(KEY)
        assert "PersistentVolumeClaim" not in [obj["kind"] for obj in bench.kube.written]

    async def test_the_claim_of_a_running_learner_is_not_changed(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bench = self.bench(monkeypatch, "1Gi", running=True)
        await bench.reconciler.reconcile(KEY)
        assert "PersistentVolumeClaim" not in [obj["kind"] for obj in bench.kube.written]

    async def test_a_claim_that_cannot_grow_is_reported_as_the_learners_problem(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bench = self.bench(monkeypatch, "1Gi")
        words = "the storageclass that provisions the pvc must support resize"
        bench.kube.refused = {VOLUME_CLAIM: ApiError(403, "Forbidden", words)}
        with pytest.raises(Unfinished):
            await bench.reconciler.reconcile(KEY)
        assert "Job" not in [obj["kind"] for obj in bench.kube.written]
        assert words in conditions_of(bench)["LearnerReady"]["message"]


async def test_a_new_job_is_not_billed_for_the_pods_of_a_deleted_job_of_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other jobs still have to wait until those pods are gone."""
    bench = Bench(running=False)
    monkeypatch.setattr("nitro_operator.reconcile.start.ensure_secret", has_secret)
    for number in range(16):
        old = pod("actor", name=f"old-{number}")
        old["metadata"]["creationTimestamp"] = old["status"]["startTime"] = "2025-12-31T23:00:00Z"
        old["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z"
        bench.cache.put(POD, old)
    young = pod("actor", name="young")
    young["metadata"]["creationTimestamp"] = young["status"]["startTime"] = "2026-01-01T00:00:02Z"
    bench.cache.put(POD, young)
    await bench.reconciler.reconcile(KEY)
    actors = bench.kube.written[-1]["status"]["actors"]
    assert (actors["podSeconds"], actors["started"]) == (3.0, 1)
    assert (actors["ready"], actors["draining"]) == (1, 0)
    beyond = bench.platform.room().taken - bench.platform.held
    assert beyond == 16, "the young one is of the new grant"


async def test_pods_that_end_are_waited_for_before_their_job_is_looked_at() -> None:
    """An operator that starts hears of all jobs first. Another job may be reconciled before this one."""
    bench = Bench(running=True)
    for number in range(5):
        bench.cache.put(POD, pod("actor", name=f"actor-{number}"))
    bench.reconciler.noticed(KEY)
    assert bench.platform.room().taken == 5


async def test_jobs_are_taken_up_in_the_order_in_which_they_wait() -> None:
    bench, names = Bench(running=False), ("young", "old", "middle")
    for name, minute in zip(names, (3, 1, 2), strict=True):
        job = make_job()
        created = f"2025-12-31T23:0{minute}:00Z"
        job["metadata"] |= {"name": name, "uid": name, "resourceVersion": "1", "creationTimestamp": created}
        bench.cache.put(TRAINING_JOB, job)
    keys = [JobKey("team", name) for name in (*names, "gone")]
    taken = sorted(keys, key=bench.reconciler.waits_since)
    assert [key.name for key in taken] == ["gone", "old", "middle", "young"]


async def test_a_reconcile_that_hangs_is_counted_as_an_error() -> None:
    bench = Bench(running=False)
    bench.kube.hangs = {"Secret", "Role", "NitroTrainingJob"}
    before = REGISTRY.get_sample_value("nitro_operator_reconcile_errors_total") or 0
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):  # as the queue does
            await bench.reconciler.reconcile(KEY)
    assert REGISTRY.get_sample_value("nitro_operator_reconcile_errors_total") == before + 1


@pytest.mark.parametrize("secret_made", [False, True])
async def test_jobs_in_a_terminating_namespace_are_left_alone_without_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, secret_made: bool
) -> None:
    bench = Bench(running=False)
    bench.kube.refusal = ApiError(403, "Forbidden", GOING)
    if secret_made:
        monkeypatch.setattr("nitro_operator.reconcile.start.ensure_secret", has_secret)
    for _ in range(3):
        assert await bench.reconciler.reconcile(KEY) is None
    assert len(bench.kube.written) == 1, "one refusal is enough"
    assert not [entry for entry in caplog.records if entry.levelno >= logging.WARNING]
