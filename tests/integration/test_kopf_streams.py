"""What kopf does on answers of an API server that the operator's own watches survive, and what it asks.

kopf runs as in an operator that has `@kopf.on.event` for jobs. If a later release of kopf goes on in a case,
that case no longer speaks against its streams.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import kopf
import pytest
from aiohttp import web

from nitro_operator import main  # noqa: F401  registers the handlers
from nitro_operator.config import Config
from nitro_operator.controller import Controller
from nitro_operator.kube.client import Kube
from nitro_operator.kube.kinds import DEFINITION, NAMESPACE, TRAINING_JOB
from operator_objects import CONFIG, make_job
from scripted_api import Answer, Object, ScriptedApi

LEVELS = 1500
"""More than Python's recursion allows."""
LIMIT_SECONDS = 120
STATUS_WRITTEN = f"PATCH {TRAINING_JOB.path('team', 'after', 'status')}"
KOPFS = (NAMESPACE, DEFINITION)
"""The kinds that kopf itself watches, unless it is told not to."""
STATUS: Object = {"kind": "Status", "apiVersion": "v1", "status": "Failure"}


def job(name: str) -> Object:
    found = make_job(suspend=True)
    found["metadata"] |= {"name": name, "uid": name}
    return found


def line(kind: str, obj: Object) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


def sends(line: bytes, *, ends: bool = False) -> Answer:
    """A watch that sends a line, and ends then or goes on as usual."""

    async def answer(api: ScriptedApi, request: web.Request) -> web.StreamResponse:
        return web.Response(body=line) if ends else await api.watch(request, line)

    return answer


def refuses(status: int, reason: str) -> Answer:
    async def answer(*_: Any) -> web.StreamResponse:
        return web.json_response(STATUS | {"code": status, "reason": reason}, status=status)

    return answer


async def login_page(*_: Any) -> web.StreamResponse:
    """What a proxy in between answers."""
    return web.Response(text="<html>sign in</html>", content_type="text/html")


async def first_page(*_: Any) -> web.StreamResponse:
    return web.json_response({"metadata": {"continue": "1"}, "items": [job("first")]})


def deep() -> bytes:
    nested = json.dumps({"type": "ADDED", "object": job("deep")})
    return nested.replace('"Hopper-v5"', "[" * LEVELS + "]" * LEVELS).encode() + b"\n"


WATCHES: dict[str, list[Answer]] = {
    "an object nested too deeply": [sends(deep())],
    "an error event": [sends(line("ERROR", STATUS | {"code": 500, "message": "etcdserver: leader changed"}))],
    "an error event without a code": [sends(line("ERROR", STATUS))],
    "a line that ends in its middle": [sends(line("ADDED", job("cut"))[:200], ends=True)],
    "a kind that is not served for a moment": [refuses(404, "NotFound")],
    "a token that is refused for a moment": [refuses(401, "Unauthorized")],
}
LISTS: dict[str, list[Answer]] = {
    "a list whose second page came too late": [first_page, refuses(410, "Expired")],
    "a list that a proxy answers": [login_page],
}
CASES = [
    *({"watches": script} for script in WATCHES.values()),
    *({"lists": script} for script in LISTS.values()),
]


@pytest.fixture(params=CASES, ids=[*WATCHES, *LISTS])
async def api(request: pytest.FixtureRequest) -> AsyncIterator[ScriptedApi]:
    script = {name: list(answers) for name, answers in request.param.items()}
    async with ScriptedApi(**script).serve() as served:
        yield served


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.setattr("nitro_operator.kube.watch.FIRST_RETRY_SECONDS", 0.01)
    monkeypatch.setattr("nitro_operator.kube.client.FIRST_BACKOFF_SECONDS", 0.01)
    return dataclasses.replace(CONFIG, metrics_port=0, health_port=0, watch_namespaces=("team",))


async def test_an_answer_that_ends_kopfs_operator_does_not_end_ours(
    api: ScriptedApi, config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nitro_operator.controller.connect", connects(api))
    async with asyncio.timeout(LIMIT_SECONDS):
        controller = await Controller.start(config)
        try:
            await api.all_answered.wait()
            await api.store(job("after"))
            await api.until_asked(STATUS_WRITTEN)
            controller.check_alive()
        finally:
            await controller.stop()


async def test_it_ends_kopfs(api: ScriptedApi) -> None:
    running = asyncio.create_task(kopf_operator(api))
    await asyncio.wait({running}, timeout=LIMIT_SECONDS)
    assert running.done()
    assert running.exception() is not None


async def test_kopfs_operator_goes_on_while_all_is_well() -> None:
    seen, stop = asyncio.Event(), asyncio.Event()
    async with ScriptedApi().serve() as api, asyncio.timeout(LIMIT_SECONDS):
        await api.store(job("after"))
        running = asyncio.create_task(kopf_operator(api, lambda **_: seen.set(), stop))
        await seen.wait()
        stop.set()
        await running


async def test_kopf_watches_nothing_in_our_operator(
    config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = asyncio.Event()
    async with ScriptedApi().serve() as api, asyncio.timeout(LIMIT_SECONDS):
        monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(tmp_path)))
        monkeypatch.setattr("nitro_operator.controller.connect", connects(api))
        registry, memo = kopf.get_default_registry(), kopf.Memo(config=config)  # with main's handlers
        operator = kopf.operator(
            registry=registry, memo=memo, clusterwide=True, standalone=True, stop_flag=stop
        )
        running = asyncio.create_task(operator)
        await api.until_asked(*(f"GET {kind.path().rpartition('/')[0]}" for kind in KOPFS))
        await api.store(job("after"))
        await api.until_asked(STATUS_WRITTEN)
        stop.set()
        await running
    assert not {f"GET {kind.path()}" for kind in KOPFS} & set(api.asked)


def connects(api: ScriptedApi) -> Callable[[], Awaitable[Kube]]:
    async def connect() -> Kube:
        return api.client()

    return connect


async def kopf_operator(
    api: ScriptedApi, notice: Callable[..., None] = lambda **_: None, stop: asyncio.Event | None = None
) -> None:
    """kopf with one handler of events; its waits are shorter, and its lists have pages."""
    registry, settings = kopf.OperatorRegistry(), kopf.OperatorSettings()
    settings.process.ultimate_exiting_timeout = None
    settings.networking.error_backoffs = (0.01, 0.01)
    settings.watching.reconnect_backoff = 0.0
    settings.watching.chunk_size = 1

    @kopf.on.login(registry=registry)
    def login(**_: Any) -> kopf.ConnectionInfo:
        return kopf.ConnectionInfo(server=api.url, token="t")

    kopf.on.event(TRAINING_JOB.group, TRAINING_JOB.version, TRAINING_JOB.plural, registry=registry)(notice)
    await kopf.operator(
        registry=registry, settings=settings, clusterwide=True, standalone=True, stop_flag=stop
    )
