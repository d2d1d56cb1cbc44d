"""Threads for the learner's numerics, with a fixed number of torch threads so that equal runs stay equal to
the bit.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
T = TypeVar("T")


class Compute:
    """One thread for updates and one for the detector, which measures a round while the next one samples.

    `device` is CUDA where there is a GPU; equal runs are then not promised to be equal to the bit. `updates`
    counts those that were begun.

    with Compute() as compute:
        result = await compute.update(algorithm.update, fragments, 3)
    """

    def __init__(self) -> None:
        self.threads = thread_count()
        self.updates = 0
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        torch.set_num_threads(self.threads)
        self._update = ThreadPoolExecutor(
            1, "update", initializer=torch.set_num_threads, initargs=(self.threads,)
        )
        self._measure = ThreadPoolExecutor(
            1, "detector", initializer=torch.set_num_threads, initargs=(self.threads,)
        )

    async def update(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs a function in the update's thread."""
        self.updates += 1
        return await asyncio.get_running_loop().run_in_executor(
            self._update, lambda: function(*args, **kwargs)
        )

    async def measure(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs a function in the detector's thread."""
        return await asyncio.get_running_loop().run_in_executor(
            self._measure, lambda: function(*args, **kwargs)
        )

    def __enter__(self) -> Compute:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._update.shutdown(cancel_futures=True)
        self._measure.shutdown(cancel_futures=True)


def thread_count() -> int:
    """OMP_NUM_THREADS when it is set, else 1.

    One, because a minibatch step is too small to share: two threads made `tuned` updates five times slower.
    And because results then do not depend on how many cores a machine has.
    """
    chosen = os.environ.get("OMP_NUM_THREADS", "")
    return int(chosen) if chosen.isdigit() and int(chosen) > 0 else 1
