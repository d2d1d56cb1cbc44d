"""The interface of the trajectory cache: weights out, fragments in.

Keys carry a digest of the weights they belong to. So data that an earlier process of the same run left
behind, or that a warm actor still keeps, is never mistaken for data of this process.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from nitro_actor import keys

KEPT_VERSIONS = 2
"""Number of newest versions that stay: the evaluation of one may run beside the sampling of the next."""


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
    """Weights and fragments of one run. Methods that do nothing here are for a cache outside this process::

    cache = backend.open_cache(run)
    await cache.publish_weights(version, payload)
    while fragments := await cache.pop(cache.round_key(round, version)): ...
    """

    def __init__(self, run: str) -> None:
        self._run = run
        self._weights: dict[int, _Weights] = {}
        self.kept_versions = KEPT_VERSIONS

    def weights_key(self, version: int) -> str:
        """The key of the weights ``version``. Raises KeyError if this cache does not have them (any more)."""
        return f"{keys.weights(self._run, version)}:{self._weights[version].digest}"

    def round_key(self, round: int, version: int) -> str:
        """The list that fragments of ``round``, sampled with ``version``, are pushed to."""
        return f"{keys.round_fragments(self._run, round)}:{self._weights[version].digest}"

    def evaluation_key(self, version: int) -> str:
        """The prefix of the lists that evaluation fragments of ``version`` are pushed to."""
        return f"{keys.evaluation(self._run, version)}:{self._weights[version].digest}"

    async def publish_weights(self, version: int, payload: bytes) -> None:
        """Store weights under their version and remove all but the newest ``kept_versions``.

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
        """Keep weights."""

    @abstractmethod
    async def _remove(self, stale: Sequence[str]) -> None:
        """Drop weights."""

    async def restore_weights(self, version: int) -> None:  # noqa: B027
        """Store ``version`` again if it was lost. Raises as ``publish_weights``."""

    @abstractmethod
    async def pop(self, key: str) -> list[bytes]:
        """Take fragments that are there now, not necessarily all; an empty list means that none was."""

    @abstractmethod
    async def wait(self, key: str, seconds: float) -> bytes | None:
        """Take the next fragment, waiting up to ``seconds`` (< 10) for one."""

    async def open(self, key: str) -> None:  # noqa: B027
        """Have actors work for a round's list again, if they were told to stop."""

    @abstractmethod
    async def clear(self, key: str, *, stop: bool) -> None:
        """Remove a round's list, and have actors `stop` that still work for it."""

    @abstractmethod
    async def worked_on(self, key: str, slot: int) -> bool:
        """Whether an actor says that it works on a slot of a round's list."""

    @abstractmethod
    async def memory(self) -> Memory:
        """How full the cache is."""

    async def wait_reachable(self, seconds: float) -> None:  # noqa: B027
        """Return as soon as the cache answers. Raises CacheUnreachable after ``seconds``."""

    @abstractmethod
    async def close(self) -> None:
        """Close the connections, if there are any."""
