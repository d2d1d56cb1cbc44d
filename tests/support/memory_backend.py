"""Actors in this process: the production actor, environment, messages and cache, without any network."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

from nitro_actor import wire
from nitro_actor.actor import Actor
from nitro_actor.config import EnvironmentConfig
from nitro_actor.function import Function
from nitro_actor.make_env import make_env, with_kwargs
from nitro_actor.protocol import request as protocol
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_api import JobSpec
from nitro_learner.backends.actor_answers import read_ack, read_failure, read_spec
from nitro_learner.backends.base import ROLLOUT, Ack, answering
from nitro_learner.backends.cache.memory_cache import MemoryCache
from nitro_learner.backends.capacity import Capacity

Request = dict[str, Any]


async def _work(_: Request) -> None:
    """Go on with the request."""


class MemoryBackend:
    """An ActorBackend whose one actor works on requests in turn, in the event loop's thread.

    ``before(request)`` is awaited before each; it may raise, hang, or look at the metadata. ``requests``
    holds the metadata of all that began, and the names of the end state that came with them.
    """

    grace_seconds = 0.0

    def __init__(self, spec: JobSpec, *, limit: int = 8) -> None:
        self._config = EnvironmentConfig.from_json(json.dumps(spec.environment.to_actor()))
        self._capacity = Capacity(limit)
        self.new_cache: Callable[[str], MemoryCache] = MemoryCache
        self.cache: MemoryCache | None = None
        self.before: Callable[[Request], Awaitable[None]] = _work
        self.requests: list[Request] = []
        self.running = 0
        self.closed = False

    def open_cache(self, run: str) -> MemoryCache:
        self.cache = self.new_cache(run)
        return self.cache

    @property
    def limit(self) -> int:
        return self._capacity.limit

    @property
    def at_once(self) -> int:
        return self.limit

    @property
    def in_use(self) -> int:
        return self._capacity.in_flight

    def set_limit(self, limit: int) -> None:
        self._capacity.set_limit(limit)

    async def start(self) -> DescribedEnvironment:
        self._function = Function(Actor(make_env(self._config), with_kwargs(self._config)), store=None)
        return read_spec(self._function({"kind": "spec"}, None)["body"], "this process")

    async def invoke(self, asked: protocol.Request, timeout: float, *, priority: int = ROLLOUT) -> Ack:
        await self._capacity.acquire(priority)
        self.running += 1
        try:
            with answering(timeout):
                request = asked.encode()
                meta, state = wire.decode(request)
                self.requests.append(meta | {"state": sorted(state)})
                await self.before(meta)
                return self._answer(request, meta)
        finally:
            self.running -= 1
            self._capacity.release()

    def take_bills(self) -> list[float]:
        return []

    async def close(self) -> None:
        self.closed = True

    def _answer(self, request: bytes, meta: Request) -> Ack:
        assert self.cache is not None
        began = time.perf_counter()
        weights = self.cache.weights(meta["weights"]["key"])
        event = {"kind": "rollout", "request": _text(request), "weights": _text(weights)}
        answer = self._function(event, None)
        seconds = time.perf_counter() - began
        if answer["status"] != 200:
            raise read_failure(answer["status"], answer["body"], seconds)
        self.cache.put(meta["result"]["key"], base64.b64decode(answer["fragment"]))
        return read_ack(answer["body"], seconds)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
