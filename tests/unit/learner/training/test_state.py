"""What a run knows between two rounds."""

import logging

import numpy as np
import pytest

from nitro_learner.algorithms.base import SINGLE_AGENT
from nitro_learner.backends.tasks.counts import Counts
from nitro_learner.data.batch import Fragment
from nitro_learner.sampling.evaluation import MAX_STEPS
from nitro_learner.sampling.plans import EvaluationResult
from nitro_learner.training.state import TrainingState


def fragment(
    steps: int, returns: list[float], lengths: list[int] | None = None, *, resumable: bool = True
) -> Fragment:
    tensors = {
        "episode_returns": np.array(returns)[:, None],
        "episode_lengths": np.array(lengths or [], np.int64),
    }
    state = {"state/returns": np.zeros(1)} if resumable else {}
    return Fragment({"slot": 0, "steps": steps}, tensors | state)


def test_episodes_that_never_end_are_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    state = TrainingState(actors=1)
    with caplog.at_level(logging.WARNING):
        for _ in range(9):
            state.absorb([fragment(40_000, [])], SINGLE_AGENT, keep_end_states=False)
    (record,) = caplog.records
    assert "No episode has ended in 100,000 steps" in record.message
    assert "max_episode_steps" in record.message


def test_an_actor_round_is_a_rollout_that_was_learned_from() -> None:
    """Of eight actors under way an off-policy round waits for four."""
    state = TrainingState(actors=8)
    for _ in range(2):
        state.absorb([fragment(64, [])] * 4, SINGLE_AGENT, keep_end_states=False)
    assert state.progress(cost=0.0).actor_rounds == 8


def test_no_warning_is_given_once_an_episode_has_ended(caplog: pytest.LogCaptureFixture) -> None:
    state = TrainingState(actors=1)
    with caplog.at_level(logging.WARNING):
        for returns in ([], [3.0], [], []):
            state.absorb([fragment(40_000, returns)], SINGLE_AGENT, keep_end_states=False)
    assert not caplog.records
    assert state.reward_mean == 3.0


def test_episodes_that_rollouts_cut_are_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    state = TrainingState(actors=1)
    with caplog.at_level(logging.WARNING):
        # At first most steps belong to episodes that end within a rollout. Then the policy learns to last.
        state.absorb(
            [fragment(512, [20.0] * 20, [20] * 20, resumable=False)], SINGLE_AGENT, keep_end_states=True
        )
        assert not caplog.records
        for _ in range(2):
            state.absorb([fragment(512, [60.0], [60], resumable=False)], SINGLE_AGENT, keep_end_states=True)
    (record,) = caplog.records
    assert "cannot be resumed" in record.message
    assert "envsPerActor: 1" in record.message


def test_no_warning_is_given_for_episodes_that_continue_in_the_next_round(
    caplog: pytest.LogCaptureFixture,
) -> None:
    state = TrainingState(actors=1)
    with caplog.at_level(logging.WARNING):
        for keep in (True, False):  # False: the job says resumeEpisodes: false and means it
            state.absorb([fragment(512, [], [])], SINGLE_AGENT, keep_end_states=keep)
    assert not caplog.records
    assert list(state.end_states) == [0]


@pytest.mark.parametrize("resumable", [True, False])
def test_steps_of_episodes_that_were_cut_off_are_counted(resumable: bool) -> None:
    """Where the job or the environment lets no episode go on; else there are none."""
    state = TrainingState(actors=1)
    assert state.cut_share is None
    round_ = [fragment(512, [60.0], [128], resumable=resumable), fragment(512, [], resumable=resumable)]
    state.absorb(round_, SINGLE_AGENT, keep_end_states=not resumable)
    assert state.cut_share == 0.875
    state.absorb([fragment(512, [], resumable=True)], SINGLE_AGENT, keep_end_states=True)
    assert state.cut_share == pytest.approx(0.875 * 1024 / 1536), "the second round is half as long"
    again = TrainingState(actors=1)
    again.load_state_dict(state.state_dict())
    assert again.cut_share == state.cut_share
    for _ in range(10):
        again.absorb([fragment(512, [], resumable=True)], SINGLE_AGENT, keep_end_states=True)
    assert again.cut_share == 0, "what happened ten rounds ago is forgotten"


def test_the_episode_length_is_that_of_the_last_20_episodes() -> None:
    state = TrainingState(actors=1)
    assert state.episode_length is None
    state.absorb([fragment(512, [1.0] * 5, [100] * 5)], SINGLE_AGENT, keep_end_states=False)
    state.absorb([fragment(512, [1.0] * 19, [10] * 19)], SINGLE_AGENT, keep_end_states=False)
    assert state.episode_length == 14.5
    again = TrainingState(actors=1)
    again.load_state_dict(state.state_dict())
    assert again.episode_length == 14.5


def test_a_policys_reward_is_of_all_agents_that_it_plays() -> None:
    """In a fragment with more episodes than are remembered too."""
    state = TrainingState(actors=1)
    returns = np.stack([np.zeros(30), np.full(30, 10.0), np.full(30, 4.0)], axis=1)
    tensors = {"episode_returns": returns, "episode_lengths": np.ones(30, np.int64)}
    agents = {"a_0": "a_0", "a_1": "a_0", "a_2": "a_2"}
    state.absorb([Fragment({"slot": 0, "steps": 30}, tensors)], agents, keep_end_states=False)
    assert (state.policy_reward("a_0"), state.policy_reward("a_2")) == (5.0, 4.0)
    assert state.reward_mean == 14.0, "the run's is a sum over the agents"


def test_policies_without_an_episode_yet_stay_so_in_a_run_that_goes_on() -> None:
    state = TrainingState(actors=1)
    state.absorb([fragment(64, [3.0], [64])], {"a_0": "a_0"}, keep_end_states=False)
    state.forget_policies(["a_0"], kept=["a_0"])
    again = TrainingState(actors=1)
    again.load_state_dict(state.state_dict())
    assert again.state_dict() == state.state_dict()


def evaluation(version: int, lengths: list[int]) -> EvaluationResult:
    return EvaluationResult(version, np.ones(len(lengths)), np.array(lengths), Counts().stats(1.0, 1))


def test_evaluation_episodes_that_were_cut_are_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    state = TrainingState(actors=1)
    with caplog.at_level(logging.WARNING):
        state.take_evaluation(evaluation(1, [1000, MAX_STEPS - 1]))
        assert not caplog.records
        for version in (2, 3):
            state.take_evaluation(evaluation(version, [MAX_STEPS, 1000, MAX_STEPS]))
    (record,) = caplog.records
    assert "2 of 3 evaluation episodes were cut at 30,000 steps" in record.message
    assert "max_episode_steps" in record.message
    assert state.evaluation_mean == 1.0
