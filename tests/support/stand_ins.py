"""Small real HTTP servers in place of actors, which misbehave as a test tells them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import redis.asyncio
from aiohttp import web

from dispatch_support import ENVIRONMENT, ack_json, stored
from nitro_actor import wire

Answer = web.StreamResponse
Handler = Callable[[web.Request], Awaitable[Answer]]
Behaviour = Callable[["StandIn", dict[str, Any], web.Request], Awaitable[Answer]]


class StandIn:
    """Serves /v1/spec and /v1/rollout; ``script[slot]`` lists what its attempts do, then `good`."""

    def __init__(self, redis_url: str) -> None:
        self.redis = redis.asyncio.from_url(redis_url)
        self.script: dict[int, list[Behaviour]] = {}
        self.default: Behaviour = good
        self.tokens: set[str | None] = set()

    async def push(self, meta: dict[str, Any], message: bytes) -> None:
        """Stores a message where the request wants its fragment."""
        await self.redis.rpush(meta["result"]["key"], message)

    async def rollout(self, request: web.Request) -> Answer:
        self.tokens.add(request.headers.get("Authorization"))
        meta, _ = wire.decode(await request.read())
        script = self.script.get(meta["slot"], [])
        behave = script[meta["attempt"]] if meta["attempt"] < len(script) else self.default
        return await behave(self, meta, request)


async def good(actor: StandIn, meta: dict[str, Any], _: web.Request) -> Answer:
    """An actor that does what it should."""
    await actor.push(meta, stored(meta))
    return web.json_response(ack_json(meta))


def pushing(*changes: Callable[[dict[str, Any]], bytes]) -> Behaviour:
    """Stores wrong messages and says that all is well."""

    async def behave(actor: StandIn, meta: dict[str, Any], _: web.Request) -> Answer:
        for change in changes:
            await actor.push(meta, change(meta))
        return web.json_response(ack_json(meta))

    return behave


def answering(status: int, body: bytes | dict[str, Any] = b"") -> Behaviour:
    """Answers without doing anything."""

    async def behave(_actor: StandIn, _meta: dict[str, Any], _request: web.Request) -> Answer:
        if isinstance(body, dict):
            return web.json_response(body, status=status)
        return web.Response(status=status, body=body)

    return behave


@asynccontextmanager
async def serve(actor: StandIn, spec: dict[str, Any] = ENVIRONMENT) -> AsyncIterator[str]:
    """The actor on a free port of loopback: its URL."""

    async def environment(_: web.Request) -> web.Response:
        return web.json_response(spec)

    try:
        async with served(environment, actor.rollout) as url:
            yield url
    finally:
        await actor.redis.aclose()


@asynccontextmanager
async def served(environment: Handler, rollout: Handler | None = None) -> AsyncIterator[str]:
    """What answers /v1/spec, and /v1/rollout, on a free port of loopback: its URL."""
    app = web.Application()
    app.router.add_get("/v1/spec", environment)
    if rollout:
        app.router.add_post("/v1/rollout", rollout)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        await runner.cleanup()
