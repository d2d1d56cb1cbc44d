"""An API server that serves jobs alone, and answers lists and watches of them as a test says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio.client import ApiClient, Configuration

from nitro_operator.kube.client import Kube
from nitro_operator.kube.kinds import DEFINITION, NAMESPACE, TRAINING_JOB, Kind

Object = dict[str, Any]
Answer = Callable[["ScriptedApi", web.Request], Awaitable[web.StreamResponse]]

DISCOVERED = (NAMESPACE, DEFINITION, TRAINING_JOB)
"""The kinds that its discovery tells; kopf waits for the first two."""
JOBS = (TRAINING_JOB.path(), TRAINING_JOB.path("team"))


class ScriptedApi:
    """`lists` and `watches` are answers to requests about jobs, each for one request; then all is well.

    Usage::

        async with ScriptedApi(watches=[cut_line]).serve() as api:
            api.store(job)
    """

    def __init__(self, lists: list[Answer] | None = None, watches: list[Answer] | None = None) -> None:
        self._lists = lists or []
        self._watches = watches or []
        self._jobs: list[Object] = []
        self._changed = asyncio.Condition()
        self.url = ""
        self.asked: list[str] = []
        """Method and path of every request."""
        self.all_answered = asyncio.Event()
        """Set when a watch goes well after all answers of the script."""

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[ScriptedApi]:
        app = web.Application(client_max_size=2**26)
        app.router.add_route("*", "/{path:.*}", self._answer)
        async with TestServer(app, shutdown_timeout=0.1) as server:
            self.url = str(server.make_url("")).rstrip("/")
            yield self

    def client(self) -> Kube:
        """The operator's client of it."""
        configuration = Configuration()
        configuration.host = self.url
        return Kube(ApiClient(configuration))

    def kubeconfig(self, folder: Path) -> Path:
        """A kubeconfig file with which programs reach it."""
        path = folder / "kubeconfig"
        context = {"cluster": "it", "user": "me"}
        content = {
            "current-context": "it",
            "clusters": [{"name": "it", "cluster": {"server": self.url}}],
            "users": [{"name": "me", "user": {"token": "t"}}],
            "contexts": [{"name": "it", "context": context}],
        }
        path.write_text(yaml.safe_dump(content))
        return path

    async def store(self, *jobs: Object) -> None:
        """Store jobs. The watches that go well report them; a job may come again, changed."""
        async with self._changed:
            self._jobs += jobs
            self._changed.notify_all()

    async def until_asked(self, *requests: str) -> None:
        """Return when all of these, each a method and a path, have come."""
        async with self._changed:
            await self._changed.wait_for(lambda: set(requests) <= set(self.asked))

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(f"{request.method} {request.path}")
        async with self._changed:
            self._changed.notify_all()
        if request.path in JOBS and request.method == "GET":
            watches = "watch" in request.query
            script = self._watches if watches else self._lists
            if script:
                return await script.pop(0)(self, request)
            return await (self.watch(request) if watches else self._list(request))
        if request.method != "GET":
            return web.json_response(await _stored(request))
        if "watch" in request.query:
            await asyncio.Event().wait()  # nothing ever happens
        return web.json_response(_discovery(request.path) or {"metadata": {}, "items": []})

    async def _list(self, request: web.Request) -> web.StreamResponse:
        newest = {job["metadata"]["name"]: job for job in self._jobs}
        at, most = int(request.query.get("continue", 0)), int(request.query.get("limit", 0)) or len(newest)
        items = list(newest.values())[at : at + most]
        following = str(at + most) if at + most < len(newest) else ""
        about = {"resourceVersion": str(len(self._jobs)), "continue": following}
        return web.json_response({"metadata": about, "items": items})

    async def watch(self, request: web.Request, *lines: bytes) -> web.StreamResponse:
        """Send these lines, and then every job that is stored."""
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"".join(lines))
        told = int(request.query.get("resourceVersion", 0))
        if not self._watches and not self._lists:
            self.all_answered.set()
        while True:
            new = self._jobs[told:]
            told += len(new)
            text = "".join(json.dumps({"type": "MODIFIED", "object": job}) + "\n" for job in new)
            await response.write(text.encode())
            async with self._changed:
                while len(self._jobs) == told:
                    await self._changed.wait()


async def _stored(request: web.Request) -> Object:
    """A written object as it is stored."""
    found: Object = yaml.safe_load(await request.text()) or {}
    return found | {"metadata": {"resourceVersion": "1"} | found.get("metadata", {})}


def _discovery(path: str) -> Object | None:
    if path == "/api":
        return {"versions": ["v1"]}
    if path == "/apis":
        groups = [kind for kind in DISCOVERED if kind.group]
        return {"groups": [_group(kind) for kind in groups]}
    kinds = [kind for kind in DISCOVERED if path == kind.path().rpartition("/")[0]]
    return {"resources": [_resource(kind) for kind in kinds]} if kinds else None


def _group(kind: Kind) -> Object:
    version = {"groupVersion": kind.api_version, "version": kind.version}
    return {"name": kind.group, "versions": [version], "preferredVersion": version}


def _resource(kind: Kind) -> Object:
    return {
        "name": kind.plural,
        "kind": kind.kind,
        "singularName": kind.kind.lower(),
        "namespaced": kind is TRAINING_JOB,
        "verbs": ["get", "list", "watch", "create", "patch", "delete"],
    }
