"""How long a round is waited for: by its waves, as many as are left now."""

import asyncio
from dataclasses import dataclass

import pytest

from nitro_learner.deadlines import Deadlines

WAVE = 1000.0
"""Far more seconds than a test takes."""


@dataclass
class Requests:
    """At the backend since `age` seconds; `left` is how long their deadline is away, to a second."""

    at_once: int
    pending: int
    age: float = 0.0

    def __post_init__(self) -> None:
        self.deadlines = Deadlines(WAVE, None, at_once=lambda: self.at_once, pending=lambda: self.pending)
        self._at = self.deadlines.after(asyncio.get_running_loop().time() - self.age)

    @property
    def left(self) -> float:
        return pytest.approx(self._at() - asyncio.get_running_loop().time(), abs=1.0)  # type: ignore[no-any-return]


async def test_actors_that_are_few_for_a_moment_are_not_waited_by() -> None:
    requests = Requests(at_once=1, pending=64)
    assert requests.left == 64 * WAVE
    requests.at_once = 64
    assert requests.left == WAVE


async def test_actors_that_get_fewer_move_it_away_but_not_without_end() -> None:
    requests = Requests(at_once=8, pending=8, age=700.0)
    assert requests.left == WAVE - 700
    for _ in range(10):
        requests.at_once = 2
        assert requests.left == 4 * WAVE - 700, "as if it had been so from the start"
        requests.at_once = 8
        assert requests.left == WAVE


async def test_what_is_left_has_its_waves_from_then_on() -> None:
    requests = Requests(at_once=2, pending=8)
    assert requests.left == 4 * WAVE
    for pending, waves in ((7, 4), (6, 3), (3, 2), (1, 1), (0, 1)):
        requests.pending = pending
        assert requests.left == waves * WAVE
    requests.pending = 20  # others' requests
    assert requests.left == 10 * WAVE


async def test_a_wave_is_three_times_the_median_so_far() -> None:
    requests = Requests(at_once=2, pending=2)
    for seconds in (600.0, 1000.0, 9000.0):
        requests.deadlines.learn(seconds, slots=4)
    assert requests.left == 3 * 1000.0 / 2
