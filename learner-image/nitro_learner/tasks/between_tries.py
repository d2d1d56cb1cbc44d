"""What is done with a task before it is asked for again."""

import asyncio
import contextlib
import random
from collections.abc import Callable, Sequence
from typing import Any

from nitro_learner.cache.base import Cache, CacheError
from nitro_learner.tasks.task import Task

_LOOK_SECONDS = 1.0
_BACKOFF_SECONDS = 0.2
_BACKOFF_CAP_SECONDS = 5.0
_MOST_DOUBLINGS = 10
"""The largest exponent of the backoff: a request may be turned away a thousand times, and 2 ** 1000
overflows."""


async def pause_after(failures: int) -> None:
    """Wait for a random time, at most twice as long after each further failure."""
    if failures:
        ceiling = min(_BACKOFF_CAP_SECONDS, _BACKOFF_SECONDS * 2 ** min(failures, _MOST_DOUBLINGS))
        await asyncio.sleep(random.uniform(0, ceiling))


async def wait_for_worker(task: Task[Any], cache: Cache, key: str, bill: Callable[[float], None]) -> None:
    """Wait while a worker says that it works on a task whose request was cut, and bill that time.

    The result comes to the list `key` as if nothing had been cut. A worker of an older release says nothing,
    and is not waited for.
    """
    seconds = 0.0
    try:
        while True:
            task.news.clear()
            if task.result is not None or not await cache.worked_on(key, task.index):
                return
            pause = random.uniform(0.5, 1.0) * _LOOK_SECONDS
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await task.news.wait()
            seconds += pause
    except CacheError:  # the next request will tell
        return
    finally:
        if seconds:
            bill(seconds)


async def cancel(requests: Sequence[asyncio.Task[None]]) -> None:
    """Cancel requests, and wait for their ends."""
    for request in requests:
        request.cancel()
    await asyncio.gather(*requests, return_exceptions=True)
