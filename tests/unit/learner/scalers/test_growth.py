"""The scaler that grows on a plateau, against its formula by hand."""

import json
import math
import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nitro_learner.scalers import RoundOutcome, Scaler
from nitro_learner.scalers.growth import rise
from scaler_support import make

LEVEL = [10.0, 12.0] * 3
STEEP = [10.0, 12.0, 11.0, 40.0, 42.0, 41.0]


def grown(**scaling: Any) -> Scaler:
    return make(scaler="growth", **({"min_actors": 4, "max_actors": 32, "initial_actors": 4} | scaling))


def run(scaler: Scaler, returns: Sequence[float | None], actors: int | None = None) -> list[int]:
    """I_1, I_2, ... of rounds whose episodes have these mean returns."""
    found = [actors or scaler.initial]
    for k, value in enumerate(returns, start=1):
        found.append(
            scaler.decide(RoundOutcome(round=k, actors=found[-1], reward_round=value, reward_mean=5.0)).actors
        )
    return found


def test_the_rise_by_hand() -> None:
    # Means 2 and 5, variances 1 and 4, of three values each.
    assert rise([1.0, 2.0, 3.0, 3.0, 5.0, 7.0]) == pytest.approx(3 / math.sqrt(1 / 3 + 4 / 3))
    assert rise([1.0, 1.0, 2.0, 2.0]) == math.inf
    assert rise([2.0, 2.0, 1.0, 1.0]) == -math.inf
    assert rise([3.0] * 4) == 0
    # With an odd number, the middle one is among the newer.
    assert rise([0.0, 2.0, 1.0, 3.0, 5.0]) == pytest.approx(2 / math.sqrt(2 / 2 + 4 / 3))


def test_a_plateau_doubles_after_each_window() -> None:
    scaler = grown(window=6)
    assert not scaler.needs
    assert run(scaler, LEVEL * 4) == [4] * 6 + [8] * 6 + [16] * 6 + [32] * 7
    assert run(grown(window=6, max_actors=12), LEVEL * 3)[-1] == 12, "the range holds"


def test_falling_returns_are_a_plateau_too() -> None:
    assert run(grown(window=6), [60.0, 50.0, 40.0, 30.0, 20.0, 10.0])[-1] == 8


def test_steep_returns_halve_and_rising_ones_keep_the_number() -> None:
    assert run(grown(window=6), STEEP, actors=16) == [16] * 6 + [8]
    assert run(grown(window=6), STEEP, actors=4)[-1] == 4, "the range holds"
    assert run(grown(window=6, min_actors=5, initial_actors=8), STEEP, actors=8)[-1] == 5
    rising = [10.0, 12.0, 11.0, 13.0, 14.5, 15.0]
    assert 2 < rise(rising) < 5.6
    assert run(grown(window=6), rising, actors=8)[-1] == 8


def test_rounds_in_which_no_episode_ended_do_not_count() -> None:
    spread = [value for one in LEVEL for value in (None, one)]
    assert run(grown(window=6), spread) == [4] * 12 + [8]


def test_it_looks_once_in_a_window() -> None:
    fallen = [10.0, 10.5, 30.0, 30.5]  # steep, and before and after it flat
    assert run(grown(window=4), [30.0, *fallen], actors=8) == [8] * 4 + [16, 16]
    assert run(grown(window=4), fallen, actors=8)[-1] == 4


@given(st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False), max_size=40))
def test_any_returns_keep_the_range(returns: list[float | None]) -> None:
    actors = run(grown(window=4), returns)
    assert all(4 <= n <= 32 for n in actors)
    assert all(later in (now, min(2 * now, 32), max(now // 2, 4)) for now, later in pairwise(actors))


def test_the_returns_of_a_long_training_grow_it_and_a_rising_training_does_not_grow() -> None:
    """What it is for: a curve that saturates, with the noise of few episodes a round."""
    noise = np.random.default_rng(0).normal(scale=300, size=400)
    saturating = [2500 * (1 - math.exp(-k / 60)) + float(noise[k]) for k in range(400)]
    actors = run(grown(window=40), list(saturating))
    assert actors[:80] == [4] * 80
    assert actors[-1] == 32
    rising = [30.0 * k + float(noise[k]) for k in range(400)]
    assert run(grown(window=40), list(rising)) == [4] * 401


@pytest.mark.parametrize("cut", [0, 1, 7, 100])
def test_a_restored_scaler_continues_the_same_decisions(cut: int) -> None:
    source = random.Random(3)
    returns: list[float | None] = [
        None if k % 7 == 0 else source.gauss(k if 60 < k < 90 else 50, 1 + k % 5) for k in range(160)
    ]
    expected = run(grown(window=6), returns)
    assert len(set(expected)) > 2, "nothing to see"
    first, second = grown(window=6), grown(window=6)
    done = run(first, returns[:cut])
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    actors = [done[-1]]
    for k, value in enumerate(returns[cut:], start=cut + 1):
        actors.append(second.decide(RoundOutcome(round=k, actors=actors[-1], reward_round=value)).actors)
    assert actors == expected[cut:]
