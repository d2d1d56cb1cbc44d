"""Off-policy rounds with actors that are functions: lanes, order of arrival, staleness, when a round ends."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from dispatch_support import (
    FunctionBackend,
    MemoryCache,
    dispatcher,
    failing,
    good,
    hang,
    plan,
    stored,
)
from nitro_learner import feeding
from nitro_learner.algorithms.base import UpdateResult
from nitro_learner.backends.base import Ack, FatalError
from nitro_learner.batch import Fragment
from nitro_learner.compute import Compute
from nitro_learner.dispatch import Dispatcher
from nitro_learner.feeding import Arrivals, RoundContext
from nitro_learner.plans import RoundFailed, RoundPlan, RoundResult
from nitro_learner.seeds import slot_seed
from nitro_learner.stream import Stream
from nitro_learner.waiting import Interrupted, Stages


@pytest.fixture
def cache() -> MemoryCache:
    return MemoryCache()


@pytest.fixture
def backend(cache: MemoryCache) -> FunctionBackend:
    return FunctionBackend(cache)


@pytest.fixture
def work(backend: FunctionBackend, cache: MemoryCache) -> Dispatcher:
    return dispatcher(backend, cache, deadline=2.0)


class Gate:
    """Actors that hold their fragments until told: `open` lets slots of a round go, one after the other."""

    def __init__(self, backend: FunctionBackend) -> None:
        self._events: dict[tuple[int, int], asyncio.Event] = {}
        backend.default = self._sample

    def _event(self, round: int, slot: int) -> asyncio.Event:
        return self._events.setdefault((round, slot), asyncio.Event())

    async def _sample(self, meta: dict[str, Any], cache: MemoryCache) -> Ack:
        await self._event(meta["round"], meta["slot"]).wait()
        return await good(meta, cache)

    async def open(self, round: int, *slots: int) -> None:
        for slot in slots:
            self._event(round, slot).set()
            # Each fragment is to be in the learner before the next one is stored.
            for _ in range(20):
                await asyncio.sleep(0)


def round_plan(round: int, **changes: Any) -> RoundPlan:
    return plan(round, **({"weights_version": round - 1} | changes))


async def taken(stream: Stream, count: int) -> list[Fragment]:
    fragments: list[Fragment] = []
    end = asyncio.get_running_loop().time() + 20
    while len(fragments) < count:
        assert asyncio.get_running_loop().time() < end, f"only {len(fragments)} of {count} came"
        await stream.wait(end)
        fragments += stream.take()
    return fragments


def identities(fragments: list[Fragment]) -> list[tuple[int, int]]:
    return [(int(fragment.meta["round"]), fragment.slot) for fragment in fragments]


async def test_fragments_come_in_order_of_arrival_and_free_their_lanes(
    work: Dispatcher, backend: FunctionBackend
) -> None:
    gate, stream = Gate(backend), Stream(work)
    stream.start(round_plan(1), 2)
    stream.start(round_plan(1), 4)
    assert stream.under_way == 4
    await gate.open(1, 2, 0)
    assert identities(await taken(stream, 2)) == [(1, 2), (1, 0)]
    await stream.end_round(1.0, 4)
    stream.start(round_plan(2), 4)
    await gate.open(2, 2)
    await gate.open(1, 3)
    await gate.open(2, 0)
    assert identities(await taken(stream, 3)) == [(2, 2), (1, 3), (2, 0)]
    assert stream.under_way == 1
    by_identity = {(r["round"], r["slot"]): r for r in backend.requests}
    assert sorted(by_identity) == [(1, 0), (1, 1), (1, 2), (1, 3), (2, 0), (2, 2)]
    for (round, slot), request in by_identity.items():
        assert request["seed"] == slot_seed(7, round, slot)
        assert request["weights"]["version"] == round - 1
    await work.close()


async def test_fewer_actors_start_none_until_enough_lanes_have_arrived(
    work: Dispatcher, backend: FunctionBackend
) -> None:
    gate, stream = Gate(backend), Stream(work)
    stream.start(round_plan(1), 6)
    await gate.open(1, 0, 1)
    await taken(stream, 2)
    stream.start(round_plan(2), 3)
    assert stream.under_way == 4
    await gate.open(1, 2, 3)
    await taken(stream, 2)
    stream.start(round_plan(3), 3)
    await asyncio.sleep(0)
    assert [(r["round"], r["slot"]) for r in backend.requests if r["round"] > 1] == [(3, 0)]
    await work.close()


async def test_a_lane_goes_on_from_its_own_end_state(work: Dispatcher, backend: FunctionBackend) -> None:
    gate, stream = Gate(backend), Stream(work)
    stream.start(round_plan(1), 2)
    await gate.open(1, 1)
    (fragment,) = await taken(stream, 1)
    states = {1: {"state/qpos": fragment.tensors["state/qpos"]}}
    stream.start(round_plan(2, states=states), 2)
    await asyncio.sleep(0)
    assert [r["state"] for r in backend.requests if r["round"] == 2] == [["state/qpos"]]
    await work.close()


async def test_stale_lanes_are_given_up_counted_and_free(work: Dispatcher, backend: FunctionBackend) -> None:
    gate, stream = Gate(backend), Stream(work)
    for round in (1, 2, 3):
        stream.start(round_plan(round), 2 * round)
    await gate.open(1, 0)
    await asyncio.sleep(0.01)
    await stream.drop(1)  # weights of before version 1: round 1's, one of which has arrived already
    assert stream.take() == []
    stats, lost = await stream.end_round(1.0, 4)
    assert (stats.dropped, lost) == ({"stale": 2}, [])
    assert stream.under_way == 4
    await gate.open(1, 1)
    stream.start(round_plan(4), 6)
    await gate.open(2, 2)
    await gate.open(4, 1)
    assert identities(await taken(stream, 2)) == [(2, 2), (4, 1)]
    await work.close()


async def test_a_lane_without_a_fragment_is_lost_and_starts_anew_in_the_next_round(
    work: Dispatcher, backend: FunctionBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nitro_learner.fanout._BACKOFF_SECONDS", 0.0)
    backend.script[0] = [failing("unavailable", billed=0.5)] * 5
    stream = Stream(work)
    stream.start(round_plan(1), 2)
    assert identities(await taken(stream, 1)) == [(1, 1)]
    while stream.under_way:
        await stream.wait(asyncio.get_running_loop().time() + 5)
    assert "5 x" not in stream.troubles
    assert "as told" in stream.troubles
    stream.start(round_plan(1), 2)
    assert stream.under_way == 0, "a slot is asked for once in a round"
    stats, lost = await stream.end_round(1.0, 2)
    assert lost == [0]
    assert stats.retries == {"unavailable": 5}
    backend.script.clear()
    stream.start(round_plan(2), 2)
    assert (2, 0) in identities(await taken(stream, 2))
    await work.close()


async def test_every_invocation_is_counted_once(work: Dispatcher, backend: FunctionBackend) -> None:
    gate, stream = Gate(backend), Stream(work)
    stream.start(round_plan(1), 3)
    await gate.open(1, 0)
    await taken(stream, 1)
    first, _ = await stream.end_round(1.0, 3)
    stream.start(round_plan(2), 3)
    await gate.open(1, 1, 2)
    await gate.open(2, 0)
    await taken(stream, 3)
    second, _ = await stream.end_round(1.0, 3)
    assert [len(first.billed_seconds), len(second.billed_seconds)] == [1, 3]
    assert [first.cold_starts, second.cold_starts] == [1, 3]
    assert len(second.slot_seconds) == 3
    await work.close()


async def test_what_no_try_can_mend_is_raised(work: Dispatcher, backend: FunctionBackend) -> None:
    async def refuse(_meta: dict[str, Any], _cache: MemoryCache) -> Ack:
        raise FatalError("other protocol")

    backend.script[1] = [refuse]
    backend.default = hang
    stream = Stream(work)
    stream.start(round_plan(1), 2)
    await stream.wait(asyncio.get_running_loop().time() + 5)
    with pytest.raises(FatalError, match="other protocol"):
        stream.take()
    await work.close()


async def test_what_an_earlier_sitting_left_behind_is_not_seen(
    work: Dispatcher, backend: FunctionBackend, cache: MemoryCache
) -> None:
    """Killed while a fragment lay in Redis: the same round is done again, perhaps from another end state."""
    first = Stream(work)
    first.start(round_plan(1), 1)
    await asyncio.sleep(0.01)
    await work.close()
    left_behind = backend.requests[0]
    cache.lists[left_behind["result"]["key"]].put_nowait(stored(left_behind))
    Gate(backend)
    again = Stream(work)
    again.start(round_plan(1), 1)
    await asyncio.sleep(0.05)
    assert again.take() == []
    assert backend.requests[1]["result"]["key"] != left_behind["result"]["key"]
    await work.close()


# Rounds.


class Recorder:
    """An algorithm that writes down how it is fed. `replays` says how often it can after each fragment."""

    max_staleness = 2

    def __init__(self, replays: int = 0) -> None:
        self.calls: list[Any] = []
        self._replays = self._left = 0
        self._replays = replays
        self.replayed = asyncio.Event()

    def take(self, fragments: list[Fragment]) -> None:
        self.calls += identities(fragments)
        self._left = self._replays

    def replay(self) -> bool:
        if self._left:
            self._left -= 1
            self.calls.append("replay")
        return self._left > 0 or (bool(self.calls) and self.calls[-1] == "replay")

    def end_round(self, round: int) -> UpdateResult:
        self.calls.append(f"end {round}")
        return UpdateResult({}, None)  # type: ignore[arg-type]

    def weights(self) -> Any: ...

    def state_dict(self) -> Any: ...

    def load_state_dict(self, state: Any) -> None: ...


@pytest.fixture
def compute() -> Iterator[Compute]:
    with Compute() as compute:
        yield compute


class Rounds:
    """A feed with what it needs around it."""

    def __init__(
        self, work: Dispatcher, backend: FunctionBackend, compute: Compute, algorithm: Recorder
    ) -> None:
        self.stop = asyncio.Event()
        feed = feeding.make(algorithm, work, backend, backend.cache, compute, self.stop)  # type: ignore[arg-type]
        assert isinstance(feed, Arrivals)
        self.feed = feed

    async def learn(self, round: int, actors: int, min_actors: int = 1) -> RoundResult:
        wanted = round_plan(round, min_actors=min_actors)
        await self.feed.start(wanted, actors)
        saved = asyncio.create_task(asyncio.sleep(0))
        context = RoundContext(wanted, actors, saved, Stages(), lambda _: None)
        result, _ = await self.feed.learn(context)
        return result


@pytest.mark.parametrize(
    ("actors", "min_actors", "fresh"), [(8, 1, 4), (7, 1, 4), (8, 6, 6), (4, 4, 4), (1, 1, 1)]
)
async def test_a_round_ends_with_half_of_its_actors_or_the_fewest(
    work: Dispatcher,
    backend: FunctionBackend,
    compute: Compute,
    actors: int,
    min_actors: int,
    fresh: int,
) -> None:
    gate, algorithm = Gate(backend), Recorder()
    rounds = Rounds(work, backend, compute, algorithm)
    learning = asyncio.create_task(rounds.learn(1, actors, min_actors))
    await asyncio.sleep(0.02)
    await gate.open(1, *range(fresh - 1))
    await asyncio.sleep(0.02)
    assert not learning.done()
    await gate.open(1, fresh - 1)
    result = await learning
    assert identities(result.fragments) == [(1, slot) for slot in range(fresh)]
    assert algorithm.calls == [*identities(result.fragments), "end 1"]
    await work.close()


async def test_what_is_under_way_serves_the_next_round(
    work: Dispatcher, backend: FunctionBackend, compute: Compute
) -> None:
    gate, algorithm = Gate(backend), Recorder()
    rounds = Rounds(work, backend, compute, algorithm)
    learning = asyncio.create_task(rounds.learn(1, 4))
    await asyncio.sleep(0.02)
    await gate.open(1, 3, 1)
    assert (await learning).staleness == 0
    learning = asyncio.create_task(rounds.learn(2, 4))
    await asyncio.sleep(0.02)
    await gate.open(2, 3)
    await gate.open(1, 0)
    result = await learning
    assert identities(result.fragments) == [(2, 3), (1, 0)]
    assert result.staleness == 1
    await work.close()


async def test_it_replays_while_nothing_arrives(
    work: Dispatcher, backend: FunctionBackend, compute: Compute
) -> None:
    gate, algorithm = Gate(backend), Recorder(replays=3)
    rounds = Rounds(work, backend, compute, algorithm)
    learning = asyncio.create_task(rounds.learn(1, 4))
    await asyncio.sleep(0.02)
    await gate.open(1, 2)
    end = asyncio.get_running_loop().time() + 10
    while algorithm.calls.count("replay") < 3:
        assert asyncio.get_running_loop().time() < end
        await asyncio.sleep(0.005)
    await gate.open(1, 0)
    await learning
    assert algorithm.calls == [(1, 2), "replay", "replay", "replay", (1, 0), "end 1"]
    await work.close()


async def test_the_deadline_ends_a_round_with_what_it_has(backend: FunctionBackend, compute: Compute) -> None:
    work = dispatcher(backend, backend.cache, deadline=0.2)
    gate, algorithm = Gate(backend), Recorder()
    rounds = Rounds(work, backend, compute, algorithm)
    learning = asyncio.create_task(rounds.learn(1, 8))
    await asyncio.sleep(0.02)
    await gate.open(1, 5)
    result = await learning
    assert identities(result.fragments) == [(1, 5)]
    assert result.stats.deadline_misses == 3
    assert result.lost == []
    await work.close()


async def test_a_round_that_the_deadline_cut_makes_the_next_one_no_longer(
    backend: FunctionBackend, compute: Compute
) -> None:
    work = dispatcher(backend, backend.cache, deadline=None, timeout=0.2)
    gate, rounds = Gate(backend), Rounds(work, backend, compute, Recorder())
    learning = asyncio.create_task(rounds.learn(1, 8))
    await asyncio.sleep(0.02)
    await gate.open(1, 5)
    assert (await learning).stats.deadline_misses == 3
    assert work.deadlines.now()() - asyncio.get_running_loop().time() == pytest.approx(0.2, abs=0.05)
    await work.close()


async def test_a_round_without_any_fragment_fails(backend: FunctionBackend, compute: Compute) -> None:
    work = dispatcher(backend, backend.cache, deadline=0.1)
    backend.default = hang
    with pytest.raises(
        RoundFailed, match="round 1: no fragment came before the deadline, 2 are wanted"
    ) as lost:
        await Rounds(work, backend, compute, Recorder()).learn(1, 4)
    assert lost.value.resumable
    await work.close()


async def test_an_outage_is_waited_out_and_ends_at_the_deadline(
    backend: FunctionBackend, compute: Compute, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nitro_learner.fanout._BACKOFF_CAP_SECONDS", 0.01)
    backend.script = {lane: [failing("unavailable")] * 20 for lane in range(4)}
    work = dispatcher(backend, backend.cache, deadline=20.0)
    result = await Rounds(work, backend, compute, Recorder()).learn(1, 4)
    assert len(result.fragments) >= 2
    assert result.lost == []
    await work.close()
    backend.script, backend.default = {}, failing("unavailable")
    work = dispatcher(backend, backend.cache, deadline=0.3)
    loop = asyncio.get_running_loop()
    began = loop.time()
    with pytest.raises(RoundFailed, match="no fragment came before the deadline") as lost:
        await Rounds(work, backend, compute, Recorder()).learn(1, 4)
    assert loop.time() - began >= 0.3
    assert lost.value.resumable
    assert "4 x unavailable" in str(lost.value), "what they wait for"
    await work.close()
    assert backend.running == 0


async def test_a_round_of_which_the_work_itself_fails_is_not_resumable(
    work: Dispatcher, backend: FunctionBackend, compute: Compute
) -> None:
    backend.default = failing("environment", deterministic=True)
    with pytest.raises(RoundFailed, match="4 x environment: as told") as broken:
        await Rounds(work, backend, compute, Recorder()).learn(1, 4)
    assert not broken.value.resumable
    await work.close()


async def test_fragments_too_far_behind_are_dropped(
    work: Dispatcher, backend: FunctionBackend, compute: Compute
) -> None:
    """L is 2: what samples with version 0 may serve round 3, but not round 4."""
    gate, algorithm = Gate(backend), Recorder()
    rounds = Rounds(work, backend, compute, algorithm)
    for round in (1, 2, 3, 4):
        learning = asyncio.create_task(rounds.learn(round, 2))
        await asyncio.sleep(0.02)
        await gate.open(round, 0)
        result = await learning
        assert result.stats.dropped == ({"stale": 1} if round == 4 else {})
    assert (4, 1) in [(r["round"], r["slot"]) for r in backend.requests], "its lane is started anew"
    await work.close()


@pytest.mark.parametrize("arrived", [0, 1])
async def test_an_interruption_ends_the_round_with_what_it_has(
    work: Dispatcher, backend: FunctionBackend, compute: Compute, arrived: int
) -> None:
    gate, algorithm = Gate(backend), Recorder()
    rounds = Rounds(work, backend, compute, algorithm)
    learning = asyncio.create_task(rounds.learn(1, 8))
    await asyncio.sleep(0.02)
    await gate.open(1, *range(arrived))
    await asyncio.sleep(0.02)
    rounds.stop.set()
    with contextlib.nullcontext() if arrived else pytest.raises(Interrupted):
        assert len((await learning).fragments) == arrived
    assert algorithm.calls == ([(1, 0), "end 1"] if arrived else [])
    await work.close()


async def test_what_is_under_way_at_the_end_is_given_up_and_paid(
    work: Dispatcher, backend: FunctionBackend, compute: Compute
) -> None:
    backend.script = {0: [good], 1: [hang], 2: [hang]}
    rounds = Rounds(work, backend, compute, Recorder())
    await rounds.learn(1, 3)
    await work.close()
    left = work.take_unused()
    assert (len(left.billed_seconds), left.estimated) == (2, 2)
    assert backend.running == 0


async def test_weights_are_kept_as_long_as_actors_may_sample_with_them(
    work: Dispatcher, backend: FunctionBackend, compute: Compute
) -> None:
    Rounds(work, backend, compute, Recorder())
    assert backend.cache.kept_versions == 4
