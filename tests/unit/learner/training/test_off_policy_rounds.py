"""Off-policy rounds with actors that are functions: lanes, order of arrival, staleness, when a round ends."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dispatch_support import (
    FunctionBackend,
    RecordingCache,
    dispatcher,
    failing,
    good,
    hang,
    plan,
    stored,
)
from nitro_actor.protocol.weights import DEFAULT_POLICY
from nitro_learner.algorithms.base import SINGLE_AGENT, UpdateResult
from nitro_learner.algorithms.policy_set import PolicySet
from nitro_learner.backends.base import Ack, FatalError
from nitro_learner.data.batch import Fragment
from nitro_learner.sampling.dispatch import Dispatcher
from nitro_learner.sampling.plans import RoundFailed, RoundPlan, RoundResult
from nitro_learner.sampling.seeds import slot_seed
from nitro_learner.sampling.stream import Stream
from nitro_learner.training import rounds
from nitro_learner.training.compute import Compute
from nitro_learner.training.rounds import AsyncRounds, RoundContext
from nitro_learner.training.waiting import Interrupted, Stages
from virtual_clock import VirtualClockLoop, WatchedCompute, now, settled

loop_factory = VirtualClockLoop


@pytest.fixture
def work(backend: FunctionBackend, cache: RecordingCache) -> Dispatcher:
    return dispatcher(backend, cache, deadline=2.0)


class Gate:
    """Actors that hold their fragments back. `open` lets slots of a round go, one after the other; the
    learner has done with each what it can when it returns.
    """

    def __init__(self, backend: FunctionBackend) -> None:
        self._events: dict[tuple[int, int], asyncio.Event] = {}
        backend.default = self._sample

    def _event(self, round: int, slot: int) -> asyncio.Event:
        return self._events.setdefault((round, slot), asyncio.Event())

    async def _sample(self, meta: dict[str, Any], cache: RecordingCache) -> Ack:
        await self._event(meta["round"], meta["slot"]).wait()
        return await good(meta, cache)

    async def open(self, round: int, *slots: int) -> None:
        for slot in slots:
            self._event(round, slot).set()
            await settled()


def round_plan(round: int, **changes: Any) -> RoundPlan:
    return plan(round, **({"weights_version": round - 1} | changes))


async def taken(stream: Stream, count: int) -> list[Fragment]:
    fragments: list[Fragment] = []
    end = now() + 20
    while len(fragments) < count:
        assert now() < end, f"only {len(fragments)} of {count} came"
        await stream.wait(end)
        fragments += stream.take()
    return fragments


def identities(fragments: list[Fragment]) -> list[tuple[int, int]]:
    return [(int(fragment.meta["round"]), fragment.slot) for fragment in fragments]


async def test_stream_hands_out_fragments_in_order_of_arrival_and_frees_their_lanes(
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


async def test_stream_with_fewer_actors_starts_none_until_enough_lanes_have_arrived(
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
    await settled()
    assert [(r["round"], r["slot"]) for r in backend.requests if r["round"] > 1] == [(3, 0)]
    await work.close()


async def test_stream_continues_a_lane_from_its_own_end_state(
    work: Dispatcher, backend: FunctionBackend
) -> None:
    gate, stream = Gate(backend), Stream(work)
    stream.start(round_plan(1), 2)
    await gate.open(1, 1)
    (fragment,) = await taken(stream, 1)
    states = {1: {"state/qpos": fragment.tensors["state/qpos"]}}
    stream.start(round_plan(2, states=states), 2)
    await settled()
    assert [r["state"] for r in backend.requests if r["round"] == 2] == [["state/qpos"]]
    await work.close()


async def test_stream_gives_up_stale_lanes_counts_them_and_frees_them(
    work: Dispatcher, backend: FunctionBackend
) -> None:
    gate, stream = Gate(backend), Stream(work)
    for round in (1, 2, 3):
        stream.start(round_plan(round), 2 * round)
    await settled()
    assert backend.running == 6
    await gate.open(1, 0)
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


async def test_stream_loses_a_lane_without_a_fragment_and_starts_it_again_in_the_next_round(
    work: Dispatcher, backend: FunctionBackend
) -> None:
    backend.script[0] = [failing("unavailable", billed=0.5)] * 5
    stream = Stream(work)
    stream.start(round_plan(1), 2)
    assert identities(await taken(stream, 1)) == [(1, 1)]
    while stream.under_way:
        await stream.wait(now() + 5)
    assert [trouble.text for trouble in stream.troubles] == ["unavailable: as told"]
    stream.start(round_plan(1), 2)
    assert stream.under_way == 0, "a slot is asked for once in a round"
    stats, lost = await stream.end_round(1.0, 2)
    assert lost == [0]
    assert stats.retries == {"unavailable": 5}
    backend.script.clear()
    stream.start(round_plan(2), 2)
    assert (2, 0) in identities(await taken(stream, 2))
    await work.close()


async def test_stream_counts_every_invocation_once(work: Dispatcher, backend: FunctionBackend) -> None:
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
    assert len(second.task_seconds) == 3
    await work.close()


async def test_stream_raises_when_no_retry_can_help(work: Dispatcher, backend: FunctionBackend) -> None:
    async def refuse(_meta: dict[str, Any], _cache: RecordingCache) -> Ack:
        raise FatalError("other protocol")

    backend.script[1] = [refuse]
    backend.default = hang
    stream = Stream(work)
    stream.start(round_plan(1), 2)
    await stream.wait(now() + 5)
    with pytest.raises(FatalError, match="other protocol"):
        stream.take()
    await work.close()


async def test_stream_takes_no_fragment_that_an_earlier_sitting_left_behind(
    work: Dispatcher, backend: FunctionBackend, cache: RecordingCache
) -> None:
    """Killed while a fragment lay in Redis: the same round is done again, perhaps from another end state."""
    gate, first = Gate(backend), Stream(work)
    first.start(round_plan(1), 1)
    await settled()
    await work.close()
    (left_behind,) = backend.requests
    cache.put(left_behind["result"]["key"], stored(left_behind | {"attempt": 3}))
    again = Stream(work)
    again.start(round_plan(1), 1)
    await stream_polls()
    assert again.take() == []
    await gate.open(1, 0)
    (fragment,) = await taken(again, 1)
    assert fragment.meta["attempt"] == 0, "the one that this sitting asked for"
    await work.close()


async def stream_polls() -> None:
    """Return when every list was looked into again."""
    await asyncio.sleep(5.0)


# Rounds.


class Recorder:
    """A learner that writes down how it is fed. `replays` says how often it can after each fragment."""

    policies = (DEFAULT_POLICY,)
    agents = SINGLE_AGENT
    max_staleness = 2

    def __init__(self, replays: int = 0) -> None:
        self.calls: list[Any] = []
        self._replays = replays
        self._left = 0

    def take(self, fragments: list[Fragment]) -> None:
        self.calls += identities(fragments)
        self._left = self._replays

    def replay(self) -> bool:
        if self._left == 0:
            return False
        self._left -= 1
        self.calls.append("replay")
        return True

    def end_round(self, round: int) -> dict[str, UpdateResult]:
        self.calls.append(f"end {round}")
        return {DEFAULT_POLICY: UpdateResult({}, None)}  # type: ignore[arg-type]

    def weights(self) -> Any: ...

    def begin_round(self, round: int, rounds: int) -> None: ...

    def state_dict(self) -> Any: ...

    def load_state_dict(self, state: Any) -> None: ...

    def adopt(self, state: Any) -> None: ...

    def copy_slots(self, sources: Any) -> None: ...


@pytest.fixture
def compute() -> Iterator[Compute]:
    with WatchedCompute() as compute:
        yield compute


class Rounds:
    """A feed with what it needs around it."""

    def __init__(
        self, work: Dispatcher, backend: FunctionBackend, compute: Compute, algorithm: Recorder
    ) -> None:
        self.stop = asyncio.Event()
        self.saved = asyncio.Event()
        self.saved.set()
        self.keep: Callable[[], None] = lambda: None
        policies = PolicySet([algorithm], SINGLE_AGENT, "arrivals")
        feed = rounds.make(policies, work, backend, backend.cache, compute, self.stop)  # type: ignore[arg-type]
        assert isinstance(feed, AsyncRounds)
        self.feed = feed

    async def learn(self, round: int, actors: int, min_actors: int = 1) -> RoundResult:
        wanted = round_plan(round, min_actors=min_actors)
        await self.feed.start(wanted, actors)
        context = RoundContext(wanted, actors, self.saved.wait(), self.keep, Stages(), lambda _: None)
        result, _ = await self.feed.learn(context)
        return result

    async def begin(self, round: int, actors: int, min_actors: int = 1) -> asyncio.Task[RoundResult]:
        """The round, all of whose actors sample by now."""
        learning = asyncio.create_task(self.learn(round, actors, min_actors))
        await settled()
        return learning


@pytest.mark.parametrize(
    ("actors", "min_actors", "fresh"), [(8, 1, 4), (7, 1, 4), (8, 6, 6), (4, 4, 4), (1, 1, 1)]
)
async def test_round_ends_with_half_of_its_actors_or_the_fewest(
    work: Dispatcher,
    backend: FunctionBackend,
    compute: Compute,
    actors: int,
    min_actors: int,
    fresh: int,
) -> None:
    gate, algorithm = Gate(backend), Recorder()
    rounds = Rounds(work, backend, compute, algorithm)
    learning = await rounds.begin(1, actors, min_actors)
    await gate.open(1, *range(fresh - 1))
    await settled()
    assert not learning.done()
    await gate.open(1, fresh - 1)
    result = await learning
    assert identities(result.fragments) == [(1, slot) for slot in range(fresh)]
    assert algorithm.calls == [*identities(result.fragments), "end 1"]
    await work.close()


async def test_round_learns_from_fragments_that_the_round_before_asked_for(
    work: Dispatcher, backend: FunctionBackend, compute: Compute
) -> None:
    gate, algorithm = Gate(backend), Recorder()
    rounds = Rounds(work, backend, compute, algorithm)
    learning = await rounds.begin(1, 4)
    await gate.open(1, 3, 1)
    assert (await learning).staleness == 0
    learning = await rounds.begin(2, 4)
    await gate.open(2, 3)
    await gate.open(1, 0)
    result = await learning
    assert identities(result.fragments) == [(2, 3), (1, 0)]
    assert result.staleness == 1
    await work.close()


async def test_round_replays_while_nothing_arrives_and_as_often_as_the_algorithm_can(
    work: Dispatcher, backend: FunctionBackend, compute: Compute
) -> None:
    gate, algorithm = Gate(backend), Recorder(replays=3)
    rounds = Rounds(work, backend, compute, algorithm)
    learning = await rounds.begin(1, 4)
    await gate.open(1, 2)
    assert algorithm.calls == [(1, 2), "replay", "replay", "replay"], "as often as it can, then it waits"
    assert not learning.done()
    await gate.open(1, 0)
    await learning
    assert algorithm.calls == [(1, 2), "replay", "replay", "replay", (1, 0), "end 1"]
    await work.close()


async def test_round_keeps_the_state_before_it_for_a_round_that_only_replays(
    work: Dispatcher, backend: FunctionBackend, compute: Compute
) -> None:
    """The round before left something to replay, and the run shall stop before a fragment came."""
    gate, algorithm = Gate(backend), Recorder(replays=2)
    rounds = Rounds(work, backend, compute, algorithm)
    algorithm.take([])
    rounds.keep = lambda: algorithm.calls.append("kept")
    learning = await rounds.begin(1, 4)
    assert algorithm.calls == ["kept", "replay", "replay"]
    rounds.stop.set()
    with pytest.raises(Interrupted):
        await learning
    await gate.open(1, 0)
    await work.close()


async def test_round_ends_at_the_deadline_with_what_it_has(
    backend: FunctionBackend, compute: Compute
) -> None:
    work, began = dispatcher(backend, backend.cache, deadline=20.0), now()
    gate, algorithm = Gate(backend), Recorder()
    rounds = Rounds(work, backend, compute, algorithm)
    learning = await rounds.begin(1, 8)
    await gate.open(1, 5)
    result = await learning
    assert now() - began == pytest.approx(20.0)
    assert identities(result.fragments) == [(1, 5)]
    assert result.stats.deadline_misses == 3
    assert result.lost == []
    await work.close()


async def test_round_that_the_deadline_cut_makes_the_next_deadline_no_longer(
    backend: FunctionBackend, compute: Compute
) -> None:
    work = dispatcher(backend, backend.cache, deadline=None, timeout=20.0)
    gate, rounds = Gate(backend), Rounds(work, backend, compute, Recorder())
    learning = await rounds.begin(1, 8)
    await gate.open(1, 5)
    assert (await learning).stats.deadline_misses == 3
    assert work.deadlines.now()() - now() == pytest.approx(20.0)
    await work.close()


async def test_round_without_any_fragment_fails_at_the_deadline(
    backend: FunctionBackend, compute: Compute
) -> None:
    work, began = dispatcher(backend, backend.cache, deadline=20.0), now()
    backend.default = hang
    with pytest.raises(
        RoundFailed, match=r"round 1 failed: no answer yet\nNo fragment came .* deadline; 2 are wanted"
    ) as lost:
        await Rounds(work, backend, compute, Recorder()).learn(1, 4)
    assert now() - began == pytest.approx(20.0)
    assert lost.value.resumable
    await work.close()


async def test_round_waits_out_an_outage_but_not_past_the_deadline(
    backend: FunctionBackend, compute: Compute
) -> None:
    backend.script = {lane: [failing("unavailable")] * 20 for lane in range(4)}
    work = dispatcher(backend, backend.cache, deadline=200.0)
    result = await Rounds(work, backend, compute, Recorder()).learn(1, 4)
    assert len(result.fragments) >= 2
    assert result.lost == []
    await work.close()
    backend.script, backend.default = {}, failing("unavailable")
    work, began = dispatcher(backend, backend.cache, deadline=20.0), now()
    with pytest.raises(RoundFailed, match="No fragment came before the deadline") as lost:
        await Rounds(work, backend, compute, Recorder()).learn(1, 4)
    assert now() - began == pytest.approx(20.0)
    assert lost.value.resumable
    assert "failed: unavailable: as told" in str(lost.value), "what they wait for"
    await work.close()
    assert backend.running == 0


async def test_round_whose_work_itself_fails_is_not_resumable(
    work: Dispatcher, backend: FunctionBackend, compute: Compute
) -> None:
    backend.default = failing("environment", deterministic=True)
    with pytest.raises(RoundFailed, match="round 1 failed: environment: as told") as broken:
        await Rounds(work, backend, compute, Recorder()).learn(1, 4)
    assert not broken.value.resumable
    await work.close()


async def test_round_drops_fragments_too_far_behind(
    work: Dispatcher, backend: FunctionBackend, compute: Compute
) -> None:
    """L is 2: what samples with version 0 may serve round 3, but not round 4."""
    gate, algorithm = Gate(backend), Recorder()
    rounds = Rounds(work, backend, compute, algorithm)
    for round in (1, 2, 3, 4):
        learning = await rounds.begin(round, 2)
        await gate.open(round, 0)
        result = await learning
        assert result.stats.dropped == ({"stale": 1} if round == 4 else {})
    assert (4, 1) in [(r["round"], r["slot"]) for r in backend.requests], "its lane is started anew"
    await work.close()


@pytest.mark.parametrize("arrived", [0, 1])
async def test_interruption_ends_the_round_with_what_it_has(
    work: Dispatcher, backend: FunctionBackend, compute: Compute, arrived: int
) -> None:
    gate, algorithm = Gate(backend), Recorder()
    rounds = Rounds(work, backend, compute, algorithm)
    learning = await rounds.begin(1, 8)
    await gate.open(1, *range(arrived))
    began = now()
    rounds.stop.set()
    with contextlib.nullcontext() if arrived else pytest.raises(Interrupted):
        assert len((await learning).fragments) == arrived
    assert now() == began, "at once"
    assert algorithm.calls == ([(1, 0), "end 1"] if arrived else [])
    await work.close()


async def test_interruption_in_an_update_ends_the_round_after_it(
    work: Dispatcher, backend: FunctionBackend, compute: Compute
) -> None:
    loop = asyncio.get_running_loop()

    class Interrupting(Recorder):
        def replay(self) -> bool:
            if self.calls:
                loop.call_soon_threadsafe(rounds.stop.set)
            return super().replay()

    gate, algorithm = Gate(backend), Interrupting(replays=1000)
    rounds = Rounds(work, backend, compute, algorithm)
    learning = await rounds.begin(1, 8)
    await gate.open(1, 0)
    assert identities((await learning).fragments) == [(1, 0)]
    assert algorithm.calls == [(1, 0), "replay", "end 1"]
    await work.close()


async def test_requests_that_still_run_at_the_end_are_cancelled_and_paid(
    work: Dispatcher, backend: FunctionBackend, compute: Compute
) -> None:
    backend.script = {0: [good], 1: [hang], 2: [hang]}
    rounds = Rounds(work, backend, compute, Recorder())
    await rounds.learn(1, 3)
    await work.close()
    left = work.take_unused()
    assert (len(left.billed_seconds), left.estimated) == (2, 2)
    assert backend.running == 0


async def test_round_learns_nothing_before_the_state_of_the_round_before_is_on_disk(
    work: Dispatcher, backend: FunctionBackend, compute: Compute
) -> None:
    gate, algorithm = Gate(backend), Recorder()
    rounds = Rounds(work, backend, compute, algorithm)
    rounds.saved.clear()
    learning = await rounds.begin(1, 1)
    await gate.open(1, 0)
    assert algorithm.calls == []
    rounds.saved.set()
    await learning
    assert algorithm.calls == [(1, 0), "end 1"]
    await work.close()


async def test_cache_keeps_weights_as_long_as_actors_may_sample_with_them(compute: Compute) -> None:
    backend = FunctionBackend(cache := RecordingCache())
    cache.kept_versions = 2
    Rounds(dispatcher(backend, cache), backend, compute, Recorder())
    assert cache.kept_versions == 4
