"""The controller's loops: lists beside watches, and whether all of it is alive."""

from __future__ import annotations

import asyncio
import dataclasses
import socket
import urllib.error
import urllib.request
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from nitro_operator.controller import LISTS, Controller
from nitro_operator.kube.errors import ApiError
from nitro_operator.kube.kinds import LEASE, NAMESPACE, TRAINING_JOB, JobKey, Kind
from nitro_operator.kube.queue import WorkQueue
from nitro_operator.reconcile.job import Reconciler
from operator_objects import CONFIG, make_job
from ports import free_ports

Object = dict[str, Any]


class FakeKube:
    """An API server with jobs alone; `meanwhile` happens while a list of what jobs need is on its way."""

    def __init__(self) -> None:
        self.jobs: list[Object] = []
        self.meanwhile: Callable[[Kind], None] = lambda _: None
        self.namespaces = {"team"}
        self.closed: set[str | None] = set()

    def server_now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    async def get(self, kind: Kind, *_: Any) -> Object:
        raise ApiError(404, "NotFound", str(kind))

    async def list(self, kind: Kind, namespace: str | None, **query: str) -> list[Object]:
        if kind is LEASE:
            return []
        if kind is NAMESPACE:
            return [{} for name in self.namespaces if query["fieldSelector"] == f"metadata.name={name}"]
        if namespace in self.closed:
            raise ApiError(403, "Forbidden", f"cannot list {kind} in {namespace}")
        jobs = [job for job in self.jobs if namespace in (None, job["metadata"]["namespace"])]
        found = jobs if kind is TRAINING_JOB else []
        self.meanwhile(kind)
        return found

    async def watch(self, *_: Any, **__: Any) -> AsyncGenerator[Object]:
        await asyncio.Event().wait()  # nothing ever happens
        yield {}

    async def create(self, obj: Object) -> Object:
        return obj

    async def apply(self, obj: Object, **_: Any) -> Object:
        raise ApiError(404, "NotFound", str(obj))

    async def close(self) -> None:
        pass


@pytest.fixture
def kube() -> FakeKube:
    return FakeKube()


@pytest.fixture
async def controller(kube: FakeKube, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Controller]:
    async def connect() -> FakeKube:
        return kube

    monkeypatch.setattr("nitro_operator.controller.connect", connect)
    monkeypatch.setattr("nitro_operator.controller.RELIST_SECONDS", 0.0)
    started = await Controller.start(dataclasses.replace(CONFIG, metrics_port=0, health_port=0))
    yield started
    await started.stop()


async def test_a_job_created_during_a_list_is_not_lost(kube: FakeKube, controller: Controller) -> None:
    known = asyncio.get_running_loop().create_future()

    def meanwhile(kind: Kind) -> None:
        if kind is TRAINING_JOB and not kube.jobs:
            kube.jobs.append(make_job(suspend=True))
            controller.notice(TRAINING_JOB, {"type": "ADDED", "object": kube.jobs[0]})
        elif kube.jobs and not known.done():  # the list that it came beside has been taken over
            known.set_result(controller.cache.job(JobKey("team", "hopper")) is not None)

    kube.meanwhile = meanwhile
    assert await asyncio.wait_for(known, 120)


async def test_what_is_deleted_while_a_watch_has_lost_its_version_leaves_the_cache(
    kube: FakeKube, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next list of this kind in turn would come minutes later. The first one fails and is tried again."""
    kube.jobs = [make_job(suspend=True)]
    refusals = [ApiError(410, "Expired", "too old"), ApiError(500, "InternalError", "etcd")]
    list_at_once = kube.list

    async def connect() -> FakeKube:
        return kube

    async def watch(
        kind: Kind, _: str | None, since: str | None, begun: Callable[[], None], **__: str
    ) -> AsyncGenerator[Object]:
        if kind is TRAINING_JOB and since is None and kube.jobs:
            yield {"type": "ADDED", "object": kube.jobs[0]}
            kube.jobs.clear()
            raise refusals.pop(0)
        begun()
        await asyncio.Event().wait()

    async def list_later(kind: Kind, namespace: str | None, **query: str) -> list[Object]:
        if kind is TRAINING_JOB and len(refusals) == 1:
            raise refusals.pop(0)
        return await list_at_once(kind, namespace, **query)

    monkeypatch.setattr("nitro_operator.controller.connect", connect)
    monkeypatch.setattr("nitro_operator.controller.RELIST_SECONDS", 600.0)
    monkeypatch.setattr("nitro_operator.kube.queue.FIRST_RETRY_SECONDS", 0.01)
    monkeypatch.setattr(kube, "watch", watch)
    monkeypatch.setattr(kube, "list", list_later)
    controller = await Controller.start(dataclasses.replace(CONFIG, metrics_port=0, health_port=0))
    assert controller.cache.job(JobKey("team", "hopper")) is not None
    noticed, gone = Reconciler.noticed, asyncio.Event()

    def note(reconciler: Reconciler, key: JobKey, *, held_back: bool = False) -> bool:
        if controller.cache.job(key) is None:
            gone.set()
        return noticed(reconciler, key, held_back=held_back)

    monkeypatch.setattr(Reconciler, "noticed", note)
    await asyncio.wait_for(gone.wait(), 120)
    assert refusals == []
    await controller.stop()


async def test_one_kind_is_listed_once_at_a_time(
    kube: FakeKube, controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cache compares one list with what has come since the list was asked for."""
    under_way: list[Kind] = []
    answered = asyncio.Event()

    async def list_slowly(kind: Kind, *_: Any, **__: Any) -> list[Object]:
        assert kind not in under_way
        under_way.append(kind)
        for _ in range(10):  # until all others that may have begun
            await asyncio.sleep(0)
        under_way.remove(kind)
        if kind is TRAINING_JOB:
            answered.set()
        return []

    monkeypatch.setattr(kube, "list", list_slowly)
    for _ in range(20):
        answered.clear()
        controller.list_again(TRAINING_JOB)
        await asyncio.gather(*(controller.relist(TRAINING_JOB) for _ in range(3)))
        await asyncio.wait_for(answered.wait(), 120)
    controller.check_alive()


class TestAListedNamespaceThatMayNotBeRead:
    """A namespace takes the operator's Role with it: to list there is forbidden, not empty."""

    @pytest.fixture
    async def controller(
        self, kube: FakeKube, monkeypatch: pytest.MonkeyPatch
    ) -> AsyncIterator[Callable[..., Awaitable[Controller]]]:
        started: list[Controller] = []

        async def start(*namespaces: str) -> Controller:
            async def connect() -> FakeKube:
                return kube

            monkeypatch.setattr("nitro_operator.controller.connect", connect)
            config = dataclasses.replace(CONFIG, metrics_port=0, health_port=0, watch_namespaces=namespaces)
            started.append(await asyncio.wait_for(Controller.start(config), 120))
            return started[-1]

        yield start
        for each in started:
            await each.stop()

    def jobs(self, controller: Controller) -> set[str]:
        return {key.namespace for key, _ in controller.cache.jobs()}

    async def test_the_operator_starts_all_the_same(
        self,
        kube: FakeKube,
        controller: Callable[..., Awaitable[Controller]],
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        kube.jobs, kube.closed = [make_job(suspend=True)], {"gone"}
        assert self.jobs(await controller("gone", "team")) == {"team"}
        told = [entry.getMessage() for entry in caplog.records if "gone" in entry.getMessage()]
        assert len(told) == 1, "once, not for each kind"

    async def test_jobs_of_an_unreadable_namespace_are_kept_and_deleted_ones_dropped(
        self, kube: FakeKube, controller: Callable[..., Awaitable[Controller]]
    ) -> None:
        kube.jobs = [make_job(suspend=True), make_job(suspend=True)]
        kube.jobs[1]["metadata"] |= {"namespace": "other", "uid": "other"}
        kube.namespaces = {"team", "other"}
        running = await controller("other", "team")
        assert self.jobs(running) == {"team", "other"}
        kube.closed = {"other"}
        await running.relist(TRAINING_JOB)
        assert self.jobs(running) == {"team", "other"}, "rights may be missing for a moment"
        kube.namespaces = {"team"}
        del kube.jobs[0]
        await running.relist(TRAINING_JOB)
        assert self.jobs(running) == set()

    async def test_a_forbidden_list_of_the_whole_cluster_is_an_error(
        self, kube: FakeKube, controller: Callable[..., Awaitable[Controller]]
    ) -> None:
        running = await controller()
        kube.closed = {None}
        with pytest.raises(ApiError, match="Forbidden"):
            await running.relist(TRAINING_JOB)


async def test_the_probes_are_answered_before_the_first_list(
    kube: FakeKube, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kubelet would end an operator that is silent while it lists a large cluster."""
    metrics_port, health_port = free_ports(2)
    config = dataclasses.replace(CONFIG, metrics_port=metrics_port, health_port=health_port)
    listing, go_on = asyncio.Event(), asyncio.Event()
    list_at_once = kube.list

    async def connect() -> FakeKube:
        return kube

    async def late(*arguments: Any, **query: str) -> list[Object]:
        listing.set()
        await go_on.wait()
        return await list_at_once(*arguments, **query)

    def status(host: str, path: str) -> int:
        try:
            with urllib.request.urlopen(f"http://{host}:{health_port}{path}", timeout=60) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    async def probes(host: str = "127.0.0.1") -> list[int]:
        return [await asyncio.to_thread(status, host, path) for path in ("/healthz", "/readyz")]

    monkeypatch.setattr("nitro_operator.controller.connect", connect)
    monkeypatch.setattr(kube, "list", late)
    start = asyncio.create_task(Controller.start(config))
    await asyncio.wait_for(listing.wait(), 120)
    assert await probes() == [200, 503]
    if has_ipv6():
        assert await probes("[::1]") == [200, 503]
    go_on.set()
    controller = await asyncio.wait_for(start, 120)
    assert await probes() == [200, 200]
    await controller.stop()


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


async def test_many_namespaces_are_listed_side_by_side(
    kube: FakeKube, monkeypatch: pytest.MonkeyPatch
) -> None:
    under_way, most = 0, 0

    async def connect() -> FakeKube:
        return kube

    async def list_slowly(*_: Any, **__: Any) -> list[Object]:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        for _ in range(LISTS):  # until all others that may have begun
            await asyncio.sleep(0)
        under_way -= 1
        return []

    monkeypatch.setattr("nitro_operator.controller.connect", connect)
    monkeypatch.setattr(kube, "list", list_slowly)
    namespaces = tuple(f"team-{number}" for number in range(120))
    config = dataclasses.replace(CONFIG, metrics_port=0, health_port=0, watch_namespaces=namespaces)
    controller = await asyncio.wait_for(Controller.start(config), 120)
    assert most == LISTS
    await controller.stop()


async def test_the_probe_reports_a_loop_that_has_ended(kube: FakeKube, controller: Controller) -> None:
    def break_down(kind: Kind) -> None:
        raise ValueError(f"{kind}: something that nobody thought of")

    controller.check_alive()
    kube.meanwhile = break_down
    relisting = [task for task in asyncio.all_tasks() if task.get_name() == "relist"]
    await asyncio.wait(relisting, timeout=120)
    with pytest.raises(RuntimeError, match="'relist' has ended"):
        controller.check_alive()


@pytest.fixture
def queues(monkeypatch: pytest.MonkeyPatch) -> list[WorkQueue[Any]]:
    """The work queues of a controller that starts after this: of jobs, functions and lists."""
    started, start = list[WorkQueue[Any]](), WorkQueue.start

    def note(queue: WorkQueue[Any]) -> None:
        start(queue)
        started.append(queue)

    monkeypatch.setattr(WorkQueue, "start", note)
    return started


@pytest.mark.parametrize("number", [0, 1])
async def test_the_probe_reports_a_worker_that_has_ended(
    queues: list[WorkQueue[Any]], controller: Controller, number: int
) -> None:
    worker = queues[number].loops[1]
    worker.cancel()
    await asyncio.wait({worker}, timeout=120)
    with pytest.raises(RuntimeError, match="'reconcile-1' has ended"):
        controller.check_alive()


async def test_a_job_that_cannot_be_noticed_stops_neither_a_start_nor_the_loop_of_lists(
    kube: FakeKube, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def connect() -> FakeKube:
        return kube

    def fail(*_: Any) -> None:
        raise OverflowError("date value out of range")

    monkeypatch.setattr("nitro_operator.controller.connect", connect)
    monkeypatch.setattr("nitro_operator.reconcile.job.Reconciler.noticed", fail)
    kube.jobs = [make_job(suspend=True)]
    controller = await Controller.start(dataclasses.replace(CONFIG, metrics_port=0, health_port=0))
    try:
        controller.check_alive()
        assert "a change of the job team/hopper could not be read" in caplog.text
    finally:
        await controller.stop()
