"""What a run knows between two rounds."""

import logging

import numpy as np
import pytest

from nitro_learner.batch import Fragment
from nitro_learner.state import TrainingState


def fragment(steps: int, returns: list[float]) -> Fragment:
    return Fragment({"slot": 0, "steps": steps}, {"episode_returns": np.array(returns)})


def test_episodes_that_never_end_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    state = TrainingState(actors=1)
    with caplog.at_level(logging.WARNING):
        for _ in range(9):
            state.absorb([fragment(40_000, [])], keep_end_states=False)
    (record,) = caplog.records
    assert "No episode has ended in 100,000 steps" in record.message
    assert "max_episode_steps" in record.message


def test_one_episode_that_ended_is_enough(caplog: pytest.LogCaptureFixture) -> None:
    state = TrainingState(actors=1)
    with caplog.at_level(logging.WARNING):
        for returns in ([], [3.0], [], []):
            state.absorb([fragment(40_000, returns)], keep_end_states=False)
    assert not caplog.records
    assert state.reward_mean == 3.0
