"""An API server that is away, and a namespace that goes: neither is the job's fault."""

from __future__ import annotations

import asyncio
import json
import logging
from datetime import UTC, datetime
from typing import Any

import pytest
from kubernetes.aio.client import ApiClient, Configuration
from operator_objects import CONFIG, RUNNING, learner_job, make_job, make_view, pod, revision
from prometheus_client import REGISTRY

from nitro_operator import reconcile
from nitro_operator.backends import KnativeRelease
from nitro_operator.backends.knative import scale_annotations
from nitro_operator.builders import actor_service, checkpoint_claim
from nitro_operator.cache import Cache
from nitro_operator.client import ApiError, Kube, _refusal
from nitro_operator.conditions import from_problem
from nitro_operator.events import EventPoster
from nitro_operator.functions import Aws, Functions
from nitro_operator.heartbeat import GAP_SECONDS, Heartbeat
from nitro_operator.kinds import LEARNER_JOB, POD, REVISION, TRAINING_JOB, VOLUME_CLAIM, JobKey, Kind
from nitro_operator.observed import Observed
from nitro_operator.platform import Platform
from nitro_operator.reconcile import Reconciler
from nitro_operator.status import SILENT
from replicas_support import replicas

Object = dict[str, Any]
KEY = JobKey("team", "hopper")
LEARNER = Observed(learner_pod=pod("learner", redis=RUNNING, learner=RUNNING))
GOING = (
    'services "hopper-redis" is forbidden: unable to create new content in namespace team '
    "because it is being terminated"
)


def reported(at: str = "1970-01-01T00:00:00Z", version: int = 1, **spec: Any) -> Object:
    job = make_job({"training": {"updatedAt": at}}, **spec)  # whatever the learner's clock says
    job["metadata"]["resourceVersion"] = str(version)
    return job


class FakeKube:
    """An API server of which a test says how it answers."""

    def __init__(self) -> None:
        self.job = reported()
        self.refusal: ApiError | None = None
        self.read: list[Kind] = []
        self.written: list[Object] = []
        self.refused: dict[str, ApiError] = {}  # by kind
        self.hangs = False

    def server_now(self) -> datetime:
        return datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC)

    async def get(self, kind: Kind, _: str, name: str) -> Object:
        self.read.append(kind)
        if self.refusal is not None and self.refusal.status == 0:
            raise self.refusal
        if kind is TRAINING_JOB:
            return self.job
        raise ApiError(404, "NotFound", name)

    async def create(self, obj: Object) -> Object:
        self.written.append(obj)
        if self.hangs:
            await asyncio.sleep(600)
        refusal = self.refused.get(obj["kind"], self.refusal)
        if refusal is not None:
            raise refusal
        return obj | {"metadata": obj["metadata"] | {"creationTimestamp": "2026-01-01T00:00:00Z"}}

    async def apply(self, obj: Object, **_: Any) -> Object:
        return await self.create(obj)

    async def merge(self, kind: Kind, namespace: str, name: str, patch: Object) -> Object:
        meta = {"name": name, "namespace": namespace, "labels": {"nitro.dev/job": "hopper"}}
        return await self.create({"kind": kind.kind, "metadata": meta, **patch})


class TestHeartbeat:
    def heard(self, beat: Heartbeat, now: float, *, answered: bool = True) -> bool:
        """What the reconcile does, with a learner that does not report."""
        beat.see(reported(), LEARNER, now)
        if beat.due(now):
            beat.looked(now, answered=answered)
        return beat.heard(now)

    def test_it_is_counted_from_the_last_change_by_our_own_clock(self) -> None:
        beat = Heartbeat()
        assert all(self.heard(beat, now) for now in (100.0, 120, 130, 140, 150, 159))
        assert not self.heard(beat, 160.1)
        beat.see(reported("1970-01-01T00:00:10Z"), LEARNER, 161)
        assert beat.heard(161)
        beat.see(reported("1970-01-01T00:00:10Z"), Observed(), 162)
        assert not beat.heard(162), "no learner runs"

    def test_time_without_sight_of_the_job_does_not_count(self) -> None:
        beat = Heartbeat()
        assert all(self.heard(beat, now, answered=False) for now in range(0, 300, 10))
        assert all(self.heard(beat, now) for now in range(300, 360, 10)), "a minute anew"
        assert not self.heard(beat, 360)

    def test_time_in_which_nobody_looked_does_not_count(self) -> None:
        beat = Heartbeat()
        assert self.heard(beat, 0)
        assert self.heard(beat, 61 + GAP_SECONDS)

    def test_an_outage_does_not_revive_a_learner_that_was_given_up(self) -> None:
        beat = Heartbeat()
        assert not [self.heard(beat, now) for now in range(0, 70, 10)][-1]
        assert not self.heard(beat, 80, answered=False)
        assert not self.heard(beat, 90)


class Bench:
    """A reconciler on a fake API server, with a job whose learner runs, and a clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, running: bool) -> None:
        self.kube, self.cache, self.now, self.woken = FakeKube(), Cache(), 0.0, list[JobKey]()
        monkeypatch.setattr(reconcile, "_now", lambda: self.now)
        self.cache.put(TRAINING_JOB, self.kube.job)
        if running:
            child = {"namespace": "team", "resourceVersion": "1", "labels": {"nitro.dev/job": "hopper"}}
            self.cache.put(LEARNER_JOB, learner_job(creationTimestamp="2026-01-01T00:00:00Z", **child))
            self.cache.put(POD, pod("learner", redis=RUNNING, learner=RUNNING))
        release = KnativeRelease()
        release.problem = None
        self.reconciler = Reconciler(
            self.kube,  # type: ignore[arg-type]
            self.cache,
            Platform(0),
            release,
            Functions(self.kube, self.cache, Aws(), lambda *_: None, self.woken.append),  # type: ignore[arg-type]
            CONFIG,
            lambda *_: None,
            self.woken.append,
        )


async def test_a_late_learner_is_looked_at_without_the_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, running=True)
    written = []
    monkeypatch.setattr(bench.reconciler, "_publish", lambda run: _note(written, run.heard))
    monkeypatch.setattr(bench.reconciler._starter, "start", lambda *_: _note([], None))
    await bench.reconciler.reconcile(KEY)
    assert bench.kube.read == [], "nothing is late yet"
    bench.kube.refusal = ApiError(0, "Unreachable", "")
    for bench.now in (30.0, 60, 90):
        await bench.reconciler.reconcile(KEY)
    bench.kube.refusal = None
    bench.kube.job = reported("1970-01-01T00:01:40Z", version=2)
    bench.now = 100.0
    await bench.reconciler.reconcile(KEY)
    assert written == [True] * 5
    assert bench.cache.job(KEY)["status"] == bench.kube.job["status"]  # type: ignore[index]
    assert bench.woken == [KEY]


async def test_a_learner_that_starts_anew_keeps_its_provisioned_concurrency(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its pod is evicted at second 5; nothing runs until the ten minutes between changes are over."""
    bench = Bench(monkeypatch, running=True)
    function = {
        "image": "123456789012.dkr.ecr.us-east-2.amazonaws.com/nitro-actor:0.1.0",
        "roleArn": "arn:aws:iam::123456789012:role/nitro-actor",
        "provisionedConcurrency": {"minutesBetweenChanges": 10},
    }
    bench.cache.put(TRAINING_JOB, reported(version=2, backend={"type": "Lambda", "lambda": function}))
    wanted = []
    monkeypatch.setattr(bench.reconciler._functions, "want", lambda _, want: wanted.append(want.actors))
    monkeypatch.setattr(bench.reconciler, "_publish", lambda _: _note([], None))
    monkeypatch.setattr(bench.reconciler._starter, "start", lambda *_: _note([], None))
    await bench.reconciler.reconcile(KEY)
    bench.cache.remove(POD, pod("learner", redis=RUNNING, learner=RUNNING))
    for bench.now in (5.0, 100, 600, 606):
        await bench.reconciler.reconcile(KEY)
    assert wanted == [8, 8, 8, 8, 0]


async def test_there_is_one_more_actor_while_none_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that Knative's activator, which may have missed them, looks at them anew."""
    bench, scales = Bench(monkeypatch, running=True), list[int]()
    monkeypatch.setattr(bench.reconciler, "_scale", lambda _, actors: _note(scales, actors))
    monkeypatch.setattr(bench.reconciler, "_publish", lambda _: _note([], None))
    monkeypatch.setattr(bench.reconciler._starter, "start", lambda *_: _note([], None))

    async def says(version: int, **training: str) -> None:
        job = reported(version=version)
        job["status"]["training"] |= training
        bench.cache.put(TRAINING_JOB, job)
        await bench.reconciler.reconcile(KEY)

    silent = {"reason": "ActorsSilent", "message": "no actor has answered yet"}
    await says(2, **silent)
    made = revision()
    made |= {"apiVersion": REVISION.api_version, "kind": REVISION.kind}
    made["metadata"] |= {"namespace": "team", "labels": {"nitro.dev/job": "hopper"}}
    bench.cache.put(REVISION, made)
    await says(3, **silent)
    await says(4)
    assert scales == [8, 9, 8], "not before there is one that could answer"


async def test_actors_that_do_not_go_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A resumed run waits for what was made before it, which may hang in somebody's finalizer."""
    bench = Bench(monkeypatch, running=False)
    resumed = make_job({"startTime": "2026-01-01T00:00:00Z"})
    resumed["metadata"]["resourceVersion"] = "2"
    bench.cache.put(TRAINING_JOB, resumed)
    left = revision(**scale_annotations(0))
    left |= {"apiVersion": REVISION.api_version, "kind": REVISION.kind}
    left["metadata"] |= {"namespace": "team", "labels": {"nitro.dev/job": "hopper"}}
    bench.cache.put(REVISION, left)
    await bench.reconciler.reconcile(KEY)
    conditions = {one["type"]: one for one in bench.kube.written[-1]["status"]["conditions"]}
    assert conditions["LearnerReady"]["reason"] == "Waiting"
    assert "to go: Revision hopper-actors-v1" in conditions["LearnerReady"]["message"]
    assert [obj["kind"] for obj in bench.kube.written] == ["NitroTrainingJob"]


def conditions_of(bench: Bench) -> dict[str, Object]:
    """As last published."""
    written = [obj for obj in bench.kube.written if obj["kind"] == "NitroTrainingJob"]
    return {one["type"]: one for one in written[-1]["status"]["conditions"]}


@pytest.mark.parametrize(("status", "starts"), [(400, False), (422, False), (500, True)])
async def test_no_learner_is_started_for_actors_that_can_never_be(
    monkeypatch: pytest.MonkeyPatch, status: int, starts: bool
) -> None:
    """Knative refuses a time-out above its own; an API server that is ill comes back."""
    bench = Bench(monkeypatch, running=False)
    monkeypatch.setattr("nitro_operator.start.ensure_secret", lambda *_: _note([], None))
    job = make_job(actor={"timeoutSeconds": 900})
    job["metadata"]["resourceVersion"] = "2"
    bench.cache.put(TRAINING_JOB, job)
    service = {"Service": ApiError(status, "BadRequest", "expected 0 <= 900 <= 600: timeoutSeconds")}
    bench.kube.refused = service
    monkeypatch.setattr(bench.reconciler._starter, "_children", lambda *_: [actor_service(make_view())])
    with pytest.raises(reconcile.Unfinished):
        await bench.reconciler.reconcile(KEY)
    assert ("Job" in [obj["kind"] for obj in bench.kube.written]) is starts
    if not starts:
        assert conditions_of(bench)["Ready"]["reason"] == "Refused"
        assert "900 <= 600" in conditions_of(bench)["LearnerReady"]["message"]


class TestClaimOfAnEarlierJob:
    def bench(self, monkeypatch: pytest.MonkeyPatch, size: str, *, running: bool = False) -> Bench:
        bench = Bench(monkeypatch, running=running)
        job = make_job(learner={"checkpoint": {"pvc": {"size": "10Gi"}}})
        job["metadata"]["resourceVersion"] = "2"
        bench.cache.put(TRAINING_JOB, job)
        meta = {"name": "hopper-checkpoint", "namespace": "team", "labels": {"nitro.dev/job": "hopper"}}
        claim = {"spec": {"resources": {"requests": {"storage": size}}}, "metadata": meta}
        bench.cache.put(VOLUME_CLAIM, claim)
        monkeypatch.setattr("nitro_operator.start.ensure_secret", lambda *_: _note([], None))
        claims = checkpoint_claim(make_view(learner=job["spec"]["learner"]))
        monkeypatch.setattr(bench.reconciler._starter, "_children", lambda *_: [claims])
        return bench

    @pytest.mark.parametrize("size", ["1Gi", "9999Mi"])
    async def test_it_grows_if_it_is_too_small(self, monkeypatch: pytest.MonkeyPatch, size: str) -> None:
        bench = self.bench(monkeypatch, size)
        await bench.reconciler.reconcile(KEY)
        claim, learner = [obj for obj in bench.kube.written if obj["kind"] != "NitroTrainingJob"]
        assert claim["spec"] == {"resources": {"requests": {"storage": "10Gi"}}}
        assert learner["kind"] == "Job"

    @pytest.mark.parametrize("size", ["10Gi", "10240Mi", "1Ti"])
    async def test_it_stays_if_it_is_large_enough(self, monkeypatch: pytest.MonkeyPatch, size: str) -> None:
        bench = self.bench(monkeypatch, size)
        await bench.reconciler.reconcile(KEY)
        assert "PersistentVolumeClaim" not in [obj["kind"] for obj in bench.kube.written]

    async def test_under_a_learner_that_runs_it_stays_as_it_is(self, monkeypatch: pytest.MonkeyPatch) -> None:
        bench = self.bench(monkeypatch, "1Gi", running=True)
        await bench.reconciler.reconcile(KEY)
        assert "PersistentVolumeClaim" not in [obj["kind"] for obj in bench.kube.written]

    async def test_a_class_that_cannot_grow_is_the_learners_problem(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bench = self.bench(monkeypatch, "1Gi")
        words = "the storageclass that provisions the pvc must support resize"
        bench.kube.refused = {"PersistentVolumeClaim": ApiError(403, "Forbidden", words)}
        with pytest.raises(reconcile.Unfinished):
            await bench.reconciler.reconcile(KEY)
        assert "Job" not in [obj["kind"] for obj in bench.kube.written]
        assert words in conditions_of(bench)["LearnerReady"]["message"]


async def test_a_reconcile_that_hangs_is_counted_as_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(monkeypatch, running=False)
    bench.kube.hangs = True
    before = REGISTRY.get_sample_value("nitro_operator_reconcile_errors_total") or 0
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):  # as the queue does
            await bench.reconciler.reconcile(KEY)
    assert REGISTRY.get_sample_value("nitro_operator_reconcile_errors_total") == before + 1


async def _note(notes: list[Any], value: Any) -> None:
    notes.append(value)


async def test_an_api_server_that_is_ill_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nitro_operator.client.FIRST_BACKOFF_SECONDS", 0.0)
    with replicas(make_job()) as servers:
        configuration = Configuration()
        configuration.host = servers.url
        kube = Kube(ApiClient(configuration))
        for _ in range(5):
            assert await kube.get(TRAINING_JOB, "team", "hopper") == make_job()
        await kube.close()
        assert servers.connections == 3, "the ill one's, that of the last try, and one that is kept"


class TestTerminatingNamespace:
    @pytest.mark.parametrize(
        ("told", "expected"),
        [
            ({"message": GOING}, True),
            ({"message": "no", "details": {"causes": [{"reason": "NamespaceTerminating"}]}}, True),
            ({"message": "no", "details": None}, False),
        ],
    )
    def test_it_is_told_from_a_right_that_is_missing(self, told: Object, expected: bool) -> None:
        assert _refusal(403, json.dumps(told).encode()).namespace_terminating is expected
        assert not _refusal(409, json.dumps(told).encode()).namespace_terminating

    @pytest.mark.parametrize("secret_made", [False, True])
    async def test_its_jobs_are_left_alone_without_a_complaint(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, secret_made: bool
    ) -> None:
        bench = Bench(monkeypatch, running=False)
        bench.kube.refusal = ApiError(403, "Forbidden", GOING)
        if secret_made:
            monkeypatch.setattr("nitro_operator.start.ensure_secret", lambda *_: _note([], None))
        for _ in range(3):
            assert await bench.reconciler.reconcile(KEY) is None
        assert len(bench.kube.written) == 1, "one refusal is enough"
        assert not [entry for entry in caplog.records if entry.levelno >= logging.WARNING]

    @pytest.mark.parametrize(("message", "complaints"), [(GOING, 0), ("events is forbidden", 1)])
    async def test_an_event_is_tried_once(
        self, caplog: pytest.LogCaptureFixture, message: str, complaints: int
    ) -> None:
        kube = FakeKube()
        kube.refusal = ApiError(403, "Forbidden", message)
        poster = EventPoster(kube)  # type: ignore[arg-type]
        task = asyncio.create_task(poster.run())
        poster.add(make_job(), from_problem("LearnerReady", SILENT))
        await asyncio.sleep(0.01)
        task.cancel()
        assert [event["reason"] for event in kube.written] == ["HeartbeatLost"]
        assert len([entry for entry in caplog.records if entry.levelno >= logging.WARNING]) == complaints
