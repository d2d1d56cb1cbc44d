"""The queue of the keys to reconcile."""

from __future__ import annotations

import asyncio

import pytest

from nitro_operator.kube.queue import WorkQueue


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
