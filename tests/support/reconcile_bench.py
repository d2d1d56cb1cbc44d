"""A reconciler on a fake API server, with a job, a learner's pod and a clock that the test sets."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from nitro_operator.backends import KnativeRelease
from nitro_operator.config import Config
from nitro_operator.functions import Aws, FunctionController
from nitro_operator.kube.cache import Cache
from nitro_operator.kube.errors import ApiError
from nitro_operator.kube.kinds import LEARNER_JOB, POD, TRAINING_JOB, JobKey, Kind
from nitro_operator.reconcile.job import Reconciler
from nitro_operator.reconcile.start import Starter
from nitro_operator.scaling.grants import Limits
from nitro_operator.scaling.platform import Platform
from nitro_operator.status.conditions import Condition
from operator_objects import CONFIG, RUNNING, learner_job, make_job, pod

Object = dict[str, Any]
KEY = JobKey("team", "hopper")
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
        self.secrets: dict[str, Object] = {}  # by name
        self.deleted: list[str] = []  # kinds
        self.versions: list[str | None] = []  # that the deletions asked for
        self.refused: dict[str, ApiError] = {}  # by kind
        self.hangs: set[str] = set()  # kinds
        self.made_at = "2026-01-01T00:00:00Z"

    def server_now(self) -> datetime:
        return datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC)

    async def get(self, kind: Kind, _: str, name: str) -> Object:
        self.read.append(kind)
        if self.refusal is not None and self.refusal.status == 0:
            raise self.refusal
        if kind is TRAINING_JOB:
            return self.job
        if name in self.secrets:
            return self.secrets[name]
        raise ApiError(404, "NotFound", name)

    async def create(self, obj: Object) -> Object:
        self.written.append(obj)
        if obj["kind"] in self.hangs:
            await asyncio.sleep(600)
        refusal = self.refused.get(obj["kind"], self.refusal)
        if refusal is not None:
            raise refusal
        made = {"creationTimestamp": self.made_at}
        if obj["kind"] == "Secret":
            self.secrets[obj["metadata"]["name"]] = obj
        if obj["kind"] == "Job":  # its pods name this uid
            made["uid"] = "made"
        return obj | {"metadata": obj["metadata"] | made}

    async def apply(self, obj: Object, *, subresource: str | None = None, **_: Any) -> Object:
        answer = await self.create(obj)
        return answer if subresource is None else self.job  # a write that the cache has seen already

    async def merge(self, kind: Kind, namespace: str, name: str, patch: Object, _: str = "") -> Object:
        meta = {"name": name, "namespace": namespace, "labels": {"nitro.dev/job": "hopper"}}
        return await self.create({"kind": kind.kind, **patch, "metadata": meta | patch.get("metadata", {})})

    async def delete(self, kind: Kind, obj: Object, *, unchanged: bool = False, **_: Any) -> None:
        if kind.kind in self.refused:
            raise self.refused[kind.kind]
        self.deleted.append(kind.kind)
        self.versions.append(obj["metadata"]["resourceVersion"] if unchanged else None)

    async def list(self, kind: Kind, *_: Any, **__: Any) -> list[Object]:
        if kind.kind in self.refused:
            raise self.refused[kind.kind]
        return []


class Bench:
    """A reconciler on a fake API server, with a job whose learner runs, and a clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, running: bool, config: Config = CONFIG) -> None:
        self.kube, self.cache, self.now, self.woken = FakeKube(), Cache(), 0.0, list[JobKey]()
        self.platform = Platform(Limits())
        self.told: list[Condition] = []
        """The events that were posted."""
        monkeypatch.setattr("nitro_operator.reconcile.job._now", lambda: self.now)
        self.cache.put(TRAINING_JOB, self.kube.job)
        if running:
            child = {"namespace": "team", "resourceVersion": "1", "labels": {"nitro.dev/job": "hopper"}}
            self.cache.put(LEARNER_JOB, learner_job(creationTimestamp="2026-01-01T00:00:00Z", **child))
            self.cache.put(POD, pod("learner", redis=RUNNING, learner=RUNNING))
        release = KnativeRelease()
        release.problem = None
        self.functions = FunctionController(
            self.kube,  # type: ignore[arg-type]
            self.cache,
            Aws(),
            lambda *_: None,
            self.woken.append,
            (),
        )
        self.starter = Starter(self.kube, self.cache, release)  # type: ignore[arg-type]
        self.reconciler = Reconciler(
            self.kube,  # type: ignore[arg-type]
            self.cache,
            self.platform,
            release,
            self.functions,
            config,
            lambda _, condition: self.told.append(condition),
            self.woken.append,
            self.starter,
        )


async def has_secret(*_: object) -> bool:
    """The job's Secret is there."""
    return True


async def note(notes: list[Any], value: Any) -> None:
    notes.append(value)


def conditions_of(bench: Bench) -> dict[str, Object]:
    """As last published."""
    written = [obj for obj in bench.kube.written if obj["kind"] == "NitroTrainingJob"]
    return {one["type"]: one for one in written[-1]["status"]["conditions"]}
