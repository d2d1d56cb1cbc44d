"""The trajectory cache: weights out, fragments in. On Redis here; in this process: memory_cache.py.

Redis runs with ``noeviction``: a full cache is an error that holds actors back, never silent loss. Keys carry
a digest of the weights they belong to, so what an earlier life of the same run left behind (or a warm actor
still keeps) can never be taken for this one's.

Commands used: SET, EXISTS, UNLINK, LPOP, BLPOP, PING, INFO memory.
"""

import asyncio
import hashlib
import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
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

WEIGHTS_TTL_SECONDS = 6 * 3600
"""Weights of a run that died go by themselves; a live run restores what expired."""

KEPT_VERSIONS = 2
"""The newest versions stay: the evaluation of one may run beside the sampling of the next."""

POP_LIMIT = 64
"""Fragments taken by one command: bounds the reply's size."""

_CONNECT_SECONDS = 5.0
_COMMAND_SECONDS = 15.0
"""Above every BLPOP's own time-out, which would otherwise look like a broken connection."""

_TRIES = 5
_BACKOFF_SECONDS = 0.05  # doubles with each try, full jitter


class CacheError(Exception):
    """The trajectory cache cannot do what was asked."""


class CacheFull(CacheError):  # noqa: N818
    """Redis is at its maxmemory (noeviction): nothing is lost silently, but nothing more fits."""


class CacheUnreachable(CacheError):  # noqa: N818
    """Redis did not answer within the bounded retries."""


@dataclass(frozen=True)
class Memory:
    """Bytes Redis uses, and its limit (0: none)."""

    used: int
    limit: int


@dataclass(frozen=True)
class _Weights:
    digest: str
    payload: bytes


class Cache(ABC):
    """Weights and fragments of one run::

    cache = backend.open_cache(run)
    await cache.publish_weights(version, payload)
    while fragments := await cache.pop(cache.round_key(round, version)): ...
    """

    def __init__(self, run: str) -> None:
        self._run = run
        self._weights: dict[int, _Weights] = {}
        self.kept_versions = KEPT_VERSIONS

    def weights_key(self, version: int) -> str:
        """Where ``version`` lies; KeyError when this cache has not published it (or has dropped it)."""
        return f"{keys.weights(self._run, version)}:{self._weights[version].digest}"

    def round_key(self, round: int, version: int) -> str:
        """The list that fragments of ``round``, sampled with ``version``, are pushed to."""
        return f"{keys.round_fragments(self._run, round)}:{self._weights[version].digest}"

    def evaluation_key(self, version: int) -> str:
        """The list that evaluation fragments of ``version`` are pushed to."""
        return f"{keys.evaluation(self._run, version)}:{self._weights[version].digest}"

    async def publish_weights(self, version: int, payload: bytes) -> None:
        """Stores weights under their version and removes all but the newest ``kept_versions``.

        Raises CacheFull or CacheUnreachable.
        """
        digest = hashlib.blake2b(payload, digest_size=8).hexdigest()
        old = [v for v in sorted(self._weights) if v != version][: -(self.kept_versions - 1)]
        stale = [self.weights_key(v) for v in old]
        if version in self._weights and self._weights[version].digest != digest:
            stale.append(self.weights_key(version))
        if stale:  # first: a nearly full cache needs their room
            await self._remove(stale)
        for v in old:
            del self._weights[v]
        self._weights[version] = _Weights(digest, payload)
        await self._store(self.weights_key(version), payload)

    @abstractmethod
    async def _store(self, key: str, payload: bytes) -> None:
        """Keeps weights."""

    @abstractmethod
    async def _remove(self, stale: Sequence[str]) -> None:
        """Lets go of weights."""

    @abstractmethod
    async def restore_weights(self, version: int) -> None:
        """Stores ``version`` again if it was lost. Raises as ``publish_weights``."""

    @abstractmethod
    async def pop(self, key: str) -> list[bytes]:
        """Takes fragments that are there now, not necessarily all; an empty list means that none was."""

    @abstractmethod
    async def wait(self, key: str, seconds: float) -> bytes | None:
        """Takes the next fragment, waiting up to ``seconds`` (< 10) for one."""

    @abstractmethod
    async def clear(self, key: str) -> None:
        """Removes a round's list."""

    @abstractmethod
    async def memory(self) -> Memory:
        """How full it is."""

    @abstractmethod
    async def wait_reachable(self, seconds: float) -> None:
        """Returns as soon as it answers. Raises CacheUnreachable after ``seconds``."""

    @abstractmethod
    async def close(self) -> None:
        """Closes what is open."""


class TrajectoryCache(Cache):
    """The cache on Redis, at ``url``."""

    def __init__(self, url: str, run: str) -> None:
        super().__init__(run)
        self._restoring = asyncio.Lock()
        self._redis = redis.asyncio.from_url(
            url,
            # With a time-out of its own redis-py sends by asyncio.wait_for, which until Python 3.12 can
            # swallow a cancellation: the consumer of a finished round would wait on. `_call` has one.
            socket_timeout=None,
            socket_connect_timeout=_CONNECT_SECONDS,
            # Retried here, where the errors are told apart, and nowhere else.
            retry=Retry(NoBackoff(), 0),
        )

    async def restore_weights(self, version: int) -> None:
        """Stores ``version`` again if Redis lost it (a restart, an expiry). Raises as ``publish_weights``."""
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
        """Takes up to 64 fragments that are there now; an empty list means that none was."""
        reply = await self._call(lambda: self._redis.lpop(key, POP_LIMIT), "take fragments")
        return list(reply or [])

    async def wait(self, key: str, seconds: float) -> bytes | None:
        """As Cache.wait.

        One try only: a connection that breaks may have lost the fragment, and the caller looks again anyway.
        """
        assert 0 < seconds < 10, f"a wait of {seconds} s is not below the socket's time-out"
        reply = await self._call(lambda: self._redis.blpop([key], timeout=seconds), "wait for fragments", 1)
        return None if reply is None else cast("bytes", reply[1])

    async def clear(self, key: str) -> None:
        """Removes a round's list."""
        await self._call(lambda: self._redis.unlink(key), "clear a round")

    async def memory(self) -> Memory:
        """How full Redis is."""
        info = await self._call(lambda: self._redis.info("memory"), "read memory use")
        return Memory(used=int(info["used_memory"]), limit=int(info.get("maxmemory", 0)))

    async def wait_reachable(self, seconds: float) -> None:
        """Returns as soon as Redis answers. Raises CacheUnreachable after ``seconds``."""
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
        """Closes the connections; Redis keeps what it has until it expires."""
        await self._redis.aclose()

    async def _call(self, command: Callable[[], Awaitable[Any]], what: str, tries: int = _TRIES) -> Any:
        """One command, tried again with full jitter while Redis cannot be reached."""
        for attempt in range(tries):
            try:
                async with asyncio.timeout(_COMMAND_SECONDS):
                    return await command()
            except OutOfMemoryError as error:
                raise CacheFull(
                    f"Redis is full, cannot {what}: {error}; raise its maxmemory or sample with fewer actors"
                ) from error
            except AuthenticationError as error:
                raise CacheError(f"Redis refuses the user or password of its URL: {error}") from error
            except (RedisConnectionError, RedisTimeoutError, BusyLoadingError, OSError) as error:
                if attempt == tries - 1:
                    raise CacheUnreachable(f"cannot {what}: Redis does not answer ({error})") from error
                await asyncio.sleep(random.uniform(0, _BACKOFF_SECONDS * 2**attempt))
            except RedisError as error:
                raise CacheError(f"cannot {what}: {error}") from error
        raise AssertionError("unreachable: the last try returns or raises")
