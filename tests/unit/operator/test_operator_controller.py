"""The controller's loops: lists beside watches, and whether all of it is alive."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from operator_objects import CONFIG, make_job

from nitro_operator import controller as module
from nitro_operator.client import ApiError
from nitro_operator.controller import Controller
from nitro_operator.kinds import TRAINING_JOB, JobKey, Kind

Object = dict[str, Any]


class FakeKube:
    """An API server with jobs alone; `meanwhile` happens while a list is on its way."""

    def __init__(self) -> None:
        self.jobs: list[Object] = []
        self.meanwhile: Callable[[Kind], None] = lambda _: None

    def server_now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    async def get(self, kind: Kind, *_: Any) -> Object:
        raise ApiError(404, "NotFound", str(kind))

    async def list(self, kind: Kind, *_: Any, **__: Any) -> list[Object]:
        found = list(self.jobs) if kind is TRAINING_JOB else []
        self.meanwhile(kind)
        return found

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

    monkeypatch.setattr(module, "connect", connect)
    monkeypatch.setattr(module, "RELIST_SECONDS", 0.0)
    started = await Controller.start(dataclasses.replace(CONFIG, metrics_port=0))
    yield started
    await started.stop()


async def test_a_job_that_comes_while_jobs_are_listed_is_not_lost(
    kube: FakeKube, controller: Controller
) -> None:
    known = asyncio.get_running_loop().create_future()

    def meanwhile(kind: Kind) -> None:
        if kind is TRAINING_JOB and not kube.jobs:
            kube.jobs.append(make_job(suspend=True))
            controller.notice(TRAINING_JOB, {"type": "ADDED", "object": kube.jobs[0]})
        elif kube.jobs and not known.done():  # the list that it came beside has been taken over
            known.set_result(controller._cache.job(JobKey("team", "hopper")) is not None)

    kube.meanwhile = meanwhile
    assert await asyncio.wait_for(known, 60)


async def test_a_loop_that_has_ended_is_told_by_the_probe(kube: FakeKube, controller: Controller) -> None:
    def break_down(kind: Kind) -> None:
        raise ValueError(f"{kind}: something that nobody thought of")

    controller.check_alive()
    kube.meanwhile = break_down
    await asyncio.wait(controller._tasks, timeout=60, return_when=asyncio.FIRST_COMPLETED)
    with pytest.raises(RuntimeError, match="'relist' has ended"):
        controller.check_alive()


@pytest.mark.parametrize("queue", [lambda it: it._queue, lambda it: it._functions])
async def test_a_worker_that_has_ended_is_told_by_the_probe(
    controller: Controller, queue: Callable[[Controller], Any]
) -> None:
    worker = queue(controller).loops[1]
    worker.cancel()
    await asyncio.wait({worker}, timeout=60)
    with pytest.raises(RuntimeError, match="'reconcile-1' has ended"):
        controller.check_alive()
