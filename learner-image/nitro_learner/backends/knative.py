"""Actors as pods of a Knative Revision, reached by their addresses or through its cluster-local one."""

import asyncio
import contextlib
import dataclasses
import logging
import random
from collections.abc import Callable, Sequence

from nitro_actor.check_process import Record
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.protocol.request import Request
from nitro_learner.backends.base import LEFT_WORKING, ROLLOUT, Ack, ActorBackend, RetryableError
from nitro_learner.backends.cache.redis_cache import RedisCache
from nitro_learner.backends.http import HttpClient
from nitro_learner.backends.places import PORT, Places

_READY_SECONDS = 900.0  # the first pod pulls its image
_PROBE_SECONDS = 30.0
_PAUSE_SECONDS = 2.0
_TOLD_SECONDS = 30.0
"""How often the log says what the learner still waits for."""
_CHECK_SECONDS = 300.0
"""How long an actor may take to tell what it has found in its environment: a rollout goes first."""

logger = logging.getLogger(__name__)


class KnativeBackend(ActorBackend):
    """Actors in pods of a Knative Revision; see ActorBackend.

    The operator owns the pods. ``set_actors`` takes what it granted and which pods are awake. Requests wait
    here while no pod is free, because the time-out of Knative's activator counts queueing as well.

    Args:
        url: of the Revision, where Knative's activator answers.
        limit: requests in flight at most, until the operator says more.
        ready_seconds: how long the first pod may take to start.
        silent: called now and then with the reason why no actor has answered yet, and None when one has.
    """

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
        self._token = token
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

    async def start(self) -> DescribedEnvironment:
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

    async def invoke(self, request: Request, timeout: float, *, priority: int = ROLLOUT) -> Ack:
        found_ready = self._places.free
        place = await self._places.acquire(priority)
        with contextlib.ExitStack() as room:
            room.callback(self._places.release, place)
            try:
                waits = self._places.waits(place)
                ack = await self._client.rollout(place.url, request.encode(), timeout, waits=waits)
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

    async def check(self) -> Record:
        """Have one actor check its environment, and wait for what that tells. It takes no actor's place.

        Raises RetryableError or FatalError, with the last failure, where none has told it in time.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + _CHECK_SECONDS
        url, id_ = self._places.urls[0], ""
        client = HttpClient(self._token)  # of its own: the end of a short run does not wait for it
        try:
            while True:
                try:
                    id_, record = await client.check(url, id_, _PROBE_SECONDS)
                    if record is not None:
                        return record
                    missed = RetryableError("timeout", f"the check has not ended within {_CHECK_SECONDS:g} s")
                except RetryableError as error:
                    missed = error
                    url = random.choice(self._places.urls)  # the activator sends to any actor
                if loop.time() >= end:
                    raise missed
                await asyncio.sleep(random.uniform(0.5, 1) * _PAUSE_SECONDS)
        finally:
            await client.close()

    async def close(self) -> None:
        await self._client.close()


_GONE = frozenset({"connection", "draining"})
"""Reasons for which an address that the operator still names is left alone: nothing listens, or its pod is
going."""
