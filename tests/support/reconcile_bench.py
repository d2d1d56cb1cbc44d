"""A reconciler on a fake API server, with a job, a learner's pod and a clock that the test sets."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

from nitro_operator.backends import KnativeRelease
from nitro_operator.builders.actors import MIN_SCALE
from nitro_operator.config import Config
from nitro_operator.functions import Aws, FunctionController
from nitro_operator.kube.cache import Cache
from nitro_operator.kube.errors import ApiError
from nitro_operator.kube.kinds import LEARNER_JOB, POD, REVISION, SECRET, TRAINING_JOB, JobKey, Kind, kind_of
from nitro_operator.reconcile.job import Reconciler
from nitro_operator.reconcile.start import Starter
from nitro_operator.scaling.grants import Limits
from nitro_operator.scaling.platform import Platform
from nitro_operator.status.conditions import Condition
from operator_objects import CONFIG, RUNNING, learner_job, make_job, pod, revision

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
        self.unreadable: ApiError | None = None
        self.read: list[Kind] = []
        self.written: list[Object] = []
        self.secrets: dict[str, Object] = {}  # by name
        self.deleted: list[str] = []  # kinds
        self.versions: list[str | None] = []  # that the deletions asked for
        self.refused: dict[Kind, ApiError] = {}
        self.hangs: set[str] = set()  # kinds
        self.made_at = "2026-01-01T00:00:00Z"

    def server_now(self) -> datetime:
        return datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC)

    async def get(self, kind: Kind, _: str, name: str) -> Object:
        self.read.append(kind)
        if self.unreadable is not None:
            raise self.unreadable
        if kind is TRAINING_JOB:
            return self.job
        if name in self.secrets:
            return self.secrets[name]
        raise ApiError(404, "NotFound", name)

    async def create(self, obj: Object) -> Object:
        return await self._write(kind_of(obj), obj)

    async def _write(self, kind: Kind, obj: Object) -> Object:
        self.written.append(obj)
        if kind.kind in self.hangs:
            await asyncio.sleep(600)
        refusal = self.refused.get(kind, self.refusal)
        if refusal is not None:
            raise refusal
        made = {"creationTimestamp": self.made_at}
        if kind is SECRET:
            self.secrets[obj["metadata"]["name"]] = obj
        if kind is LEARNER_JOB:  # its pods name this uid
            made["uid"] = "made"
        return obj | {"metadata": obj["metadata"] | made}

    async def apply(self, obj: Object, *, subresource: str | None = None, **_: Any) -> Object:
        answer = await self.create(obj)
        return answer if subresource is None else self.job  # a write that the cache has seen already

    async def merge(self, kind: Kind, namespace: str, name: str, patch: Object, *_: str | None) -> Object:
        meta = {"name": name, "namespace": namespace, "labels": {"nitro.dev/job": "hopper"}}
        patched = {"kind": kind.kind, **patch, "metadata": meta | patch.get("metadata", {})}
        answer = await self._write(kind, patched)
        # Older than what the cache has, so that an object with a version stays as the test has made it.
        return answer | {"metadata": answer["metadata"] | {"resourceVersion": "0"}}

    async def delete(self, kind: Kind, obj: Object, *, unchanged: bool = False, **_: Any) -> None:
        if kind in self.refused:
            raise self.refused[kind]
        self.deleted.append(kind.kind)
        self.versions.append(obj["metadata"]["resourceVersion"] if unchanged else None)

    async def list(self, kind: Kind, *_: Any, **__: Any) -> list[Object]:
        if kind in self.refused:
            raise self.refused[kind]
        return []


class Bench:
    """A reconciler on a fake API server, with a job whose learner runs, and a clock."""

    def __init__(self, *, running: bool, config: Config = CONFIG) -> None:
        self.kube, self.cache, self.now, self.woken = FakeKube(), Cache(), 0.0, list[JobKey]()
        self.platform = Platform(Limits())
        self.told: list[Condition] = []
        """The events that were posted."""
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
            lambda: self.now,
        )

    def has_revision(self, ready: str = "True", version: int = 1, **annotations: str) -> None:
        """Cache the Revision of the job's actors."""
        found = revision(ready, **annotations)
        about = {"namespace": "team", "labels": {"nitro.dev/job": "hopper"}, "resourceVersion": str(version)}
        kind = {"apiVersion": REVISION.api_version, "kind": REVISION.kind}
        self.cache.put(REVISION, found | kind | {"metadata": found["metadata"] | about})

    @property
    def scales(self) -> list[int]:
        """The numbers of pods that the Revision was set to."""
        patches = [one for one in self.kube.written if one["kind"] == REVISION.kind]
        return [int(one["metadata"]["annotations"][MIN_SCALE]) for one in patches]


async def has_secret(*_: object) -> bool:
    """The job's Secret is there."""
    return True


async def note(notes: list[Any], value: Any) -> None:
    notes.append(value)


def conditions_of(bench: Bench, published: int = -1) -> dict[str, Object]:
    """As published at that time: last, or the first, second, ... time."""
    written = [obj for obj in bench.kube.written if obj["kind"] == "NitroTrainingJob"]
    return {one["type"]: one for one in written[published]["status"]["conditions"]}
