"""The client of the API server: tries after failures, and what a refusal means."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio.client import ApiClient, Configuration

from nitro_operator.kube.client import Kube
from nitro_operator.kube.errors import ApiError, refusal_of
from nitro_operator.kube.kinds import TRAINING_JOB
from operator_objects import make_job
from reconcile_bench import GOING
from replicas_support import replicas

Object = dict[str, Any]
Handler = Callable[[web.Request], Awaitable[web.Response]]


async def test_a_failing_api_server_is_replaced_by_another_replica(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nitro_operator.kube.client.FIRST_BACKOFF_SECONDS", 0.0)
    with replicas(make_job()) as servers:
        configuration = Configuration()
        configuration.host = servers.url
        kube = Kube(ApiClient(configuration))
        for _ in range(5):
            assert await kube.get(TRAINING_JOB, "team", "hopper") == make_job()
        await kube.close()
        assert servers.connections == 3, "the ill one's, that of the last try, and one that is kept"


class Pages:
    """An API server that hands out seven jobs in pages, each only after some time."""

    def __init__(self, delay: float) -> None:
        self._delay = delay
        self.limits: list[int] = []

    async def answer(self, request: web.Request) -> web.Response:
        await asyncio.sleep(self._delay)
        limit, start = int(request.query["limit"]), int(request.query.get("continue", 0))
        self.limits.append(limit)
        items = [{"metadata": {"name": f"job-{number}"}} for number in range(start, min(start + limit, 7))]
        following = {"continue": str(start + limit)} if start + limit < 7 else {}
        return web.json_response({"metadata": following, "items": items})


@asynccontextmanager
async def client(method: str, path: str, answer: Handler) -> AsyncIterator[Kube]:
    """A client of a server that answers one request."""
    app = web.Application()
    app.router.add_route(method, path, answer)
    async with TestServer(app) as server:
        configuration = Configuration()
        configuration.host = str(server.make_url("")).rstrip("/")
        kube = Kube(ApiClient(configuration))
        try:
            yield kube
        finally:
            await kube.close()


async def listed(pages: Pages) -> list[Object]:
    async with client("GET", TRAINING_JOB.path("team"), pages.answer) as kube:
        return await kube.list(TRAINING_JOB, "team")


async def test_a_list_is_read_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nitro_operator.kube.client.PAGE_JOBS", 3)
    pages = Pages(delay=0)
    found = await listed(pages)
    assert [job["metadata"]["name"] for job in found] == [f"job-{number}" for number in range(7)]
    assert {job["kind"] for job in found} == {"NitroTrainingJob"}
    assert pages.limits == [3, 3, 3]


async def test_a_read_that_takes_long_gets_more_time_at_each_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nitro_operator.kube.client.TIMEOUT_SECONDS", 1.0)
    monkeypatch.setattr("nitro_operator.kube.client.FIRST_BACKOFF_SECONDS", 0.0)
    assert len(await listed(Pages(delay=1.5))) == 7


async def test_a_write_is_not_tried_again_once_the_lease_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nitro_operator.kube.client.FIRST_BACKOFF_SECONDS", 0.0)
    asked = 0

    async def refuse(_: web.Request) -> web.Response:
        nonlocal asked
        asked += 1
        return web.Response(status=503)

    async with client("DELETE", TRAINING_JOB.path("team", "hopper"), refuse) as kube:
        kube.may_write = lambda: asked < 2
        with pytest.raises(ApiError, match="holds no Lease"):
            await kube.delete(
                TRAINING_JOB, {"metadata": {"namespace": "team", "name": "hopper", "uid": "uid"}}
            )
    assert asked == 2


@pytest.mark.parametrize(
    ("answers", "asked", "message"),
    [
        ([], 2, "TimeoutError"),
        ([500], 3, "failed calling webhook"),  # which says more than a later time-out
        ([500, 500, 500], 4, "failed calling webhook"),
        ([422], 1, "failed calling webhook"),
    ],
)
async def test_a_write_ends_in_time_with_all_its_tries(
    monkeypatch: pytest.MonkeyPatch, answers: list[int], asked: int, message: str
) -> None:
    """It gets these answers, and after them none."""
    monkeypatch.setattr("nitro_operator.kube.client.TIMEOUT_SECONDS", 1.0)
    monkeypatch.setattr("nitro_operator.kube.client.WRITE_TIMEOUT_SECONDS", 1.5)
    monkeypatch.setattr("nitro_operator.kube.client.FIRST_BACKOFF_SECONDS", 0.01)
    given = iter(answers)
    requests = 0

    async def answer(_: web.Request) -> web.Response:
        nonlocal requests
        requests += 1
        status = next(given, None)
        if status is None:
            await asyncio.Event().wait()
        return web.json_response({"message": "failed calling webhook"}, status=status or 200)

    async with client("DELETE", TRAINING_JOB.path("team", "hopper"), answer) as kube, asyncio.timeout(30):
        with pytest.raises(ApiError, match=message):
            await kube.delete(
                TRAINING_JOB, {"metadata": {"namespace": "team", "name": "hopper", "uid": "uid"}}
            )
    assert requests == asked


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"message": GOING}, True),
        ({"message": "no", "details": {"causes": [{"reason": "NamespaceTerminating"}]}}, True),
        ({"message": "no", "details": None}, False),
    ],
)
def test_a_terminating_namespace_is_distinguished_from_a_missing_right(told: Object, expected: bool) -> None:
    assert refusal_of(403, json.dumps(told).encode()).namespace_terminating is expected
    assert not refusal_of(409, json.dumps(told).encode()).namespace_terminating
