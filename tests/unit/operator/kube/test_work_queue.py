"""The queue of the keys to reconcile."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable

import pytest

from nitro_operator.kube.queue import TryAgain, WorkQueue
from virtual_clock import VirtualClockLoop

loop_factory = VirtualClockLoop


async def refuse(_: str) -> None:
    raise ConnectionRefusedError


async def refuse_a_part(_: str) -> None:
    raise TryAgain


async def runs_with_events(handle: Callable[[str], Awaitable[None]], *, minutes: int) -> list[float]:
    """The times at which a handler runs on a key that has eight events a second."""
    loop, times = asyncio.get_running_loop(), list[float]()

    async def noted(key: str) -> None:
        times.append(loop.time())
        await handle(key)

    queue = WorkQueue(noted, workers=1, timeout=600)
    queue.start()
    while loop.time() < 60 * minutes:
        queue.add("a")
        await asyncio.sleep(0.125)
    await queue.stop()
    return times


class TestQueue:
    async def test_a_key_runs_once_at_a_time_and_keys_added_meanwhile_run_again(self) -> None:
        running, most, runs = 0, 0, 0
        started, release, twice = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def handle(_: str) -> None:
            nonlocal running, most, runs
            running, runs = running + 1, runs + 1
            most = max(most, running)
            started.set()
            await release.wait()
            running -= 1
            if runs == 2:
                twice.set()

        queue = WorkQueue(handle, workers=4, timeout=120)
        queue.start()
        queue.add("a")
        await asyncio.wait_for(started.wait(), 120)
        for _ in range(10):
            queue.add("a")
        release.set()
        await asyncio.wait_for(twice.wait(), 120)
        await queue.stop()
        assert (most, runs) == (1, 2)

    async def test_a_failure_is_retried_and_a_hanging_run_is_cancelled(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("nitro_operator.kube.queue.FIRST_RETRY_SECONDS", 0.01)
        runs = 0
        healed = asyncio.Event()

        async def handle(_: str) -> None:
            nonlocal runs
            runs += 1
            if runs == 1:
                raise ValueError("no")
            if runs == 2:
                await asyncio.sleep(600)
            healed.set()

        queue = WorkQueue(handle, workers=1, timeout=0.05)
        queue.start()
        queue.add("a")
        await asyncio.wait_for(healed.wait(), 120)
        assert queue.longest_run() == 0
        await queue.stop()
        assert runs == 3

    async def test_a_thousand_failures_in_a_row_end_no_worker(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("nitro_operator.kube.queue.LAST_RETRY_SECONDS", 0.0)
        runs = 0
        healed = asyncio.Event()

        async def handle(_: str) -> None:
            nonlocal runs
            runs += 1
            if runs <= 1100:
                raise ValueError("not yet")
            healed.set()

        queue = WorkQueue(handle, workers=1, timeout=1)
        queue.start()
        queue.add("a")
        await asyncio.wait_for(healed.wait(), 120)
        assert not any(worker.done() for worker in queue.loops)
        await queue.stop()

    async def test_the_earlier_of_two_delays_counts(self) -> None:
        runs: list[str] = []
        ran = asyncio.Event()

        async def handle(key: str) -> None:
            runs.append(key)
            ran.set()

        queue = WorkQueue(handle, workers=1, timeout=1)
        queue.start()
        queue.add_after("a", 60)
        queue.add_after("a", 0.01)
        queue.add_after("a", 60)
        await asyncio.wait_for(ran.wait(), 120)
        await queue.stop()
        assert runs == ["a"]

    async def test_events_do_not_shorten_the_delay_after_a_failure(self) -> None:
        times = await runs_with_events(refuse, minutes=10)
        assert len([time for time in times if time < 60]) <= 8, "1, 2, 4, 8 ... 60 s, each at least half"
        assert len([time for time in times if time >= 540]) <= 2
        pauses = [after - before for before, after in itertools.pairwise(times)]
        assert all(pause >= 0.5 * min(60, 2**number) for number, pause in enumerate(pauses))

    async def test_what_is_refused_in_part_is_tried_often_enough_to_follow_events_and_not_more(self) -> None:
        times = await runs_with_events(refuse_a_part, minutes=10)
        assert 6 <= len([time for time in times if time >= 540]) <= 12

    async def test_what_may_end_a_failure_is_tried_at_once(self) -> None:
        loop, times = asyncio.get_running_loop(), list[float]()
        failed, healed = asyncio.Event(), asyncio.Event()

        async def handle(_: str) -> None:
            times.append(loop.time())
            if len(times) == 6:
                healed.set()
                return
            failed.set()
            if len(times) % 2:  # it is added while the handler runs
                await asyncio.sleep(0)
            raise ValueError("no")

        queue = WorkQueue(handle, workers=1, timeout=1)
        queue.start()
        queue.add("a", at_once=True)
        for _ in range(5):
            await failed.wait()
            failed.clear()
            queue.add("a", at_once=True)
            queue.add("a")
        await healed.wait()
        await queue.stop()
        assert times[-1] - times[0] < 0.1
        assert not queue.holds_back("a")

    async def test_a_delay_from_before_a_failure_does_not_shorten_the_one_after_it(self) -> None:
        loop, times, third = asyncio.get_running_loop(), list[float](), asyncio.Event()

        async def handle(_: str) -> float:
            times.append(loop.time())
            if len(times) == 3:
                third.set()
            if len(times) > 1:
                raise ValueError("no")
            return 0.25

        queue = WorkQueue(handle, workers=1, timeout=1)
        queue.start()
        queue.add("a")
        await asyncio.sleep(0.2)
        queue.add("a")
        await third.wait()
        await queue.stop()
        assert times[2] - times[1] >= 0.5
