"""How long a round is waited for: by its waves, as many as are left now."""

import asyncio
from dataclasses import dataclass

from nitro_learner.backends.tasks.pool import Deadlines
from virtual_clock import VirtualClockLoop, now

loop_factory = VirtualClockLoop

WAVE = 1000.0
"""Seconds of a wave."""


@dataclass
class Requests:
    """At the backend since `age` seconds; `left` is how many seconds their deadline is away."""

    at_once: int
    pending: int
    age: float = 0.0
    fixed: float | None = None
    grace: float = 0.0

    def __post_init__(self) -> None:
        self.deadlines = Deadlines(
            WAVE,
            self.fixed,
            grace_seconds=self.grace,
            at_once=lambda: self.at_once,
            pending=lambda: self.pending,
        )
        self._at = self.deadlines.after(now() - self.age)

    @property
    def left(self) -> float:
        return self._at() - now()


async def test_deadline_comes_closer_when_actors_that_were_few_get_more() -> None:
    requests = Requests(at_once=1, pending=64)
    assert requests.left == 64 * WAVE
    requests.at_once = 64
    assert requests.left == WAVE


async def test_deadline_moves_away_when_actors_get_fewer_but_not_without_end() -> None:
    requests = Requests(at_once=8, pending=8, age=700.0)
    assert requests.left == WAVE - 700
    for _ in range(10):
        requests.at_once = 2
        assert requests.left == 4 * WAVE - 700, "as if it had been so from the start"
        requests.at_once = 8
        assert requests.left == WAVE


async def test_deadline_follows_the_waves_that_are_left() -> None:
    requests = Requests(at_once=2, pending=8)
    assert requests.left == 4 * WAVE
    for pending, waves in ((7, 4), (6, 3), (3, 2), (1, 1), (0, 1)):
        requests.pending = pending
        assert requests.left == waves * WAVE
    requests.pending = 20  # others' requests
    assert requests.left == 10 * WAVE


async def test_wave_is_three_times_the_median_so_far() -> None:
    requests = Requests(at_once=2, pending=2)
    for seconds in (600.0, 1000.0, 9000.0):
        requests.deadlines.learn(seconds, tasks=4)
    assert requests.left == 3 * 1000.0 / 2


async def test_deadline_leaves_a_request_the_grace_in_which_it_may_still_be_answered() -> None:
    assert Requests(at_once=2, pending=4, grace=15.0).left == 2 * (WAVE + 15.0)
    assert Requests(at_once=2, pending=4, grace=15.0, fixed=WAVE).left == 2 * WAVE, "a deadline that is given"
    requests = Requests(at_once=2, pending=2, grace=15.0)
    requests.deadlines.learn(600.0, tasks=2)
    assert requests.left == 3 * 600.0


async def test_time_without_any_actor_does_not_count() -> None:
    requests = Requests(at_once=0, pending=8)
    for _ in range(50):
        await asyncio.sleep(WAVE / 10)
        assert requests.left == WAVE, "it does not come closer"
    requests.at_once = 4
    await asyncio.sleep(1)
    assert requests.left == 2 * WAVE
    await asyncio.sleep(WAVE)
    assert requests.left == WAVE
    requests.at_once = 0
    assert requests.left == WAVE
    await asyncio.sleep(5 * WAVE)
    assert requests.left == WAVE
