"""The trajectory cache in the learner's own memory, for backends whose messages carry weights and
fragments."""

import asyncio
from collections import defaultdict, deque
from collections.abc import Sequence

from nitro_learner.backends.cache.base import Cache, Memory


class MemoryCache(Cache):
    """The backend reads weights here and puts fragments here. All calls come from one event loop::

    text = cache.weights(key)       # when a request is sent
    cache.put(key, fragment)        # when its answer has come
    """

    def __init__(self, run: str) -> None:
        super().__init__(run)
        self._payloads: dict[str, bytes] = {}
        self._lists: defaultdict[str, deque[bytes]] = defaultdict(deque)
        self._news: dict[str, asyncio.Event] = {}

    def weights(self, key: str) -> bytes:
        """Published weights. Raises KeyError if they have been dropped."""
        return self._payloads[key]

    def put(self, key: str, fragment: bytes) -> None:
        """Append to a round's list."""
        self._lists[key].append(fragment)
        if key in self._news:
            self._news[key].set()

    async def pop(self, key: str) -> list[bytes]:
        return list(self._lists.pop(key, ()))

    async def wait(self, key: str, seconds: float) -> bytes | None:
        news = self._news.setdefault(key, asyncio.Event())
        try:
            async with asyncio.timeout(seconds):
                while not self._lists.get(key):
                    news.clear()
                    await news.wait()
        except TimeoutError:
            return None
        return self._lists[key].popleft()

    async def clear(self, key: str, *, stop: bool) -> None:  # noqa: ARG002
        self._lists.pop(key, None)
        self._news.pop(key, None)

    async def worked_on(self, key: str, slot: int) -> bool:  # noqa: ARG002
        return False  # an actor that answers with its fragment works for nobody once the answer is lost

    async def memory(self) -> Memory:
        used = sum(map(len, self._payloads.values())) + sum(sum(map(len, x)) for x in self._lists.values())
        return Memory(used=used, limit=0)

    async def close(self) -> None:
        self._payloads.clear()
        self._lists.clear()

    async def _store(self, key: str, payload: bytes) -> None:
        self._payloads[key] = payload

    async def _remove(self, stale: Sequence[str]) -> None:
        for key in stale:
            self._payloads.pop(key, None)
