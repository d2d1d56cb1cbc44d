"""The trajectory cache on Redis.

Redis runs with ``noeviction``: a full cache is an error that holds actors back, never silent loss.

Commands used: SET, EXISTS, UNLINK, LPOP, BLPOP, PING, INFO memory.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    OutOfMemoryError,
    RedisError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from nitro_actor import keys
from nitro_learner.backends.cache.base import Cache, CacheError, CacheFull, CacheUnreachable, Memory

WEIGHTS_TTL_SECONDS = 6 * 3600
"""The weights of a run that died expire by themselves; a live run stores expired weights again."""

_OVER_SECONDS = 30
"""How long actors are told that a round is over: they look once a second, unless their node is very busy."""

POP_LIMIT = 64
"""Fragments taken by one command: bounds the reply's size."""

_CONNECT_SECONDS = 5.0
_COMMAND_SECONDS = 15.0
"""Above every BLPOP's own time-out, which would otherwise look like a broken connection."""

_TRIES = 5
_BACKOFF_SECONDS = 0.05  # doubles with each try, full jitter


class RedisCache(Cache):
    """The cache on Redis, at ``url``."""

    def __init__(self, url: str, run: str) -> None:
        super().__init__(run)
        self._restoring = asyncio.Lock()
        self._redis = redis.asyncio.from_url(
            url,
            # With a time-out of its own, redis-py sends through asyncio.wait_for. Before Python 3.12 this can
            # swallow a cancellation, and then the consumer of a finished round would go on waiting. `_call`
            # has the time-out instead.
            socket_timeout=None,
            socket_connect_timeout=_CONNECT_SECONDS,
            # Only this method retries: it knows which errors are worth it.
            retry=Retry(NoBackoff(), 0),
        )

    async def restore_weights(self, version: int) -> None:
        key, payload = self.weights_key(version), self._weights[version].payload
        async with self._restoring:  # every slot of a round asks at once; one SET is enough
            if not await self._call(lambda: self._redis.exists(key), "look for weights"):
                await self._store(key, payload)

    async def _store(self, key: str, payload: bytes) -> None:
        what = f"store {len(payload)} bytes of weights"
        await self._call(lambda: self._redis.set(key, payload, ex=WEIGHTS_TTL_SECONDS), what)

    async def _remove(self, stale: Sequence[str]) -> None:
        await self._call(lambda: self._redis.unlink(*stale), "remove old weights")

    async def pop(self, key: str) -> list[bytes]:
        reply = await self._call(lambda: self._redis.lpop(key, POP_LIMIT), "take fragments")
        return list(reply or [])

    async def wait(self, key: str, seconds: float) -> bytes | None:
        """Take the next fragment, as Cache.wait does.

        One try only: a connection that breaks may have lost the fragment, and the caller looks again anyway.
        """
        assert 0 < seconds < 10, f"a wait of {seconds} s is not below the socket's time-out"
        reply = await self._call(lambda: self._redis.blpop([key], timeout=seconds), "wait for fragments", 1)
        return None if reply is None else cast("bytes", reply[1])

    async def open(self, key: str) -> None:
        await self._call(lambda: self._redis.unlink(keys.over(key)), "open a round", 1)

    async def clear(self, key: str, *, stop: bool) -> None:
        await self._call(lambda: self._redis.unlink(key), "clear a round")
        if stop:
            over = keys.over(key)
            await self._call(lambda: self._redis.set(over, b"", ex=_OVER_SECONDS), "stop actors", 1)

    async def worked_on(self, key: str, slot: int) -> bool:
        working = keys.working(key, slot)
        return bool(await self._call(lambda: self._redis.exists(working), "look for work", 1))

    async def memory(self) -> Memory:
        info = await self._call(lambda: self._redis.info("memory"), "read memory use")
        return Memory(used=int(info["used_memory"]), limit=int(info.get("maxmemory", 0)))

    async def wait_reachable(self, seconds: float) -> None:
        end = asyncio.get_running_loop().time() + seconds
        while True:
            try:
                await self._call(self._redis.ping, "reach it", 1)
                return
            except CacheUnreachable:
                if asyncio.get_running_loop().time() >= end:
                    raise
                await asyncio.sleep(0.2)

    async def close(self) -> None:
        """Close the connections; Redis keeps what it has until it expires."""
        await self._redis.aclose()

    async def _call(self, command: Callable[[], Awaitable[Any]], what: str, tries: int = _TRIES) -> Any:
        """Run one command, and try again with full jitter while Redis cannot be reached."""
        for attempt in range(tries):
            try:
                async with asyncio.timeout(_COMMAND_SECONDS):
                    return await command()
            except OutOfMemoryError as error:
                raise CacheFull(
                    f"Redis is full, cannot {what}: {error}; raise its maxmemory or sample with fewer actors"
                ) from error
            except (RedisConnectionError, RedisTimeoutError, BusyLoadingError, OSError) as error:
                # Of a Unix socket redis-py puts it into another error.
                if isinstance(error, AuthenticationError) or isinstance(error.__cause__, AuthenticationError):
                    raise CacheError(f"Redis refuses the user or password of its URL: {error}") from error
                if attempt == tries - 1:
                    raise CacheUnreachable(f"cannot {what}: Redis does not answer ({error})") from error
                await asyncio.sleep(random.uniform(0, _BACKOFF_SECONDS * 2**attempt))
            except RedisError as error:
                raise CacheError(f"cannot {what}: {error}") from error
        raise AssertionError("unreachable: the last try returns or raises")
