"""Waits of the training loop: their time by stage, and their end when the run shall stop."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Iterator
from typing import TypeVar

T = TypeVar("T")


class Stages:
    """Seconds that a round waited for each of its stages.

    with stages("update"):
        ...
    stages.of("update"), stages.total()
    """

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._start = time.monotonic()

    @contextlib.contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        start = time.monotonic()
        try:
            yield
        finally:
            self.add(stage, time.monotonic() - start)

    def add(self, stage: str, seconds: float) -> None:
        self._seconds[stage] = self.of(stage) + seconds

    def of(self, stage: str) -> float:
        """Seconds of a stage, 0 when the round had none."""
        return self._seconds.get(stage, 0.0)

    def total(self) -> float:
        """Seconds since the round began."""
        return time.monotonic() - self._start


class Interrupted(Exception):  # noqa: N818
    """The run was asked to stop."""


async def unless(work: Awaitable[T], *stops: asyncio.Event) -> T:
    """The result of `work`; cancels it and raises Interrupted when one of `stops` is set first.

    Raises:
        asyncio.CancelledError: the caller was cancelled, also while the cancelled work came to its end.
    """
    task = asyncio.ensure_future(work)
    stopping = [asyncio.create_task(stop.wait()) for stop in stops]
    try:
        await asyncio.wait([task, *stopping], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Interrupted
        return task.result()
    finally:
        for waiter in stopping:
            waiter.cancel()
        if not task.done():
            task.cancel()
            caller = asyncio.current_task()
            assert caller is not None
            before = caller.cancelling()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            if caller.cancelling() > before:
                raise asyncio.CancelledError
