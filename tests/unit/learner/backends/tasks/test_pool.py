"""A pool of tasks that have nothing to do with sampling: squares of numbers."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from nitro_learner.backends.base import Ack, FatalError, RetryableError, answering
from nitro_learner.backends.cache.memory_cache import MemoryCache
from nitro_learner.backends.capacity import Capacity
from nitro_learner.backends.tasks.pool import TaskPool
from nitro_learner.backends.tasks.task import ResultRefused, Task, Work
from virtual_clock import VirtualClockLoop, now, settled

loop_factory = VirtualClockLoop

KEY = "squares"
TIMEOUT = 5.0
Request = dict[str, int]


class Squares:
    """Workers that square numbers. ``script[task]`` lists what its attempts do instead."""

    grace_seconds = 0.0

    def __init__(self, cache: MemoryCache, limit: int = 10) -> None:
        self.cache = cache
        self.capacity = Capacity(limit)
        self.script: dict[int, list[Callable[[Request], Awaitable[Any]]]] = {}
        self.asked: list[tuple[int, int]] = []

    @property
    def limit(self) -> int:
        return self.capacity.limit

    @property
    def at_once(self) -> int:
        return self.limit

    async def ask(self, task: int, attempt: int) -> Ack:
        meta = {"task": task, "attempt": attempt}
        await self.capacity.acquire(0)
        try:
            with answering(TIMEOUT):
                self.asked.append((task, attempt))
                await asyncio.sleep(1.0)
                script = self.script.get(meta["task"], [])
                behave = script[meta["attempt"]] if meta["attempt"] < len(script) else self.square
                await behave(meta)
                return ack(meta)
        finally:
            self.capacity.release()

    async def square(self, meta: Request) -> None:
        self.put(meta, meta["task"] ** 2)

    def put(self, meta: Request, square: int) -> None:
        self.cache.put(KEY, json.dumps(meta | {"square": square}).encode())


def ack(meta: Request) -> Ack:
    return Ack(meta["task"], meta["attempt"], False, {"total": 1.0}, 1.25)


def decode(message: bytes) -> tuple[int, int]:
    meta = json.loads(message)
    if meta["square"] != meta["task"] ** 2:
        raise ResultRefused("wrong", f"{meta['square']}", task=meta["task"], attempt=meta["attempt"])
    return meta["task"], meta["square"]


@pytest.fixture
def cache() -> MemoryCache:
    return MemoryCache("run")


@pytest.fixture
def workers(cache: MemoryCache) -> Squares:
    return Squares(cache)


class Recovered:
    """Remembers the reasons that something was repaired for."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    async def __call__(self, reason: str) -> None:
        self.reasons.append(reason)


@pytest.fixture
def recovered() -> Recovered:
    return Recovered()


@pytest.fixture
def work(workers: Squares, recovered: Recovered) -> Work[int]:
    return Work(KEY, workers.ask, decode, recovered)


@pytest.fixture
def pool(workers: Squares, cache: MemoryCache) -> TaskPool:
    return TaskPool(workers, cache, timeout_seconds=TIMEOUT, deadline_seconds=20.0, noun="squares")


def failing(reason: str, **details: Any) -> Callable[[Request], Awaitable[None]]:
    async def fail(_: Request) -> None:
        raise RetryableError(reason, "as told", **details)

    return fail


async def hang(_: Request) -> None:
    await asyncio.Event().wait()


async def test_pool_gathers_the_results_of_a_group_by_task(pool: TaskPool, work: Work[int]) -> None:
    group = pool.open(work)
    group.submit([3, 1])
    group.submit([2])
    assert pool.pending == 3
    await pool.settle(group, now())
    assert group.results() == [1, 4, 9]
    stats = pool.stats(group, 0.0)
    assert stats.billed_seconds == [1.0] * 3
    assert stats.task_seconds == {1: 1.0, 2: 1.0, 3: 1.0}
    assert stats.overhead_seconds == [0.25] * 3
    assert stats.seconds["total"] == pytest.approx(1.0)
    await pool.close(group)
    assert pool.take_unused().billed_seconds == [], "the group's statistics were taken"


async def test_pool_shares_its_capacity_among_groups(
    pool: TaskPool, workers: Squares, work: Work[int]
) -> None:
    workers.capacity.set_limit(2)
    first = pool.open(work)
    first.submit(range(4))
    await pool.settle(first, now())
    assert now() == pytest.approx(2.0), "four tasks, two at once, a second each"
    await pool.close_all()


async def test_pool_waits_for_a_request_as_long_as_its_worker_may_still_answer(
    workers: Squares, cache: MemoryCache, work: Work[int]
) -> None:
    async def late(meta: Request) -> None:
        await asyncio.sleep(5.5)  # 6.5 in all
        await workers.square(meta)

    workers.grace_seconds = 2.0
    workers.script[1] = [late]
    pool = TaskPool(workers, cache, timeout_seconds=TIMEOUT, deadline_seconds=None, noun="squares")
    group = pool.open(work)
    group.submit([1])
    await pool.settle(group, now())
    assert workers.asked == [(1, 0)]
    assert group.results() == [1]
    await pool.close(group)


async def test_pool_asks_again_for_a_result_that_was_refused_and_counts_the_reason(
    pool: TaskPool, workers: Squares, work: Work[int]
) -> None:
    async def wrong(meta: Request) -> None:
        workers.put(meta, -1)

    workers.script[2] = [wrong, wrong]
    group = pool.open(work)
    group.submit(range(3))
    await pool.settle(group, now())
    assert group.results() == [0, 1, 4]
    counts = group.take_counts()
    assert (counts.dropped, counts.retries) == ({"wrong": 2}, {"refused": 2})
    assert counts.late == 0, "a worker was ready at the first request"
    assert [attempt for task, attempt in workers.asked if task == 2] == [0, 1, 2]
    await pool.close(group)


async def test_pool_keeps_the_first_result_of_a_task_and_drops_the_others(
    pool: TaskPool, workers: Squares, work: Work[int]
) -> None:
    async def twice(meta: Request) -> None:
        await workers.square(meta)
        await workers.square(meta)

    workers.script[0] = [twice]
    group = pool.open(work)
    group.submit(range(1))
    await pool.settle(group, now())
    await settled()
    assert group.results() == [0], "a result that is zero is a result"
    assert group.take_counts().dropped == {"duplicate": 1}
    await pool.close(group)


async def test_pool_takes_answers_that_come_while_it_reads_many_results(
    pool: TaskPool, workers: Squares, work: Work[int]
) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualClockLoop)

    async def answer_soon(meta: Request) -> None:
        await workers.square(meta)
        await asyncio.sleep(0.01)

    def decode_slowly(message: bytes) -> tuple[int, int]:
        loop.work(0.5)
        return decode(message)

    workers.script = {task: [answer_soon] for task in range(10)}
    group = pool.open(replace(work, decode=decode_slowly))
    group.submit(range(10))
    await pool.settle(group, now())
    counts = group.take_counts()
    assert (counts.billed_seconds, counts.estimated) == ([1.0] * 10, 0)
    await pool.close(group)


async def test_pool_has_repaired_what_made_a_task_fail(
    pool: TaskPool, workers: Squares, work: Work[int], recovered: Recovered
) -> None:
    workers.script = {
        0: [failing("weights_missing")],
        1: [failing("redis_unreachable")],
        2: [failing("busy")],
    }
    group = pool.open(work)
    group.submit(range(3))
    await pool.settle(group, now())
    assert sorted(recovered.reasons) == ["busy", "redis_unreachable", "weights_missing"]
    assert group.take_counts().late == 3
    await pool.close(group)


async def test_pool_asks_once_more_after_the_deadline_and_then_gives_up(
    pool: TaskPool, workers: Squares, work: Work[int], caplog: pytest.LogCaptureFixture
) -> None:
    workers.script[1] = [hang, hang]
    done: list[tuple[int, int | None]] = []
    group = pool.open(work, on_task_done=lambda task: done.append((task.index, task.result)))
    group.submit(range(3))
    await pool.settle(group, now())
    assert now() == pytest.approx(40.0), "two deadlines"
    assert [task.index for task in group.missing()] == [1]
    assert done == [(0, 0), (2, 4), (1, None), (1, None)], "with a result, or when tries have ended without"
    counts = group.take_counts()
    assert (counts.deadline_misses, counts.estimated) == (2, 2)
    assert sorted(counts.billed_seconds) == pytest.approx([1.0, 1.0, 5.0, 5.0]), "at most the time-out"
    assert "squares [1] are invoked once more: timeout: no answer in 5 s" in caplog.messages
    await pool.close(group)


async def test_pool_tries_work_that_itself_fails_only_twice(
    pool: TaskPool, workers: Squares, work: Work[int], caplog: pytest.LogCaptureFixture
) -> None:
    workers.script[0] = [failing("environment", billed_seconds=0.5, deterministic=True)] * 9
    group = pool.open(work)
    group.submit(range(1))
    await pool.settle(group, now())
    (task,) = group.missing()
    assert task.hopeless
    assert task.trouble.text == "environment: as told"
    assert workers.asked == [(0, 0), (0, 1)]
    assert caplog.messages == [], "it is not invoked once more"
    await pool.close(group)
    assert pool.take_unused().billed_seconds == [0.5, 0.5], "nobody took the group's statistics"


async def test_pool_raises_one_error_when_no_retry_can_help_and_leaves_no_other_unretrieved(
    pool: TaskPool, workers: Squares, work: Work[int], caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse(_: Request) -> None:
        raise FatalError("other protocol")

    workers.script = {task: [refuse] for task in range(4)}

    async def run() -> None:
        group = pool.open(work)
        group.submit(range(4))
        await asyncio.sleep(2.0)  # all have failed before anybody waits for them
        try:
            await pool.settle(group, now())
        finally:
            await pool.close(group)

    with pytest.raises(FatalError, match="other protocol"):
        await run()
    await settled()
    gc.collect()
    assert caplog.messages == [], "such as 'Task exception was never retrieved'"


async def test_pool_closes_without_leaving_anything_running(
    pool: TaskPool, workers: Squares, cache: MemoryCache, work: Work[int]
) -> None:
    workers.script = {task: [hang] for task in range(3)}
    heard: list[Task[int]] = []
    group = pool.open(work, on_task_done=heard.append)
    group.submit(range(3))
    await asyncio.sleep(2.0)
    await pool.close_all()
    assert (pool.pending, len(asyncio.all_tasks()), (await cache.memory()).used) == (0, 1, 0)
    unused = pool.take_unused()
    assert (unused.billed_seconds, unused.estimated) == (pytest.approx([2.0] * 3), 3)
