"""Actors as pods of a Knative Revision, reached at its cluster-local address."""

import asyncio
import dataclasses
import logging
import random
from collections.abc import Callable
from typing import Any

from nitro_learner.backends.base import ROLLOUT, Ack, RetryableError
from nitro_learner.backends.capacity import Capacity
from nitro_learner.backends.http import HttpClient
from nitro_learner.cache.redis_cache import RedisCache

_READY_SECONDS = 900.0  # the first pod pulls its image
_PROBE_SECONDS = 30.0
_PAUSE_SECONDS = 2.0
_TOLD_SECONDS = 30.0
"""How often the log says what the learner still waits for."""

logger = logging.getLogger(__name__)


class KnativeBackend:
    """Actors behind one address that Knative spreads over pods; see ActorBackend.

    The operator owns the pods. ``set_limit`` takes what it granted: more requests would only queue in the
    activator, whose time-out counts queueing as well. ``silent`` is called now and then with the reason why
    no actor has answered yet, and None when one has."""

    grace_seconds = 0.0

    def __init__(
        self,
        url: str,
        token: str | None,
        redis_url: str,
        *,
        limit: int = 1,
        ready_seconds: float = _READY_SECONDS,
        silent: Callable[[str | None], None] = lambda _: None,
    ) -> None:
        self._url = url.rstrip("/")
        self._redis_url = redis_url
        self._ready_seconds = ready_seconds
        self._silent = silent
        self._client = HttpClient(token)
        self._capacity = Capacity(limit)
        self._ready: int | None = None

    def open_cache(self, run: str) -> RedisCache:
        return RedisCache(self._redis_url, run)

    @property
    def limit(self) -> int:
        return self._capacity.limit

    @property
    def at_once(self) -> int:
        return self.limit if self._ready is None else max(1, min(self.limit, self._ready))

    def set_limit(self, limit: int) -> None:
        self._capacity.set_limit(limit)

    def set_ready(self, ready: int) -> None:
        """Take the number of actors that the operator sees ready: a new node may take minutes."""
        self._ready = ready

    async def start(self) -> dict[str, Any]:
        """Wait until a pod answers. Raises RetryableError, with the last failure, after the time-out."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        tell_at = began + _TOLD_SECONDS
        while True:
            try:
                spec = await self._client.environment(self._url, _PROBE_SECONDS)
            except RetryableError as error:
                if loop.time() >= tell_at:
                    logger.warning("no actor has answered yet, %s", error)
                    self._silent(f"no actor has answered yet, {error}")
                    tell_at = loop.time() + _TOLD_SECONDS
                if loop.time() >= began + self._ready_seconds:
                    raise RetryableError(
                        error.reason,
                        f"no actor answered at {self._url} within {self._ready_seconds:g} s; "
                        f"the last try: {error.message}",
                    ) from error
            else:
                self._silent(None)
                return spec
            await asyncio.sleep(random.uniform(0, _PAUSE_SECONDS))

    async def invoke(self, request: bytes, timeout: float, *, priority: int = ROLLOUT) -> Ack:
        found_ready = self._ready is None or self._capacity.outstanding < self._ready
        await self._capacity.acquire(priority)
        # Where too few actors are ready, it may wait in the activator. The activator's time-out, a 504, then
        # says nothing about an actor.
        waits = self._ready is None or self._capacity.in_flight > self._ready
        try:
            ack = await self._client.rollout(self._url, request, timeout, waits=waits)
            return dataclasses.replace(ack, found_ready=found_ready)
        finally:
            self._capacity.release()

    def take_bills(self) -> list[float]:
        return []

    async def close(self) -> None:
        await self._client.close()
