"""The work queue: a job is queued once, and reconciled by one worker at a time."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

logger = logging.getLogger(__name__)

K = TypeVar("K")

FIRST_RETRY_SECONDS = 1.0
LAST_RETRY_SECONDS = 60.0
MOST_DOUBLINGS = 30
"""Largest exponent: after hours of failures the power of two would exceed a floating-point number."""


def pause(failures: int, first: float, longest: float) -> float:
    """Seconds until the next try: longer after each failure in a row, with a random part."""
    return min(longest, first * 2.0 ** min(failures - 1, MOST_DOUBLINGS)) * random.uniform(0.5, 1.0)


class WorkQueue(Generic[K]):
    """Queue that keeps each key once and runs a handler on it.

    A key that is added while its handler runs is run again afterwards; a handler that raises is run
    again after a growing, jittered delay. `handle` may return seconds after which to run again.

    Usage::

        queue = WorkQueue(reconcile, workers=8)
        queue.start()
        queue.add(key)
        await queue.stop()
    """

    def __init__(self, handle: Callable[[K], Awaitable[float | None]], workers: int, timeout: float) -> None:
        self._handle = handle
        self._workers = workers
        self._timeout = timeout
        self._ready: asyncio.Queue[K] = asyncio.Queue()
        self._waiting: set[K] = set()  # in _ready
        self._running: dict[K, float] = {}  # key -> loop time of its start
        self._again: set[K] = set()  # added while running
        self._failures: dict[K, int] = {}
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._work(), name=f"reconcile-{n}") for n in range(self._workers)]

    async def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def add(self, key: K) -> None:
        """Run the handler on this key as soon as a worker is free."""
        if key in self._running:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._ready.put_nowait(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Run the handler on this key later; the earlier of two delays counts."""
        loop = asyncio.get_running_loop()
        pending = self._timers.get(key)
        if pending is not None:
            if pending.when() <= loop.time() + seconds:
                return
            pending.cancel()
        self._timers[key] = loop.call_later(seconds, self._due, key)

    def forget(self, key: K) -> None:
        """Forget the state of a key that is gone."""
        self._failures.pop(key, None)
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    @property
    def loops(self) -> Sequence[asyncio.Task[None]]:
        """The workers; none of them ends before `stop`."""
        return self._tasks

    @property
    def length(self) -> int:
        """Keys that wait for a worker."""
        return len(self._waiting)

    def longest_run(self) -> float:
        """Seconds that the longest of the running handlers has been running."""
        now = asyncio.get_running_loop().time()
        return max((now - started for started in self._running.values()), default=0.0)

    def _due(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)

    async def _work(self) -> None:
        while True:
            key = await self._ready.get()
            self._waiting.discard(key)
            self._running[key] = asyncio.get_running_loop().time()
            try:
                async with asyncio.timeout(self._timeout):
                    after = await self._handle(key)
                self._failures.pop(key, None)
            except Exception as error:
                failures = self._failures[key] = self._failures.get(key, 0) + 1
                after = pause(failures, FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS)
                log = logger.warning if failures < 5 else logger.error
                log("reconcile %s failed (%d in a row), again in %.1f s: %r", key, failures, after, error)
            finally:
                del self._running[key]
            if after is not None:
                self.add_after(key, after)
            if key in self._again:
                self._again.discard(key)
                self.add(key)
