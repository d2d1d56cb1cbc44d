"""Waiting that a signal ends."""

import asyncio

import pytest

from nitro_learner.training.waiting import Interrupted, unless


async def test_work_ends_with_its_result_or_with_the_stop() -> None:
    stop = asyncio.Event()
    assert await unless(asyncio.sleep(0, "done"), stop) == "done"
    stop.set()
    with pytest.raises(Interrupted):
        await unless(asyncio.sleep(60), stop)


async def test_a_caller_that_is_cancelled_while_the_work_ends_is_cancelled() -> None:
    """As by a second Ctrl-C, while what the first one has stopped still clears up."""
    stop, clearing, cleared = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            clearing.set()
            await cleared.wait()

    caller = asyncio.create_task(unless(work(), stop))
    await asyncio.sleep(0)
    stop.set()
    await clearing.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
