"""The watch of one kind, on an API server that refuses it, ends it or falls silent."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio.client import ApiClient, Configuration

from nitro_operator.kube.client import Kube
from nitro_operator.kube.kinds import POD, Kind
from nitro_operator.kube.watch import Watch
from operator_objects import pod

Object = dict[str, Any]
Turn = Callable[[web.StreamResponse], Awaitable[None]]
LIMIT_SECONDS = 120


async def silence(_: web.StreamResponse) -> None:
    """Nothing more comes, and the connection stays open."""
    await asyncio.Event().wait()


def event(version: int, kind: str = "MODIFIED") -> Turn:
    async def send(stream: web.StreamResponse) -> None:
        changed = pod("actor")
        changed["metadata"]["resourceVersion"] = str(version)
        await stream.write(json.dumps({"type": kind, "object": changed}).encode() + b"\n")

    return send


class Server:
    """Each watch in turn gets a status, or what is sent to it; the last turn is for all that follow."""

    def __init__(self, *turns: int | tuple[Turn, ...]) -> None:
        self._turns = list(turns)
        self.since: list[str | None] = []
        """The version from which each watch began."""
        self.bookmarks: set[str | None] = set()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.since.append(request.query.get("resourceVersion"))
        self.bookmarks.add(request.query.get("allowWatchBookmarks"))
        turn = self._turns.pop(0) if len(self._turns) > 1 else self._turns[0]
        if isinstance(turn, int):
            return web.json_response({"message": "no"}, status=turn)
        stream = web.StreamResponse()
        await stream.prepare(request)
        for step in turn:
            await step(stream)
        return stream


class Followed:
    """A watch on a server, with the versions that it handed on and the lists that it asked for."""

    def __init__(self, kube: Kube, server: Server) -> None:
        self._server = server
        self.versions: list[str] = []
        self.lists: list[int] = []
        """Number of watches begun so far, at each time that a list was asked for."""
        self._called = asyncio.Event()
        self.watch = Watch(kube, POD, None, self._notice, self._list_again)

    def _notice(self, kind: Kind, found: Object) -> None:
        assert kind is POD
        self.versions.append(found["object"]["metadata"]["resourceVersion"])
        self._called.set()

    def _list_again(self, kind: Kind) -> None:
        assert kind is POD
        self.lists.append(len(self._server.since))
        self._called.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(LIMIT_SECONDS):
            while not holds():
                self._called.clear()
                await self._called.wait()


@asynccontextmanager
async def followed(server: Server) -> AsyncIterator[Followed]:
    app = web.Application()
    app.router.add_get(POD.path(None), server.answer)
    async with TestServer(app, shutdown_timeout=0.1) as served:
        configuration = Configuration()
        configuration.host = str(served.make_url("")).rstrip("/")
        kube = Kube(ApiClient(configuration))
        found = Followed(kube, server)
        task = asyncio.create_task(found.watch.run())
        try:
            yield found
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await kube.close()


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nitro_operator.kube.watch.RECONNECT_SECONDS", 0.0)
    monkeypatch.setattr("nitro_operator.kube.watch.FIRST_RETRY_SECONDS", 0.01)


async def test_a_silent_watch_goes_on_from_its_last_version_on_another_connection(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its connection may be half open: a lost node, or a firewall that forgets."""
    monkeypatch.setattr("nitro_operator.kube.client.SILENCE_SECONDS", 0.5)
    pauses: list[int] = []
    monkeypatch.setattr("nitro_operator.kube.watch.pause", lambda failures, *_: pauses.append(failures) or 0)
    server = Server((event(7), event(8, "BOOKMARK"), silence), (silence,), (event(9), silence))
    async with followed(server) as found:
        await found.until(lambda: "9" in found.versions)
    assert server.since[:3] == [None, "8", "8"]
    assert server.bookmarks == {"true"}, "without them every quiet kind would be silent"
    assert pauses == [], "it is no failure"
    assert found.lists == [1], "nothing was missed after its start"
    assert not [entry for entry in caplog.records if entry.levelno >= logging.WARNING]


async def test_a_list_is_asked_for_once_the_next_watch_has_begun_after_a_lost_version() -> None:
    """Neither of the two would tell of a deletion between a list and the watch."""
    server = Server((event(7),), 410, (silence,))
    async with followed(server) as found:
        await found.until(lambda: len(found.lists) == 2)
    assert server.since == [None, "7", None]
    assert found.lists == [1, 3], "the first is for what was deleted since the list that filled the cache"


@pytest.mark.parametrize("status", [403, 404])
async def test_a_list_is_asked_for_once_while_a_kind_is_refused(status: int) -> None:
    server = Server((event(7),), status, status, status, (silence,))
    async with followed(server) as found:
        await found.until(lambda: len(server.since) == 5 and len(found.lists) == 3)
    assert found.lists == [1, 2, 5], "at first, when it was refused, and when it was watched again"


async def test_a_kind_that_is_not_served_needs_no_list() -> None:
    server = Server(404, 404, (event(7), silence))
    async with followed(server) as found:
        await found.until(lambda: found.versions == ["7"])
    assert found.lists == [3], "only when it is served"
