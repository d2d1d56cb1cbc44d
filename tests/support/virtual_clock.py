"""An event loop whose time passes only when nothing else can happen, so that waiting takes no real time.

A test module asks for it by `loop_factory = VirtualClockLoop` (see tests/unit/conftest.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import selectors
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

from nitro_learner.training.compute import Compute

P = ParamSpec("P")
R = TypeVar("R")

_INSTANT = 1e-6
_MOST_SECONDS = 1e5


class _Selector(selectors.DefaultSelector):  # type: ignore[misc,valid-type]
    """Waits for files as usual, but jumps over time in which none can be ready."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.threads = 0

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if self.threads:
            return super().select(None)
        if timeout is None or self.now > _MOST_SECONDS:
            raise AssertionError("the test waits for something that never happens")
        self.now += timeout
        return []


class VirtualClockLoop(asyncio.SelectorEventLoop):
    """The clock stands still while threads work, and jumps to the next timer when all wait.

    An exception that a callback raises, which asyncio only logs, fails the test when the loop is closed.
    """

    def __init__(self) -> None:
        self._clock = _Selector()
        self._errors: list[object] = []
        super().__init__(self._clock)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        super().call_exception_handler(context)
        self._errors.append(context)

    def close(self) -> None:
        super().close()
        assert not self._errors, self._errors

    def time(self) -> float:
        return self._clock.now

    def work(self, seconds: float) -> None:
        """Pass time as code does that computes in the loop's thread: nothing else happens meanwhile."""
        self._clock.now += seconds

    @contextlib.contextmanager
    def thread_at_work(self) -> Iterator[None]:
        """Let the clock stand: a thread works whose end will wake this loop."""
        self._clock.threads += 1
        try:
            yield
        finally:
            self._clock.threads -= 1

    def run_in_executor(self, *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        working = self.thread_at_work()
        working.__enter__()
        future = super().run_in_executor(*args)
        future.add_done_callback(lambda _: working.__exit__(None, None, None))
        return future

    async def shutdown_default_executor(self, *timeout: float | None) -> None:
        with self.thread_at_work():
            await super().shutdown_default_executor(*timeout)  # a time-out from Python 3.12 on


class WatchedCompute(Compute):
    """Compute whose threads make a VirtualClockLoop's clock stand still."""

    async def update(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        with _loop().thread_at_work():
            return await super().update(function, *args, **kwargs)

    async def measure(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        with _loop().thread_at_work():
            return await super().measure(function, *args, **kwargs)


async def settled() -> None:
    """Return when everything has happened that needs no time."""
    await asyncio.sleep(_INSTANT)


def now() -> float:
    """The virtual time in seconds."""
    return _loop().time()


def _loop() -> VirtualClockLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualClockLoop), "set loop_factory = VirtualClockLoop in the test's module"
    return loop
