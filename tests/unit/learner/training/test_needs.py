"""What a run tells of the actors that it needs: now, and when."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from nitro_learner.training import needs
from nitro_learner.training.listeners import Listeners
from nitro_learner.training.needs import QUANTILE, ActorNeed, LaterNeed, Needs, remaining
from nitro_learner.training.round_report import Listener


@pytest.mark.parametrize("count", [1, 2, 5, 20])
def test_a_wait_is_predicted_by_the_quantile_of_earlier_ones(count: int) -> None:
    waits = np.random.default_rng(count).exponential(10, count).tolist()
    assert remaining(waits) == pytest.approx(np.quantile(waits, QUANTILE))


def test_a_wait_that_lasts_is_compared_with_those_that_lasted_longer() -> None:
    waits = [1.0, 1.0, 1.0, 1.0, 30.0]
    assert remaining(waits) == 1.0
    assert remaining(waits, elapsed=1.0) == 29.0
    assert remaining(waits, elapsed=12.5) == 17.5
    assert remaining(waits, elapsed=30.0) is None, "nothing like it was seen"
    assert remaining([]) is None


class Told(Listener):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.needs: list[ActorNeed] = []
        self.news = asyncio.Event()

    def on_need_changed(self, need: ActorNeed) -> None:
        self.needs.append(need)
        self.news.set()

    def take(self) -> list[ActorNeed]:
        taken, self.needs = self.needs, []
        self.news.clear()
        return taken


class Clock:
    """The time, and how many actors requests are with."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.in_use = 0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(needs, "time", found)
    return found


def make(clock: Clock, **options: Any) -> tuple[Needs, Told]:
    told = Told()
    return Needs(Listeners([told]), lambda: clock.in_use, **options), told


def gap(checkpoint: float, update: float, evaluate: float) -> dict[str, float | None]:
    return {"seconds_checkpoint": checkpoint, "seconds_update": update, "seconds_evaluate": evaluate}


async def test_actors_are_needed_from_the_first_round_on_and_not_in_gaps(clock: Clock) -> None:
    run, told = make(clock)
    run.coming(8)
    run.sampling(8, 8)
    run.decided(8)
    assert told.take() == [ActorNeed(0, (LaterNeed(0.0, 8),)), ActorNeed(8)]
    run.sampled(8, 8)
    assert told.take() == [ActorNeed(0)], "nothing is known of the first gap"
    clock.now += 20
    run.sampling(8, 8)
    run.sampled(8, 8)
    assert told.take() == [ActorNeed(8), ActorNeed(0, (LaterNeed(20.0, 8),))]


async def test_the_gaps_of_an_earlier_pod_are_known(clock: Clock) -> None:
    run, told = make(clock, history=[gap(1, 10, 3), gap(0, 14, 0)])
    run.sampling(4, 4)
    run.sampled(4, 4)
    assert told.take() == [ActorNeed(4), ActorNeed(0, (LaterNeed(14.0, 4),))]


async def test_the_rest_is_needed_after_a_detector_that_takes_long(clock: Clock) -> None:
    run, told = make(clock, history=[gap(0, 10, 0)])
    run.sampling(2, 16)
    clock.now += 5
    run.decided(12)
    assert told.take() == [ActorNeed(16), ActorNeed(12)], "the first time nothing is known of the detector"
    run.sampled(2, 12)
    assert told.take() == [ActorNeed(0, (LaterNeed(10.0, 2), LaterNeed(15.0, 12)))]
    clock.now += 10
    run.sampling(2, 12)
    clock.now += 5
    run.decided(16)
    assert told.take() == [ActorNeed(2, (LaterNeed(5.0, 12),)), ActorNeed(16)]


async def test_gaps_in_which_nobody_could_sleep_are_not_told(clock: Clock) -> None:
    run, told = make(clock, history=[gap(0, 0.4, 0)] * 5)
    for _ in range(3):
        run.sampling(2, 8)
        clock.now += 0.1
        run.decided(8)
        run.sampled(2, 8)
        clock.now += 0.4
    assert told.take() == [ActorNeed(8)]


async def test_a_gap_that_becomes_long_against_expectation_is_told(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(needs, "SHORTEST_SECONDS", 0.05)
    run, told = make(clock, history=[gap(0, 0.04, 0)] * 5 + [gap(0, 0.04, 30)])
    run.sampling(8, 8)
    run.sampled(8, 8)
    assert told.take() == [ActorNeed(8)]
    clock.now += 1.04
    async with asyncio.timeout(60):
        await told.news.wait()
    (need,) = told.take()
    assert need.now == 0
    assert need.later == (LaterNeed(pytest.approx(29.0), 8),)  # type: ignore[arg-type]


async def test_requests_of_an_evaluation_need_actors_until_it_ends(clock: Clock) -> None:
    run, told = make(clock, history=[gap(0, 10, 0)])
    run.sampling(4, 4)
    run.evaluating(2)
    assert told.take() == [ActorNeed(4), ActorNeed(6)]
    clock.in_use = 6
    run.sampled(4, 4)
    assert told.take() == [ActorNeed(6, (LaterNeed(10.0, 4),))], "with the sixth actor is one of them"
    clock.now, clock.in_use = clock.now + 4, 0
    run.evaluated()
    assert told.take() == [ActorNeed(0, (LaterNeed(6.0, 4),))]
    clock.now += 6
    run.sampling(4, 4)
    run.evaluating(2)
    run.evaluated()
    assert told.take() == [ActorNeed(4), ActorNeed(6), ActorNeed(4)]


async def test_a_request_behind_the_rounds_actors_is_still_needed(clock: Clock) -> None:
    """The round before had more of them."""
    run, told = make(clock)
    run.sampling(16, 16)
    clock.in_use = 9
    run.decided(4)
    assert told.take() == [ActorNeed(16), ActorNeed(9)]


async def test_rounds_without_gaps_need_all_actors_all_the_time(clock: Clock) -> None:
    run, told = make(clock, gaps=False)
    for actors in (8, 8, 6):
        run.sampling(2, 8)
        clock.now += 30
        run.decided(actors)
        clock.now += 30
    assert told.take() == [ActorNeed(8), ActorNeed(6)]


async def test_after_the_last_round_only_the_last_evaluation_needs_actors(clock: Clock) -> None:
    run, told = make(clock, history=[gap(0, 10, 0)])
    run.sampling(16, 16)
    run.sampled(2, 2)
    clock.now += 10
    run.ending(2)
    assert told.take() == [ActorNeed(16), ActorNeed(0, (LaterNeed(10.0, 2),)), ActorNeed(2)]


async def test_a_forecast_is_corrected_while_the_update_shows_how_long_it_takes(clock: Clock) -> None:
    run, told = make(clock, history=[gap(0, 10, 0)])
    run.sampling(8, 8)
    run.sampled(8, 8)
    assert told.take() == [ActorNeed(8), ActorNeed(0, (LaterNeed(10.0, 8),))]
    clock.now += 1  # the checkpoint
    run.learned(0.0)
    clock.now += 5
    run.learned(0.25)
    assert told.take() == [ActorNeed(0, (LaterNeed(15.0, 8),))]
    clock.now += 5.1
    run.learned(0.5)
    assert told.take() == [], "a tenth of a second is not worth a word"
    clock.now += 0.9
    run.learned(0.5)
    assert told.take() == [], "nor is a second of eleven"
    clock.now += 9.0
    run.learned(1.0)
    clock.now += 2  # what follows the update
    run.sampling(8, 8)
    run.sampled(8, 8)
    told.take()
    run.learned(0.0)
    clock.now += 4
    run.learned(0.5)
    assert told.take() == [ActorNeed(0, (LaterNeed(4.0 + 2.0, 8),))], "with what followed the last update"


async def test_an_update_is_expected_to_end_as_the_last_one_of_its_size_did(clock: Clock) -> None:
    """Both are slow in the end, while actors wake on the same node."""
    run, told = make(clock)

    def update(*seconds: float) -> list[list[ActorNeed]]:
        run.sampled(8, 8)
        run.learned(0.0)
        words = []
        for done, took in enumerate(seconds, start=1):
            clock.now += took
            told.take()
            run.learned(done / len(seconds))
            words.append(told.take())
        run.sampling(8, 8)
        return words

    run.sampling(8, 8)
    assert update(4, 4, 4, 8)[0] == [ActorNeed(0, (LaterNeed(12.0, 8),))], "as its first quarter"
    assert update(4, 4, 4, 8) == [[]] * 4, "as the last gap: in 20 seconds"
    assert update(2, 2, 2, 2)[0] == [ActorNeed(0, (LaterNeed(8.0, 8),))], "in half of that: it is faster"
    run.sampling(4, 4)
    assert update(4, 4, 4, 8)[0] == [ActorNeed(0, (LaterNeed(12.0, 8),))], "one of another size says nothing"


async def test_even_the_first_gap_is_foreseen_by_its_update(clock: Clock) -> None:
    run, told = make(clock)
    run.sampling(8, 8)
    run.sampled(8, 8)
    run.learned(0.0)
    clock.now += 3
    run.learned(0.25)
    assert told.take() == [ActorNeed(8), ActorNeed(0), ActorNeed(0, (LaterNeed(9.0, 8),))]
    clock.now += 8.8
    run.learned(0.99)
    assert told.take() == [], "too near to be told"


async def test_a_gap_that_its_update_shows_to_be_long_is_told_at_once(clock: Clock) -> None:
    run, told = make(clock, history=[gap(0, 0.4, 0)] * 5)
    run.sampling(8, 8)
    run.sampled(8, 8)
    run.learned(0.0)
    clock.now += 0.5
    run.learned(0.1)
    assert told.take() == [ActorNeed(8), ActorNeed(0, (LaterNeed(pytest.approx(4.5), 8),))]  # type: ignore[arg-type]
    run.ending(1)
    run.learned(0.5)
    assert told.take() == [ActorNeed(1)], "there is no gap any more"
