"""The dispatcher with actors that are functions: retries, deadlines, the 80 % rule, one fragment per slot."""

import asyncio
from typing import Any

import numpy as np
import pytest

from dispatch_support import (
    ENVIRONMENT,
    ENVS,
    STEPS,
    FunctionBackend,
    RecordingCache,
    ack,
    dispatcher,
    failing,
    fragment_bytes,
    fragment_of,
    good,
    hang,
    old,
    plan,
    stored,
)
from learner_support import plain
from nitro_actor import wire
from nitro_actor.protocol.request import OPTIONAL_TENSORS
from nitro_learner.backends.base import Ack, FatalError, RetryableError
from nitro_learner.backends.cache.base import CacheUnreachable
from nitro_learner.backends.tasks.group import MAX_TRIES
from nitro_learner.sampling.plans import EvaluationPlan, RoundFailed
from nitro_learner.sampling.seeds import slot_seed
from virtual_clock import VirtualClockLoop, now, settled

loop_factory = VirtualClockLoop


def pushing(change: Any) -> Any:
    """Stores what ``change`` makes of the fragment, then says that all is well."""

    async def push(meta: dict[str, Any], cache: RecordingCache) -> Ack:
        for message in change(meta):
            cache.put(meta["result"]["key"], message)
        return ack(meta)

    return push


async def test_dispatcher_makes_one_round_of_slots_started_twice(
    backend: FunctionBackend, cache: RecordingCache
) -> None:
    states = {1: {"state/qpos": np.zeros((ENVS, 5))}}
    work, this = dispatcher(backend, cache), plan(min_actors=2, states=states)

    async def resumed(meta: dict[str, Any], cache: RecordingCache) -> Ack:
        answer, tensors = fragment_of(meta)
        cache.put(meta["result"]["key"], fragment_bytes(answer | {"resumed": True}, tensors))
        return ack(meta)

    backend.script[1] = [resumed]
    work.start_slots(this, range(2))
    await settled()
    assert len(backend.requests) == 2
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
    assert (await cache.memory()).used == 0


async def test_dispatcher_retries_a_slot_with_the_same_seed(
    backend: FunctionBackend, cache: RecordingCache
) -> None:
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
async def test_dispatcher_counts_a_throttled_request_as_no_try(
    backend: FunctionBackend, cache: RecordingCache, times: int
) -> None:
    async def turned_away(_meta: dict[str, Any], _cache: RecordingCache) -> Ack:
        raise RetryableError("reserved_concurrency", "as told", throttled=True)

    backend.script[0] = [turned_away] * times
    work, this = dispatcher(backend, cache, deadline=50_000.0), plan()
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
async def test_dispatcher_waits_out_an_outage(
    backend: FunctionBackend, cache: RecordingCache, reason: str
) -> None:
    backend.script = {slot: [failing(reason)] * 4 * MAX_TRIES for slot in range(3)}
    work, this = dispatcher(backend, cache, deadline=500.0), plan()
    work.start_slots(this, range(3))
    result = await work.finish(this)
    assert result.lost == []
    assert result.stats.retries == {reason: 3 * 4 * MAX_TRIES}
    assert result.stats.deadline_misses == 0


async def test_dispatcher_gives_up_a_lasting_outage_at_the_deadline_and_not_before(
    backend: FunctionBackend, cache: RecordingCache
) -> None:
    backend.default = failing("connection")
    work, this = dispatcher(backend, cache, deadline=100.0), plan()
    began = now()
    work.start_slots(this, range(2))
    with pytest.raises(RoundFailed, match=r"failed: connection: as told\n2 of 2 slots") as failure:
        await work.finish(this)
    assert now() - began == pytest.approx(200), "the deadline, and the one of those that were missing then"
    assert len(backend.requests) > 2 * 2 * MAX_TRIES
    assert failure.value.resumable
    began = now()
    with pytest.raises(RoundFailed, match="connection: as told"):
        await work.evaluate(EvaluationPlan("run-1", 7, 3, 4, 1000, 4))
    assert now() - began == pytest.approx(200)
    assert backend.running == 0


async def test_dispatcher_counts_a_request_that_an_actor_worked_on_as_a_try(
    backend: FunctionBackend, cache: RecordingCache
) -> None:
    backend.default = failing("connection", billed=0.5)
    work, this = dispatcher(backend, cache), plan()
    work.start_slots(this, range(1))
    with pytest.raises(RoundFailed):
        await work.finish(this)
    assert len(backend.requests) == 2 * MAX_TRIES


async def test_dispatcher_takes_a_fragment_that_arrives_after_its_deadline(
    backend: FunctionBackend, cache: RecordingCache
) -> None:
    """Slot 0's fragment comes when its request is broken off, while slot 1's still takes its time to end."""
    ended = asyncio.Event()

    async def late(meta: dict[str, Any], cache: RecordingCache) -> Ack:
        try:
            return await hang(meta, cache)
        except asyncio.CancelledError:
            asyncio.get_running_loop().call_soon(asyncio.create_task, after_its_end(meta, cache))
            raise

    async def after_its_end(meta: dict[str, Any], cache: RecordingCache) -> None:
        await good(meta, cache)
        await settled()
        ended.set()

    async def slow_to_end(meta: dict[str, Any], cache: RecordingCache) -> Ack:
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


async def test_dispatcher_bills_a_request_cancelled_at_a_deadline_by_estimate(
    backend: FunctionBackend, cache: RecordingCache
) -> None:
    backend.script[4] = [hang, hang]
    work, this = dispatcher(backend, cache, deadline=3.0), plan()
    work.start_slots(this, range(5))
    result = await work.finish(this)
    assert result.lost == [4]
    assert result.stats.estimated == 2
    assert sorted(result.stats.billed_seconds)[-2:] == pytest.approx([3.0, 3.0]), "until the deadlines"


@pytest.mark.parametrize(
    ("change", "dropped", "retried"),
    [
        (lambda _: [b"garbage"], "garbage", "missing"),
        (lambda meta: [stored(meta)[:700]], "truncated", "missing"),
        (lambda meta: [old(meta)], "garbage", "missing"),
        (lambda meta: [stored(meta | {"run": "other"})], "other_run", "missing"),
        (lambda meta: [stored(meta | {"round": 2})], "other_round", "missing"),
        (lambda meta: [stored(meta | {"weights": {"version": 9}})], "stale_weights", "refused"),
        (lambda meta: [stored(meta | {"seed": 1})], "wrong_seed", "refused"),
        (lambda meta: [stored(meta | {"steps": 6})], "wrong_shape", "refused"),
    ],
)
async def test_dispatcher_asks_again_for_a_fragment_that_it_refused(
    backend: FunctionBackend, cache: RecordingCache, change: Any, dropped: str, retried: str
) -> None:
    backend.script[1] = [pushing(change)]
    work, this = dispatcher(backend, cache), plan()
    work.start_slots(this, range(3))
    result = await work.finish(this)
    assert [fragment.slot for fragment in result.fragments] == [0, 1, 2]
    assert result.fragments[1].meta["attempt"] == 1
    assert result.stats.dropped == {dropped: 1}
    assert result.stats.retries == {retried: 1}


async def test_dispatcher_asks_again_when_an_actor_stored_nothing(
    backend: FunctionBackend, cache: RecordingCache
) -> None:
    backend.script[0] = [pushing(lambda _: [])]
    work, this = dispatcher(backend, cache), plan()
    work.start_slots(this, range(1))
    result = await work.finish(this)
    assert result.stats.retries == {"missing": 1}
    assert result.fragments[0].meta["attempt"] == 1


async def test_dispatcher_keeps_the_first_stored_fragment_of_a_slot(
    backend: FunctionBackend, cache: RecordingCache
) -> None:
    backend.script[0] = [pushing(lambda meta: [stored(meta), stored(meta | {"attempt": 4})])]
    work, this = dispatcher(backend, cache), plan()
    work.start_slots(this, range(1))
    result = await work.finish(this)
    assert result.fragments[0].meta["attempt"] == 0
    assert result.stats.retries == {}


async def test_dispatcher_drops_and_counts_duplicates(
    backend: FunctionBackend, cache: RecordingCache
) -> None:
    async def slow(meta: dict[str, Any], cache: RecordingCache) -> Ack:
        await settled()  # the others are in the list
        return await good(meta, cache)

    backend.script[0] = [pushing(lambda meta: [stored(meta)] * 3)]
    backend.script[1] = [slow]
    work, this = dispatcher(backend, cache), plan()
    work.start_slots(this, range(2))
    result = await work.finish(this)
    assert result.stats.dropped == {"duplicate": 2}
    assert len(result.fragments) == 2


async def test_dispatcher_completes_a_slot_whose_answer_is_lost_or_hangs(
    backend: FunctionBackend, cache: RecordingCache
) -> None:
    async def store_then(meta: dict[str, Any], cache: RecordingCache) -> Ack:
        await good(meta, cache)
        if meta["slot"] == 0:
            raise RetryableError("connection", "the answer was lost", 0.1)
        return await hang(meta, cache)

    backend.script[0] = backend.script[1] = [store_then]
    work, this = dispatcher(backend, cache), plan()
    work.start_slots(this, range(2))
    began = now()
    result = await work.finish(this)
    assert now() - began == pytest.approx(2.0), "the answer is waited for only for the bill"
    assert [fragment.meta["attempt"] for fragment in result.fragments] == [0, 0]
    assert len(backend.requests) == 2
    assert len(result.stats.billed_seconds) == 2


async def test_dispatcher_gives_up_one_slot_of_ten_after_two_deadlines(
    backend: FunctionBackend, cache: RecordingCache
) -> None:
    backend.script[9] = [hang, hang]
    work, this = dispatcher(backend, cache, deadline=0.3), plan(min_actors=8)
    work.start_slots(this, range(10))
    result = await work.finish(this)
    assert result.lost == [9]
    assert [fragment.slot for fragment in result.fragments] == list(range(9))
    assert [request["attempt"] for request in backend.requests if request["slot"] == 9] == [0, 1]
    assert result.stats.deadline_misses == 2
    assert backend.running == 0


async def test_dispatcher_asks_once_more_after_the_first_deadline(
    backend: FunctionBackend, cache: RecordingCache
) -> None:
    backend.script[0] = [hang]
    work, this = dispatcher(backend, cache, deadline=0.3), plan()
    work.start_slots(this, range(1))
    result = await work.finish(this)
    assert result.lost == []
    assert result.fragments[0].meta["attempt"] == 1


async def test_dispatcher_logs_every_minute_what_is_missing(
    backend: FunctionBackend,
    cache: RecordingCache,
    caplog: pytest.LogCaptureFixture,
) -> None:
    backend.script[1] = [failing("unavailable"), hang]
    work, this = dispatcher(backend, cache, deadline=200.0), plan()
    work.start_slots(this, range(3))
    with caplog.at_level("INFO"):
        await work.finish(this)
    told = [message for message in caplog.messages if message.startswith("waiting for")]
    assert told == [
        f"waiting for 1 of 3 slots, {left} s at most: unavailable: as told" for left in (140, 80, 20)
    ]


async def test_dispatcher_logs_once_that_the_cache_cannot_be_reached(
    backend: FunctionBackend, cache: RecordingCache, caplog: pytest.LogCaptureFixture
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
    assert caplog.messages == ["results have to wait: cannot take fragments: Redis does not answer"]


@pytest.mark.parametrize(("slots", "lost", "min_actors"), [(10, 3, 1), (10, 1, 10), (1, 1, 1)])
async def test_dispatcher_fails_a_round_with_too_few_fragments(
    backend: FunctionBackend, cache: RecordingCache, slots: int, lost: int, min_actors: int
) -> None:
    for slot in range(lost):
        backend.script[slot] = [hang, hang]
    work, this = dispatcher(backend, cache, deadline=0.2), plan(min_actors=min_actors)
    work.start_slots(this, range(slots))
    with pytest.raises(RoundFailed, match=f"{lost} of {slots} slots did not come back"):
        await work.finish(this)
    assert backend.running == 0


async def test_round_failure_names_its_most_frequent_cause(
    backend: FunctionBackend, cache: RecordingCache
) -> None:
    backend.default = failing("bad_answer")
    work, this = dispatcher(backend, cache), plan()
    work.start_slots(this, range(2))
    with pytest.raises(RoundFailed, match=r"failed: bad_answer: as told\n2 of 2 slots") as failure:
        await work.finish(this)
    assert len(backend.requests) == 2 * 2 * 5, "five tries, once more after that, for both slots"
    assert failure.value.resumable


@pytest.mark.parametrize(("timeout", "cause"), [(5.0, "timeout: no answer in 5 s"), (9.0, "no answer yet")])
async def test_round_failure_says_that_requests_had_all_their_time(
    backend: FunctionBackend, cache: RecordingCache, timeout: float, cause: str
) -> None:
    """A deadline as long as the time-out cancels requests before they can say that it is over."""
    backend.default = hang
    work, this = dispatcher(backend, cache, timeout=timeout, deadline=5.0), plan()
    work.start_slots(this, range(2))
    with pytest.raises(RoundFailed, match=f"failed: {cause}\n2 of 2 slots"):
        await work.finish(this)


async def test_dispatcher_tries_work_that_failed_itself_once_more(
    backend: FunctionBackend, cache: RecordingCache
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
    with pytest.raises(RoundFailed, match=r"failed: environment: as told\n3 of 3 slots") as failure:
        await work.finish(next_one)
    assert len(backend.requests) == 2 * 3
    assert not failure.value.resumable, "the same seeds would fail again"


async def test_dispatcher_bills_rounds_and_evaluations_without_a_result(
    backend: FunctionBackend, cache: RecordingCache
) -> None:
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
    await settled()
    finishing.cancel()
    await asyncio.wait([finishing])
    await work.close()
    unused = work.take_unused()
    assert (len(unused.billed_seconds), unused.estimated) == (3 + 2, 2 + 1)
    assert work.take_unused().billed_seconds == []
    evaluating.cancel()
    await asyncio.wait([evaluating])


async def test_dispatcher_raises_when_no_retry_can_help(
    backend: FunctionBackend, cache: RecordingCache
) -> None:
    async def refuse(_meta: dict[str, Any], _cache: RecordingCache) -> Ack:
        raise FatalError("other protocol")

    backend.default = hang
    backend.script[2] = [refuse]
    work, this = dispatcher(backend, cache), plan()
    work.start_slots(this, range(4))
    began = now()
    with pytest.raises(FatalError, match="other protocol"):
        await work.finish(this)
    assert now() - began == pytest.approx(0.0, abs=0.01)
    assert backend.running == 0


@pytest.mark.parametrize(("limit", "ready"), [(2, None), (8, 2)])
async def test_dispatcher_waits_longer_for_requests_in_waves(
    cache: RecordingCache, limit: int, ready: int | None
) -> None:
    """Those that the limit makes, and those that pods make which are not ready yet."""
    pods = asyncio.Semaphore(2)

    async def slow(meta: dict[str, Any], cache: RecordingCache) -> Ack:
        async with pods:  # requests queue in the activator
            await asyncio.sleep(0.15)  # twice 4 of them take longer than one deadline
        return await good(meta, cache)

    backend = FunctionBackend(cache, limit=limit)
    backend.default, backend.ready = slow, ready
    work, this = dispatcher(backend, cache, deadline=0.5), plan()
    work.start_slots(this, range(8))
    result = await work.finish(this)
    assert backend.most == limit
    assert result.stats.deadline_misses == 0
    assert len(result.fragments) == 8


async def test_dispatcher_lets_a_list_live_for_a_request_and_a_minute(
    backend: FunctionBackend, cache: RecordingCache
) -> None:
    """What late actors add to the list of a round that has ended takes room in Redis until then."""
    work, this = dispatcher(backend, cache, timeout=4.5), plan()
    work.start_slots(this, range(1))
    await work.finish(this)
    await work.evaluate(EvaluationPlan("run-1", 7, 3, 1, 1000, 1))
    assert [request["result"]["ttl"] for request in backend.requests] == [65, 65]


async def test_dispatcher_restores_weights_that_the_cache_lost(
    backend: FunctionBackend, cache: RecordingCache
) -> None:
    backend.script[0] = [failing("weights_missing")]
    work, this = dispatcher(backend, cache), plan()
    work.start_slots(this, range(1))
    await work.finish(this)
    assert cache.restored == [3]


async def test_evaluation_runs_beside_a_round_with_slots_of_its_own(
    backend: FunctionBackend, cache: RecordingCache
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


async def test_dispatcher_asks_for_the_optional_tensors_and_drops_a_fragment_with_others(
    backend: FunctionBackend, cache: RecordingCache
) -> None:
    backend.script[1] = [pushing(lambda meta: [stored(meta | {"optionalTensors": list(OPTIONAL_TENSORS)})])]
    work, this = dispatcher(backend, cache, optional_tensors=["log_probs"]), plan()
    work.start_slots(this, range(2))
    result = await work.finish(this)
    assert [request["optionalTensors"] for request in backend.requests] == [["log_probs"]] * 3
    assert result.stats.dropped == {"wrong_shape": 1}
    for fragment in result.fragments:
        assert set(OPTIONAL_TENSORS).intersection(plain(fragment)) == {"log_probs"}


async def test_two_evaluations_of_the_same_weights_have_a_list_each(
    backend: FunctionBackend, cache: RecordingCache
) -> None:
    work, asked = dispatcher(backend, cache), EvaluationPlan("run-1", 7, 3, 4, 1000, 2)
    one, other = await asyncio.gather(work.evaluate(asked), work.evaluate(asked))
    assert one.returns.tolist() == other.returns.tolist()
    lists = [request["result"]["key"] for request in backend.requests]
    assert sorted(lists.count(key) for key in set(lists)) == [2, 2]


async def test_dispatcher_sums_the_returns_of_an_evaluation_over_the_agents(cache: RecordingCache) -> None:
    classes = {
        name: {"agents": [name], "observation": ENVIRONMENT["observation"], "action": ENVIRONMENT["action"]}
        for name in ("left", "right")
    }

    async def play(meta: dict[str, Any], cache: RecordingCache) -> Ack:
        answer, _ = fragment_of(meta)
        tensors = {"episode_returns": np.array([[1.0, 2.0], [3.0, 5.0]]), "episode_lengths": np.array([4, 4])}
        cache.put(meta["result"]["key"], wire.encode(answer, tensors))
        return ack(meta)

    backend = FunctionBackend(cache)
    backend.default = play
    work = dispatcher(backend, cache, environment={"id": "Two-v0", "resumable": False, "classes": classes})
    found = await work.evaluate(EvaluationPlan("run-1", 7, 3, 4, 1000, 2))
    assert found.returns.tolist() == [3.0, 8.0, 3.0, 8.0]


async def test_dispatcher_sends_rollouts_before_evaluations(cache: RecordingCache) -> None:
    async def slow(meta: dict[str, Any], cache: RecordingCache) -> Ack:
        await asyncio.sleep(1.0)
        return await good(meta, cache)

    backend = FunctionBackend(cache, limit=1)
    backend.default = slow
    work, this = dispatcher(backend, cache), plan()
    evaluation = asyncio.create_task(work.evaluate(EvaluationPlan("run-1", 7, 3, 4, 1000, 4)))
    await settled()
    work.start_slots(this, range(3))
    await work.finish(this)
    await evaluation
    kinds = [request["kind"] for request in backend.requests]
    assert kinds == ["evaluate"] + ["rollout"] * 3 + ["evaluate"] * 3


async def test_dispatcher_leaves_nothing_running_of_abandoned_and_closed_rounds(
    backend: FunctionBackend, cache: RecordingCache
) -> None:
    backend.default = hang
    work, this = dispatcher(backend, cache), plan()
    work.start_slots(this, range(4))
    await settled()
    assert backend.running == 4
    await work.abandon(this)
    assert backend.running == 0
    work.start_slots(plan(round=4), range(2))
    evaluation = asyncio.create_task(work.evaluate(EvaluationPlan("run-1", 7, 3, 4, 1000, 4)))
    await settled()
    assert backend.running == 2 + 4
    evaluation.cancel()
    await asyncio.wait([evaluation])
    await work.close()
    assert backend.running == 0
    assert len(asyncio.all_tasks()) == 1
