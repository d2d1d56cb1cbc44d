"""The dispatcher with actors that are functions: retries, deadlines, the 80 % rule, one fragment per slot."""

import asyncio
import re
from typing import Any

import numpy as np
import pytest

from dispatch_support import (
    ENVS,
    STEPS,
    FunctionBackend,
    MemoryCache,
    ack,
    dispatcher,
    failing,
    fragment_of,
    good,
    hang,
    plan,
    stored,
)
from nitro_actor import wire
from nitro_learner.backends.base import Ack, FatalError, RetryableError
from nitro_learner.cache import CacheUnreachable
from nitro_learner.fanout import MAX_TRIES
from nitro_learner.plans import EvaluationPlan, RoundFailed
from nitro_learner.seeds import slot_seed


@pytest.fixture
def cache() -> MemoryCache:
    return MemoryCache()


@pytest.fixture
def backend(cache: MemoryCache) -> FunctionBackend:
    return FunctionBackend(cache)


def pushing(change: Any) -> Any:
    """Stores what ``change`` makes of the fragment, then says that all is well."""

    async def push(meta: dict[str, Any], cache: MemoryCache) -> Ack:
        for message in change(meta):
            cache.lists[meta["result"]["key"]].put_nowait(message)
        return ack(meta)

    return push


async def test_slots_started_twice_make_one_round(backend: FunctionBackend, cache: MemoryCache) -> None:
    states = {1: {"state/qpos": np.zeros((ENVS, 5))}}
    work, this = dispatcher(backend, cache), plan(min_actors=2, states=states)

    async def resumed(meta: dict[str, Any], cache: MemoryCache) -> Ack:
        answer, tensors = fragment_of(meta)
        cache.lists[meta["result"]["key"]].put_nowait(wire.encode(answer | {"resumed": True}, tensors))
        return ack(meta)

    backend.script[1] = [resumed]
    work.start_slots(this, range(2))
    await asyncio.sleep(0.01)
    work.start_slots(this, range(2, 5))
    result = await work.finish(this)
    assert [fragment.slot for fragment in result.fragments] == [0, 1, 2, 3, 4]
    assert result.lost == []
    assert result.stats.cold_starts == 5
    assert result.stats.billed_seconds == [0.011] * 5
    assert result.stats.overhead_seconds == pytest.approx([0.02 - 0.011] * 5)  # of `ack`
    by_slot = {request["slot"]: request for request in backend.requests}
    assert [by_slot[slot]["seed"] for slot in range(5)] == [slot_seed(7, 3, slot) for slot in range(5)]
    assert by_slot[1]["state"] == ["state/qpos"]
    assert by_slot[0]["state"] == []
    assert by_slot[0]["steps"] == STEPS
    assert not cache.lists


async def test_a_retry_is_the_same_slot_and_seed(backend: FunctionBackend, cache: MemoryCache) -> None:
    backend.script[0] = [failing(billed=0.5), failing("throttled")]
    work, this = dispatcher(backend, cache), plan()
    work.start_slots(this, range(2))
    result = await work.finish(this)
    tries = [request for request in backend.requests if request["slot"] == 0]
    assert [request["attempt"] for request in tries] == [0, 1, 2]
    assert len({request["seed"] for request in tries}) == 1
    assert result.stats.retries == {"unavailable": 1, "throttled": 1}
    assert sorted(result.stats.billed_seconds) == [0.011, 0.011, 0.5]


@pytest.mark.parametrize("times", [2 * MAX_TRIES, 1100])
async def test_being_turned_away_uses_up_no_try(
    backend: FunctionBackend, cache: MemoryCache, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    async def turned_away(_meta: dict[str, Any], _cache: MemoryCache) -> Ack:
        raise RetryableError("reserved_concurrency", "as told", throttled=True)

    monkeypatch.setattr("nitro_learner.fanout._BACKOFF_CAP_SECONDS", 0.0)
    backend.script[0] = [turned_away] * times
    work, this = dispatcher(backend, cache), plan()
    work.start_slots(this, range(1))
    result = await work.finish(this)
    assert result.stats.retries == {"reserved_concurrency": times}
    assert result.fragments[0].meta["attempt"] == times


@pytest.mark.parametrize(
    "reason",
    [
        "busy",
        "connection",
        "credentials",
        "draining",
        "not_ready",
        "service_error",
        "starting",
        "unavailable",
    ],
)
async def test_an_outage_is_waited_out(
    backend: FunctionBackend, cache: MemoryCache, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    monkeypatch.setattr("nitro_learner.fanout._BACKOFF_CAP_SECONDS", 0.0)
    backend.script = {slot: [failing(reason)] * 4 * MAX_TRIES for slot in range(3)}
    work, this = dispatcher(backend, cache), plan()
    work.start_slots(this, range(3))
    result = await work.finish(this)
    assert result.lost == []
    assert result.stats.retries == {reason: 3 * 4 * MAX_TRIES}
    assert result.stats.deadline_misses == 0


async def test_an_outage_that_lasts_ends_at_the_deadline_and_not_before(
    backend: FunctionBackend, cache: MemoryCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nitro_learner.fanout._BACKOFF_CAP_SECONDS", 0.01)
    backend.default = failing("connection")
    work, this = dispatcher(backend, cache, deadline=0.3), plan()
    loop = asyncio.get_running_loop()
    began = loop.time()
    work.start_slots(this, range(2))
    with pytest.raises(RoundFailed, match="2 x connection: as told") as failure:
        await work.finish(this)
    assert loop.time() - began >= 2 * 0.3, "the deadline, and the one of those that were missing then"
    assert len(backend.requests) > 2 * 2 * MAX_TRIES
    assert failure.value.resumable
    began = loop.time()
    with pytest.raises(RoundFailed, match="connection: as told"):
        await work.evaluate(EvaluationPlan("run-1", 7, 3, 4, 1000, 4))
    assert loop.time() - began >= 2 * 0.3
    assert backend.running == 0


async def test_what_an_actor_worked_on_uses_up_a_try(
    backend: FunctionBackend, cache: MemoryCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nitro_learner.fanout._BACKOFF_SECONDS", 0.001)
    backend.default = failing("connection", billed=0.5)
    work, this = dispatcher(backend, cache), plan()
    work.start_slots(this, range(1))
    with pytest.raises(RoundFailed):
        await work.finish(this)
    assert len(backend.requests) == 2 * MAX_TRIES


async def test_what_the_deadline_has_broken_off_may_still_arrive_before_the_next(
    backend: FunctionBackend, cache: MemoryCache
) -> None:
    """Slot 0's fragment comes when its request is broken off, while slot 1's still takes its time to end."""
    ended = asyncio.Event()

    async def late(meta: dict[str, Any], cache: MemoryCache) -> Ack:
        try:
            return await hang(meta, cache)
        except asyncio.CancelledError:
            asyncio.get_running_loop().call_soon(asyncio.create_task, after_its_end(meta, cache))
            raise

    async def after_its_end(meta: dict[str, Any], cache: MemoryCache) -> None:
        await good(meta, cache)
        await asyncio.sleep(0.1)
        ended.set()

    async def slow_to_end(meta: dict[str, Any], cache: MemoryCache) -> Ack:
        try:
            return await hang(meta, cache)
        except asyncio.CancelledError:
            await ended.wait()
            raise

    backend.script = {0: [late], 1: [slow_to_end]}
    work, this = dispatcher(backend, cache, deadline=0.3), plan()
    work.start_slots(this, range(2))
    result = await work.finish(this)
    assert [fragment.meta["attempt"] for fragment in result.fragments] == [0, 1]


async def test_what_is_broken_off_at_a_deadline_is_billed_by_estimate(
    backend: FunctionBackend, cache: MemoryCache
) -> None:
    backend.script[4] = [hang, hang]
    work, this = dispatcher(backend, cache, deadline=0.3), plan()
    work.start_slots(this, range(5))
    result = await work.finish(this)
    assert result.lost == [4]
    assert result.stats.estimated == 2
    first, second = sorted(result.stats.billed_seconds)[-2:]
    assert 0.2 < first <= second < 5.0


@pytest.mark.parametrize(
    ("change", "dropped", "retried"),
    [
        (lambda _: [b"garbage"], "garbage", "missing"),
        (lambda meta: [stored(meta)[:700]], "truncated", "missing"),
        (lambda meta: [stored(meta | {"run": "other"})], "other_run", "missing"),
        (lambda meta: [stored(meta | {"round": 2})], "other_round", "missing"),
        (lambda meta: [stored(meta | {"weights": {"version": 9}})], "stale_weights", "refused"),
        (lambda meta: [stored(meta | {"seed": 1})], "wrong_seed", "refused"),
        (lambda meta: [stored(meta | {"steps": 6})], "wrong_shape", "refused"),
    ],
)
async def test_a_fragment_that_is_refused_is_asked_for_again(
    backend: FunctionBackend, cache: MemoryCache, change: Any, dropped: str, retried: str
) -> None:
    backend.script[1] = [pushing(change)]
    work, this = dispatcher(backend, cache), plan()
    work.start_slots(this, range(3))
    result = await work.finish(this)
    assert [fragment.slot for fragment in result.fragments] == [0, 1, 2]
    assert result.fragments[1].meta["attempt"] == 1
    assert result.stats.dropped == {dropped: 1}
    assert result.stats.retries == {retried: 1}


async def test_an_actor_that_stores_nothing_is_asked_again(
    backend: FunctionBackend, cache: MemoryCache
) -> None:
    backend.script[0] = [pushing(lambda _: [])]
    work, this = dispatcher(backend, cache), plan()
    work.start_slots(this, range(1))
    result = await work.finish(this)
    assert result.stats.retries == {"missing": 1}
    assert result.fragments[0].meta["attempt"] == 1


async def test_the_first_stored_fragment_wins(backend: FunctionBackend, cache: MemoryCache) -> None:
    backend.script[0] = [pushing(lambda meta: [stored(meta), stored(meta | {"attempt": 4})])]
    work, this = dispatcher(backend, cache), plan()
    work.start_slots(this, range(1))
    result = await work.finish(this)
    assert result.fragments[0].meta["attempt"] == 0
    assert result.stats.retries == {}


async def test_duplicates_are_dropped_and_counted(backend: FunctionBackend, cache: MemoryCache) -> None:
    async def slow(meta: dict[str, Any], cache: MemoryCache) -> Ack:
        await asyncio.sleep(0.2)
        return await good(meta, cache)

    backend.script[0] = [pushing(lambda meta: [stored(meta)] * 3)]
    backend.script[1] = [slow]
    work, this = dispatcher(backend, cache), plan()
    work.start_slots(this, range(2))
    result = await work.finish(this)
    assert result.stats.dropped == {"duplicate": 2}
    assert len(result.fragments) == 2


async def test_a_slot_is_complete_when_stored_whatever_becomes_of_the_answer(
    backend: FunctionBackend, cache: MemoryCache
) -> None:
    async def store_then(meta: dict[str, Any], cache: MemoryCache) -> Ack:
        await good(meta, cache)
        if meta["slot"] == 0:
            raise RetryableError("connection", "the answer was lost", 0.1)
        return await hang(meta, cache)

    backend.script[0] = backend.script[1] = [store_then]
    work, this = dispatcher(backend, cache), plan()
    work.start_slots(this, range(2))
    async with asyncio.timeout(5):
        result = await work.finish(this)
    assert [fragment.meta["attempt"] for fragment in result.fragments] == [0, 0]
    assert len(backend.requests) == 2
    assert len(result.stats.billed_seconds) == 2


async def test_one_lost_slot_of_ten_after_two_deadlines(backend: FunctionBackend, cache: MemoryCache) -> None:
    backend.script[9] = [hang, hang]
    work, this = dispatcher(backend, cache, deadline=0.3), plan(min_actors=8)
    work.start_slots(this, range(10))
    result = await work.finish(this)
    assert result.lost == [9]
    assert [fragment.slot for fragment in result.fragments] == list(range(9))
    assert [request["attempt"] for request in backend.requests if request["slot"] == 9] == [0, 1]
    assert result.stats.deadline_misses == 2
    assert backend.running == 0


async def test_the_second_deadline_saves_a_slot(backend: FunctionBackend, cache: MemoryCache) -> None:
    backend.script[0] = [hang]
    work, this = dispatcher(backend, cache, deadline=0.3), plan()
    work.start_slots(this, range(1))
    result = await work.finish(this)
    assert result.lost == []
    assert result.fragments[0].meta["attempt"] == 1


async def test_what_is_waited_for_is_told(
    backend: FunctionBackend,
    cache: MemoryCache,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nitro_learner.fanout._TOLD_SECONDS", 0.0)
    backend.script[1] = [failing("unavailable"), hang]
    work, this = dispatcher(backend, cache, deadline=2.0), plan()
    work.start_slots(this, range(3))
    with caplog.at_level("INFO"):
        await work.finish(this)
    assert re.search(r"waiting for 1 of 3 slots, \d s at most: unavailable: as told", caplog.text)


async def test_a_cache_that_cannot_be_reached_is_told_once(
    backend: FunctionBackend, cache: MemoryCache, caplog: pytest.LogCaptureFixture
) -> None:
    pop, failures = cache.pop, [CacheUnreachable("cannot take fragments: Redis does not answer")] * 3

    async def unreachable_at_first(key: str) -> list[bytes]:
        if failures:
            raise failures.pop()
        return await pop(key)

    cache.pop = unreachable_at_first  # type: ignore[method-assign]
    work, this = dispatcher(backend, cache), plan()
    work.start_slots(this, range(2))
    result = await work.finish(this)
    assert result.stats.retries == {"cache": 3}
    assert caplog.messages == ["fragments have to wait: cannot take fragments: Redis does not answer"]


@pytest.mark.parametrize(("slots", "lost", "min_actors"), [(10, 3, 1), (10, 1, 10), (1, 1, 1)])
async def test_too_few_fragments_fail_the_round(
    backend: FunctionBackend, cache: MemoryCache, slots: int, lost: int, min_actors: int
) -> None:
    for slot in range(lost):
        backend.script[slot] = [hang, hang]
    work, this = dispatcher(backend, cache, deadline=0.2), plan(min_actors=min_actors)
    work.start_slots(this, range(slots))
    with pytest.raises(RoundFailed, match=f"{lost} of {slots} slots did not come back"):
        await work.finish(this)
    assert backend.running == 0


async def test_the_cause_is_in_the_message(
    backend: FunctionBackend, cache: MemoryCache, monkeypatch: Any
) -> None:
    monkeypatch.setattr("nitro_learner.fanout._BACKOFF_SECONDS", 0.001)
    backend.default = failing("bad_answer")
    work, this = dispatcher(backend, cache), plan()
    work.start_slots(this, range(2))
    with pytest.raises(RoundFailed, match="2 x bad_answer: as told") as failure:
        await work.finish(this)
    assert len(backend.requests) == 2 * 2 * 5, "five tries, once more after that, for both slots"
    assert failure.value.resumable


async def test_what_fails_at_the_work_itself_is_tried_once_more(
    backend: FunctionBackend, cache: MemoryCache
) -> None:
    broken = failing("environment", 0.5, deterministic=True)
    backend.script = {0: [broken], 1: [failing(), broken, failing(), broken]}
    work, this = dispatcher(backend, cache), plan()
    work.start_slots(this, range(5))
    result = await work.finish(this)
    assert result.lost == [1]
    assert result.stats.retries == {"environment": 3, "unavailable": 2}
    backend.script, backend.default = {}, broken
    next_one = plan(round=4)
    work.start_slots(next_one, range(3))
    backend.requests.clear()
    with pytest.raises(RoundFailed, match="3 x environment: as told") as failure:
        await work.finish(next_one)
    assert len(backend.requests) == 2 * 3
    assert not failure.value.resumable, "the same seeds would fail again"


async def test_what_gave_no_result_is_billed_all_the_same(
    backend: FunctionBackend, cache: MemoryCache, monkeypatch: Any
) -> None:
    monkeypatch.setattr("nitro_learner.fanout._BACKOFF_SECONDS", 0.001)
    work, this = dispatcher(backend, cache), plan()
    work.start_slots(this, range(2))
    await work.finish(this)
    assert work.take_unused().billed_seconds == [], "a round that was finished says itself what it took"
    backend.default = failing("environment", 0.5, deterministic=True)
    failed = plan(round=4)
    work.start_slots(failed, range(2))
    with pytest.raises(RoundFailed):
        await work.finish(failed)
    with pytest.raises(RoundFailed):
        await work.evaluate(EvaluationPlan("run-1", 7, 3, 4, 1000, 4))
    assert work.take_unused().billed_seconds == [0.5] * (2 * 2 + 2 * 4)
    backend.script, backend.default = {0: [good]}, hang
    interrupted = plan(round=5)
    work.start_slots(interrupted, range(3))
    finishing = asyncio.create_task(work.finish(interrupted))
    evaluating = asyncio.create_task(work.evaluate(EvaluationPlan("run-1", 7, 3, 2, 1000, 2)))
    await asyncio.sleep(0.01)
    finishing.cancel()
    await asyncio.wait([finishing])
    await work.close()
    unused = work.take_unused()
    assert (len(unused.billed_seconds), unused.estimated) == (3 + 2, 2 + 1)
    assert work.take_unused().billed_seconds == []
    evaluating.cancel()
    await asyncio.wait([evaluating])


async def test_fatal_errors_end_the_round_at_once(backend: FunctionBackend, cache: MemoryCache) -> None:
    async def refuse(_meta: dict[str, Any], _cache: MemoryCache) -> Ack:
        raise FatalError("other protocol")

    backend.default = hang
    backend.script[2] = [refuse]
    work, this = dispatcher(backend, cache), plan()
    work.start_slots(this, range(4))
    async with asyncio.timeout(5):
        with pytest.raises(FatalError, match="other protocol"):
            await work.finish(this)
    assert backend.running == 0


@pytest.mark.parametrize(("limit", "ready"), [(2, None), (8, 2)])
async def test_waves_stretch_the_deadline(cache: MemoryCache, limit: int, ready: int | None) -> None:
    """Those that the limit makes, and those that pods make which are not ready yet."""
    pods = asyncio.Semaphore(2)

    async def slow(meta: dict[str, Any], cache: MemoryCache) -> Ack:
        async with pods:  # requests queue in the activator
            await asyncio.sleep(0.15)
        return await good(meta, cache)

    backend = FunctionBackend(cache, limit=limit)
    backend.default, backend.ready = slow, ready
    work, this = dispatcher(backend, cache, deadline=0.5), plan()
    work.start_slots(this, range(8))
    result = await work.finish(this)
    assert backend.most == limit
    assert result.stats.deadline_misses == 0
    assert len(result.fragments) == 8


async def test_weights_that_redis_lost_are_restored(backend: FunctionBackend, cache: MemoryCache) -> None:
    backend.script[0] = [failing("weights_missing")]
    work, this = dispatcher(backend, cache), plan()
    work.start_slots(this, range(1))
    await work.finish(this)
    assert cache.restored == [3]


async def test_evaluation_runs_beside_a_round_with_its_own_slots(
    backend: FunctionBackend, cache: MemoryCache
) -> None:
    work, this = dispatcher(backend, cache), plan()
    evaluation = asyncio.create_task(work.evaluate(EvaluationPlan("run-1", 7, 3, 5, 1000, 2)))
    work.start_slots(this, range(3))
    result, evaluated = await asyncio.gather(work.finish(this), evaluation)
    assert len(result.fragments) == 3
    assert evaluated.returns.shape == evaluated.lengths.shape == (5,)
    requests = [request for request in backend.requests if request["kind"] == "evaluate"]
    assert sorted(request["episodes"] for request in requests) == [2, 3]
    assert {request["maxSteps"] for request in requests} == {1000}


async def test_rollouts_go_before_evaluations(cache: MemoryCache) -> None:
    async def slow(meta: dict[str, Any], cache: MemoryCache) -> Ack:
        await asyncio.sleep(0.01)
        return await good(meta, cache)

    backend = FunctionBackend(cache, limit=1)
    backend.default = slow
    work, this = dispatcher(backend, cache), plan()
    evaluation = asyncio.create_task(work.evaluate(EvaluationPlan("run-1", 7, 3, 4, 1000, 4)))
    await asyncio.sleep(0)
    work.start_slots(this, range(3))
    await work.finish(this)
    await evaluation
    kinds = [request["kind"] for request in backend.requests]
    assert kinds[-3:] == ["evaluate"] * 3


async def test_abandoned_and_closed_rounds_leave_nothing_running(
    backend: FunctionBackend, cache: MemoryCache
) -> None:
    backend.default = hang
    work, this = dispatcher(backend, cache), plan()
    work.start_slots(this, range(4))
    await asyncio.sleep(0.01)
    assert backend.running == 4
    await work.abandon(this)
    assert backend.running == 0
    work.start_slots(plan(round=4), range(2))
    evaluation = asyncio.create_task(work.evaluate(EvaluationPlan("run-1", 7, 3, 4, 1000, 4)))
    await asyncio.sleep(0.01)
    evaluation.cancel()
    await asyncio.wait([evaluation])
    await work.close()
    assert backend.running == 0
    assert len(asyncio.all_tasks()) == 1
