"""The learner's threads: what hangs is told, what only takes long is not, and nobody waits for either."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from local_support import until
from nitro_learner.training import failures
from nitro_learner.training.compute import Compute, ComputeHangs, left_running


async def test_a_thread_without_progress_is_reported_as_hanging(capfd: pytest.CaptureFixture[str]) -> None:
    never = threading.Event()
    with Compute(hangs_seconds=0.2) as compute:
        with pytest.raises(ComputeHangs, match="the update hangs: its thread has used no CPU for 0 s"):
            await compute.update(never.wait)
        assert left_running()
        assert "in wait" in capfd.readouterr().err, "where it stands"
        assert await compute.measure(lambda: 3) == 3, "the other thread goes on"
    assert left_running(), "leaving it does not wait"
    never.set()
    until(lambda: not left_running())


async def test_a_thread_that_computes_is_not_reported_as_hanging() -> None:
    def long() -> int:
        end = time.monotonic() + 1.5
        rounds = 0
        while time.monotonic() < end:
            rounds += 1
        return rounds

    with Compute(hangs_seconds=0.5) as compute:
        assert await compute.update(long) > 0
    assert not left_running()


async def test_a_pause_of_the_whole_machine_is_not_reported_as_hanging() -> None:
    first = threading.Event()
    with Compute(hangs_seconds=0.2) as compute:
        idle = asyncio.create_task(compute.update(first.wait))
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(time.sleep, 0.3)  # nothing goes on
        await asyncio.sleep(0.03)
        first.set()
        assert await idle


async def test_work_that_waits_for_the_thread_is_not_reported_as_hanging() -> None:
    first = threading.Event()
    with Compute(hangs_seconds=0.2) as compute:
        waiting = asyncio.create_task(compute.measure(first.wait))
        behind = asyncio.create_task(compute.measure(lambda: 4))
        with pytest.raises(ComputeHangs):
            await waiting
        first.set()
        assert await behind == 4


def test_a_run_that_failed_by_a_hanging_update_is_resumable() -> None:
    with (
        pytest.raises(failures.TrainingFailed, match="the update hangs") as failed,
        failures.as_training_failure(),
    ):
        raise ComputeHangs("the update hangs")
    assert failed.value.resumable
