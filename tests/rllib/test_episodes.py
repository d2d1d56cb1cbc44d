"""Fragments as RLlib's episodes: nothing is lost, nothing added, and RLlib computes from them what we do."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.learner.training_data import TrainingData
from torch import Tensor

from learner_support import fragment, plain
from nitro_learner.data.batch import Fragment
from nitro_rllib.episodes import episodes
from rllib_support import algorithm


def standardise(advantages: Tensor) -> Tensor:
    return (advantages - advantages.mean()) / advantages.std(correction=0).clamp(min=1e-4)


def _round(**settings: object) -> list[Fragment]:
    return [fragment(slot, length=40, envs=3, ends=0.1, seed=5, **settings) for slot in (0, 2)]  # type: ignore[arg-type]


def test_every_step_is_in_one_episode_in_order() -> None:
    fragments = _round()
    chunks = iter(episodes(fragments))
    for f in fragments:
        tensors = plain(f)
        for e in range(3):
            start = 0
            while start < 40:
                episode = next(chunks)
                steps = slice(start, start + len(episode)), e
                assert (episode.get_observations(slice(0, -1)) == tensors["observations"][steps]).all()
                assert (episode.get_actions() == tensors["actions"][steps]).all()
                assert (episode.get_rewards() == tensors["rewards"][steps]).all()
                assert (episode.get_extra_model_outputs("action_logp") == tensors["log_probs"][steps]).all()
                start += len(episode)
                ended = bool(tensors["terminated"][start - 1, e]), bool(tensors["truncated"][start - 1, e])
                assert (episode.is_terminated, episode.is_truncated) == (ended[0], ended[1] and not ended[0])
                assert start == 40 or any(ended)
    assert next(chunks, None) is None


def test_bootstraps_look_at_the_observation_after_the_last_step() -> None:
    (f,) = [fragment(length=40, envs=3, ends=0.1, seed=5)]
    tensors = plain(f)
    truncated = tensors["truncated"] & ~tensors["terminated"]
    finals = {(int(t), int(e)): i for i, (t, e) in enumerate(np.argwhere(truncated))}
    assert len(finals) > 3
    for episode in episodes([f]):
        _, lane, start = map(int, episode.id_.split("-"))
        stop = start + len(episode) - 1
        last = episode.get_observations(-1)
        if (stop, lane) in finals:
            assert (last == tensors["final_observations"][finals[stop, lane]]).all()
        elif not episode.is_terminated:
            assert stop == 39
            assert (last == tensors["last_observations"][lane]).all()


def test_an_end_on_the_last_step_leaves_no_empty_episode() -> None:
    whole = fragment(length=8, ends=0.0)
    ends = np.zeros((8, 1), bool)
    ends[-1] = True
    whole = replace(whole, tensors={**whole.tensors, "terminated": ends})
    assert [len(episode) for episode in episodes([whole])] == [8]


@pytest.mark.parametrize("gae_lambda", [1.0, 0.9])
def test_rllib_s_batch_is_ours_with_a_meaningless_row_for_each_episode(gae_lambda: float) -> None:
    """Its advantages, standardised again without those rows, are what our detector sees."""
    learner = algorithm(settings={"lambda_": gae_lambda})
    fragments = _round()
    ours, _ = learner._samples(fragments)
    data = TrainingData(episodes=episodes(fragments))
    rows = learner.learner._make_batch_if_necessary(training_data=data).policy_batches[DEFAULT_MODULE_ID]
    mask = rows["loss_mask"]
    assert mask.sum() == len(ours)
    assert len(mask) > len(ours)
    # RLlib's rows go by environment, ours by step.
    order = torch.arange(len(ours)).reshape(2, 40, 3).transpose(1, 2).reshape(-1)
    torch.testing.assert_close(rows["obs"][mask], ours.observations[order])
    torch.testing.assert_close(rows["actions"][mask], ours.actions[order])
    torch.testing.assert_close(rows["value_targets"][mask], ours.returns[order], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(
        standardise(rows["advantages"][mask]), standardise(ours.advantages)[order], rtol=1e-4, atol=1e-4
    )
    assert abs(float(rows["advantages"][mask].mean())) > 1e-3
