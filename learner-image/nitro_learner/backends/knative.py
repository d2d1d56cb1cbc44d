"""Actors as pods of a Knative Revision, reached by their addresses or through its cluster-local one."""

import asyncio
import contextlib
import dataclasses
import logging
import random
from collections.abc import Callable, Sequence
from typing import Any

from nitro_learner.backends.base import LEFT_WORKING, ROLLOUT, Ack, RetryableError
from nitro_learner.backends.http import HttpClient
from nitro_learner.backends.places import PORT, Places
from nitro_learner.cache.redis_cache import RedisCache

_READY_SECONDS = 900.0  # the first pod pulls its image
_PROBE_SECONDS = 30.0
_PAUSE_SECONDS = 2.0
_TOLD_SECONDS = 30.0
"""How often the log says what the learner still waits for."""

logger = logging.getLogger(__name__)


class KnativeBackend:
    """Actors in pods of a Knative Revision; see ActorBackend.

    The operator owns the pods. ``set_actors`` takes what it granted and which pods are awake. Requests wait
    here while no pod is free, because the time-out of Knative's activator counts queueing as well.

    Args:
        url: of the Revision, where Knative's activator answers.
        token: of the actors.
        redis_url: of the cache.
        limit: requests in flight at most, until the operator says more.
        per_pod: actors of one pod.
        port: of the pods' addresses.
        ready_seconds: how long the first pod may take to start.
        silent: called now and then with the reason why no actor has answered yet, and None when one has.
    """

    grace_seconds = 0.0

    def __init__(
        self,
        url: str,
        token: str | None,
        redis_url: str,
        *,
        limit: int = 1,
        per_pod: int = 1,
        port: int = PORT,
        ready_seconds: float = _READY_SECONDS,
        silent: Callable[[str | None], None] = lambda _: None,
    ) -> None:
        self._url = url.rstrip("/")
        self._redis_url = redis_url
        self._ready_seconds = ready_seconds
        self._silent = silent
        self._client = HttpClient(token)
        self._places = Places(self._url, limit, per_pod=per_pod, port=port)

    def open_cache(self, run: str) -> RedisCache:
        return RedisCache(self._redis_url, run)

    @property
    def limit(self) -> int:
        return max(1, self._places.limit)

    @property
    def at_once(self) -> int:
        return self._places.limit

    @property
    def in_use(self) -> int:
        return self._places.in_use

    def set_limit(self, limit: int) -> None:
        self.set_actors(limit, None, None)

    def set_actors(self, granted: int, ready: int | None, addresses: Sequence[str] | None) -> None:
        """Take what the operator says of the actors; see Places.update."""
        self._places.update(granted, ready, addresses)

    async def start(self) -> dict[str, Any]:
        """Wait until a pod answers. Raises RetryableError, with the last failure, after the time-out."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        tell_at = began + _TOLD_SECONDS
        while True:
            try:
                # Through the activator, which finds any pod that is ready, awake or not.
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
        found_ready = self._places.free
        place = await self._places.acquire(priority)
        with contextlib.ExitStack() as room:
            room.callback(self._places.release, place)
            try:
                waits = self._places.waits(place)
                ack = await self._client.rollout(place.url, request, timeout, waits=waits)
                place.doubtful = False
                return dataclasses.replace(ack, found_ready=found_ready)
            except asyncio.CancelledError:
                place.doubtful = True
                raise
            except RetryableError as error:
                place.doubtful = error.reason in LEFT_WORKING
                if place.doubtful:  # the next request there would find the actor busy
                    error.let_go = room.pop_all().close
                if error.reason in _GONE and not error.billed_seconds:
                    self._places.refuse(place)
                raise

    def take_bills(self) -> list[float]:
        return []

    async def close(self) -> None:
        await self._client.close()


_GONE = frozenset({"connection", "draining"})
"""Reasons for which an address that the operator still names is left alone: nothing listens, or its pod is
going."""
