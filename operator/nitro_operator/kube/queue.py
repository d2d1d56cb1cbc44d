"""The work queue: a job is queued once, and reconciled by one worker at a time."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

logger = logging.getLogger(__name__)

K = TypeVar("K")

FIRST_RETRY_SECONDS = 1.0
LAST_RETRY_SECONDS = 60.0
LAST_PARTIAL_RETRY_SECONDS = 10.0
MOST_DOUBLINGS = 30
"""Largest exponent: after hours of failures the power of two would exceed a floating-point number."""


def pause(failures: int, first: float, longest: float) -> float:
    """Seconds until the next try: longer after each failure in a row, with a random part."""
    return min(longest, first * 2.0 ** min(failures - 1, MOST_DOUBLINGS)) * random.uniform(0.5, 1.0)


class TryAgain(Exception):  # noqa: N818
    """A handler's word that only a part of its work was refused. The other part has to follow the key's
    events, so the next try comes within LAST_PARTIAL_RETRY_SECONDS."""


class WorkQueue(Generic[K]):
    """Queue that keeps each key once and runs a handler on it.

    A key that is added while its handler runs is run again afterwards; a handler that raises is run
    again after a growing, jittered delay. `handle` may return seconds after which to run again.

    While a key waits for such a delay, adding it changes nothing: a job that cannot be brought on has events
    all the time, its learner's reports for example, and each would be one more request that fails. Only what
    may end the failure is added with `at_once`.
    """

    def __init__(self, handle: Callable[[K], Awaitable[float | None]], workers: int, timeout: float) -> None:
        self._handle = handle
        self._workers = workers
        self._timeout = timeout
        self._ready: asyncio.Queue[K] = asyncio.Queue()
        self._waiting: set[K] = set()  # in _ready
        self._running: dict[K, float] = {}  # key -> loop time of its start
        self._again: dict[K, bool] = {}  # added while running -> whether at once
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

    def add(self, key: K, *, at_once: bool = False) -> None:
        """Run the handler on this key as soon as a worker is free. After a failure that is when its delay is
        over, unless `at_once` is true."""
        if key in self._running:
            self._again[key] = at_once or self._again.get(key, False)
        elif key not in self._waiting and (at_once or not self.holds_back(key)):
            self._waiting.add(key)
            self._ready.put_nowait(key)

    def holds_back(self, key: K) -> bool:
        """Whether the handler failed on this key, and its delay is not over."""
        return key in self._failures and key in self._timers

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
        self._cancel(key)

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
                self._cancel(key)  # a delay from before the failure, which may be shorter
                failures = self._failures[key] = self._failures.get(key, 0) + 1
                longest = LAST_PARTIAL_RETRY_SECONDS if isinstance(error, TryAgain) else LAST_RETRY_SECONDS
                after = pause(failures, FIRST_RETRY_SECONDS, longest)
                log = logger.warning if failures < 5 else logger.error
                log("reconcile %s failed (%d in a row), again in %.1f s: %r", key, failures, after, error)
            finally:
                del self._running[key]
            if after is not None:
                self.add_after(key, after)
            if key in self._again:
                self.add(key, at_once=self._again.pop(key))

    def _cancel(self, key: K) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
