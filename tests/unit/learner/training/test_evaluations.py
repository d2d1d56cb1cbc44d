"""Evaluations beside the rounds: what a run that is to stop waits for."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from nitro_learner.sampling.plans import RoundFailed
from nitro_learner.training import evaluations


class State:
    """Counts what it takes in."""

    round = 3
    evaluation_mean = 1.5

    def __init__(self) -> None:
        self.taken: list[object] = []

    def take_evaluation(self, result: object) -> None:
        self.taken.append(result)


class Best:
    """Takes the mean return of every evaluation."""

    def __init__(self) -> None:
        self.means: list[float] = []

    async def save_best(self, mean: float) -> None:
        self.means.append(mean)


async def joined(played: Any, stop: asyncio.Event) -> tuple[object, State]:
    state = State()
    evaluating = asyncio.ensure_future(played)
    best = Best()
    waits = evaluations.Evaluations(None, "run", None, state, best)  # type: ignore[arg-type]
    result = await asyncio.wait_for(waits.join(evaluating, stop), 60)
    assert evaluating.done()
    assert len(best.means) == len(state.taken), "only what was played can be the best"
    return result, state


async def answer(result: object) -> object:
    await asyncio.sleep(0.05)
    if isinstance(result, Exception):
        raise result
    return result


async def test_a_run_that_stops_waits_for_an_evaluation_that_ends_soon() -> None:
    stop = asyncio.Event()
    stop.set()
    result, state = await joined(answer("played"), stop)
    assert result == "played"
    assert state.taken == ["played"]


async def test_a_run_that_stops_gives_up_an_evaluation_that_hangs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(evaluations, "STOP_SECONDS", 0.05)
    stop = asyncio.Event()
    asyncio.get_running_loop().call_later(0.05, stop.set)
    with caplog.at_level(logging.WARNING):
        result, state = await joined(asyncio.Event().wait(), stop)
    assert (result, state.taken) == (None, [])
    assert "the evaluation in round 3 is given up" in caplog.text


async def test_a_run_goes_on_after_an_evaluation_that_failed(caplog: pytest.LogCaptureFixture) -> None:
    result, state = await joined(answer(RoundFailed("timeout", resumable=True)), asyncio.Event())
    assert (result, state.taken) == (None, [])
    assert "timeout" in caplog.text
