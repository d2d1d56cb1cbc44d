"""Threads for the learner's numerics, with a fixed number of torch threads so that equal runs stay equal to
the bit.
"""

import asyncio
import faulthandler
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

import torch

from nitro_learner.training.device import fitting

P = ParamSpec("P")
T = TypeVar("T")

HANGS_SECONDS = 600.0
"""A computation hangs if its thread has used no CPU for this time. The total time of a computation does not
tell: it may be seconds or an hour."""

# A thread that was idle at so many checks in a row hangs. Checks are counted instead of time, because time
# also passes while the whole machine stands still.
_CHECKS = 10

# CPU time between two checks. A thread that uses less is idle.
_IDLE_SECONDS = 0.01

_left: set[Future[Any]] = set()


class ComputeHangs(Exception):  # noqa: N818
    """A computation hangs; the message says which."""


class Compute:
    """One thread for updates and one for the detector, which measures a round while the next one samples.

    `updates` is the number of updates that were started.

    with Compute() as compute:
        result = await compute.update(algorithm.update, fragments, 3)

    Leaving the context does not wait for running computations: see `left_running`.

    Args:
        hangs_seconds: how long a thread may use no CPU before it counts as hanging.
    """

    def __init__(self, hangs_seconds: float = HANGS_SECONDS) -> None:
        self.threads = thread_count()
        self.updates = 0
        self._hangs_seconds = hangs_seconds
        torch.set_num_threads(self.threads)
        self._update, self._measure = (
            ThreadPoolExecutor(1, name, initializer=torch.set_num_threads, initargs=(self.threads,))
            for name in ("update", "detector")
        )

    async def update(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function in the update's thread. Raises ComputeHangs, GpuFull, and what the
        function raises."""
        self.updates += 1
        return await self._run(self._update, "the update", lambda: function(*args, **kwargs))

    async def measure(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function in the detector's thread. Raises as `update`."""
        return await self._run(self._measure, "the detector", lambda: function(*args, **kwargs))

    async def _run(self, executor: ThreadPoolExecutor, what: str, function: Callable[[], T]) -> T:
        clocks: list[int] = []

        def call() -> T:
            # macOS has no such clock: there a computation that hangs is not noticed.
            if hasattr(time, "pthread_getcpuclockid"):
                clocks.append(time.pthread_getcpuclockid(threading.get_ident()))
            with fitting(what):
                return function()

        running = executor.submit(call)
        _left.add(running)
        running.add_done_callback(_left.discard)
        future = asyncio.wrap_future(running)
        used, idle = 0.0, 0
        while not (await asyncio.wait([future], timeout=self._hangs_seconds / _CHECKS))[0]:
            now = time.clock_gettime(clocks[0]) if clocks else 0.0
            if not clocks or now > used + _IDLE_SECONDS:
                used, idle = now, 0
                continue
            idle += 1
            if idle == _CHECKS:
                faulthandler.dump_traceback(sys.__stderr__ or 2)
                raise ComputeHangs(
                    f"{what} hangs: its thread has used no CPU for {self._hangs_seconds:.0f} s. Where it "
                    "stands is in the output above"
                )
        return future.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for executor in (self._update, self._measure):
            executor.shutdown(wait=False, cancel_futures=True)


def left_running() -> bool:
    """Whether a computation still runs or hangs after its `Compute` was left. The interpreter would wait
    for it at its exit."""
    return any(not future.done() for future in _left)


def thread_count() -> int:
    """OMP_NUM_THREADS when it is set, else 1.

    The default is 1 for two reasons. A minibatch step is too small to share: with two threads, `tuned`
    updates were five times slower. And results do not depend on the number of the machine's cores."""
    chosen = os.environ.get("OMP_NUM_THREADS", "")
    return int(chosen) if chosen.isdigit() and int(chosen) > 0 else 1
