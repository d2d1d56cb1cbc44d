"""RLlib's IMPALA and APPO without their thread: the same updates, one after the other."""

from pathlib import Path
from typing import Any

import pytest
import ray
import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.learner.training_data import TrainingData
from ray.rllib.utils.metrics import NUM_ENV_STEPS_SAMPLED_LIFETIME, NUM_ENV_STEPS_TRAINED_LIFETIME

import actor_support
from actor_support import environment, policies_of
from learner_support import fragment, learner_of, lone_fragment
from nitro_actor.policy import Policies
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.protocol.weights import DEFAULT_POLICY
from nitro_learner.algorithms.availability import RllibError
from nitro_learner.algorithms.base import OffPolicyLearner
from nitro_learner.boosting.detector import Detector
from nitro_learner.boosting.gradient_noise import gradient_noise
from nitro_learner.checkpoints.store import load, pack
from nitro_learner.data.batch import Fragment
from nitro_rllib.episodes import episodes
from rllib_support import algorithm, rllib_job

NAMES = ["rllib/impala", "rllib/appo"]
ROUND = {"environment__rolloutLength": 64}
ONCE = {"circular_buffer_num_batches": 1, "circular_buffer_iterations_per_batch": 1}
TWICE = {"circular_buffer_num_batches": 4, "circular_buffer_iterations_per_batch": 2}


def _round(number: int) -> list[Fragment]:
    return [fragment(slot, length=64, seed=number) for slot in range(4)]


def _state(learner: Any) -> bytes:
    return pack(1, learner.state_dict())


@pytest.mark.parametrize("name", NAMES)
def test_they_are_off_policy(name: str) -> None:
    assert isinstance(algorithm(name, **ROUND), OffPolicyLearner)


@pytest.mark.parametrize("name", NAMES)
def test_an_update_is_the_one_that_rllib_s_thread_makes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """RLlib's learner with its thread and ours, from the same weights with the same fragments."""
    monkeypatch.setattr(ray, "put", lambda value: value)  # or it would start a Ray runtime
    ours = algorithm(name, ONCE if name == "rllib/appo" else {}, **ROUND)
    module = ours.learner.module[DEFAULT_MODULE_ID]
    spaces = module.observation_space, module.action_space
    theirs = ours.config.build_learner(spaces={"__env__": spaces, DEFAULT_MODULE_ID: spaces})
    try:
        for number, one in enumerate(_round(1), 1):
            ours.take([one])
            steps = {NUM_ENV_STEPS_SAMPLED_LIFETIME: 64 * number, NUM_ENV_STEPS_TRAINED_LIFETIME: 64 * number}
            # Waits until the thread has made the update.
            theirs.update(TrainingData(episodes=episodes([one])), timesteps=steps, num_epochs=1)
    finally:
        theirs.shutdown()
    network = theirs.module[DEFAULT_MODULE_ID].network
    for parameter, other in zip(ours.network.parameters(), network.parameters(), strict=True):
        assert torch.equal(parameter, other)
    untrained = algorithm(name, **ROUND).network.parameters()
    assert not all(map(torch.equal, network.parameters(), untrained))


@pytest.mark.parametrize("name", NAMES)
def test_they_learn_what_to_do_in_two_states(name: str) -> None:
    place = environment("test", 4, "learner_environments:TwoState")
    spec = rllib_job(
        name,
        settings={"lr": 5e-3},
        network__hiddenSizes=[32],
        environment__rolloutLength=256,
        environment__envsPerActor=4,
    ).spec
    learner: Any = learner_of(spec, DescribedEnvironment.from_json(place.spec.to_json()))

    def policy() -> Policies:
        return policies_of(learner.weights()[DEFAULT_POLICY], place.spec)

    for number in range(1, 41):
        sampled = actor_support.rollout(place, policy(), seed=number, steps=256, state={})
        learner.take([lone_fragment({"slot": 0, "resumed": False}, sampled)])
        while learner.replay():
            pass
        learner.end_round(number)
    played = actor_support.evaluate(place, policy(), seed=1, episodes=20, max_steps=100)
    assert float(played["episode_returns"].mean()) == 19


def test_impala_learns_from_a_fragment_once_and_appo_as_often_as_it_is_told() -> None:
    counts = []
    for name, settings in (("rllib/impala", {}), ("rllib/appo", TWICE)):
        learner = algorithm(name, settings, **ROUND)
        learner.take(_round(1))
        while learner.replay():
            pass
        counts.append(learner._updates)
    assert counts == [4, 8]


@pytest.mark.parametrize("name", NAMES)
def test_a_restored_learner_goes_on_to_the_bit(tmp_path: Path, name: str) -> None:
    """With fresh fragments; what the buffer held is gone, as docs/rllib.md says."""
    settings = {"lr": [[0, 1e-3], [2000, 1e-4]], "entropy_coeff": [[0, 0.1], [1000, 0.0]]}
    if name == "rllib/appo":
        settings |= {"use_kl_loss": True, "target_network_update_freq": 1} | TWICE  # type: ignore[dict-item]
    first, second = algorithm(name, settings, **ROUND), algorithm(name, settings, **ROUND)
    first.take(_round(1))
    while first.replay():
        pass
    first.end_round(1)
    path = tmp_path / "state.safetensors"
    path.write_bytes(_state(first))
    second.load_state_dict(load(path).state)
    for learner in (first, second):
        learner.take(_round(2))
        while learner.replay():
            pass
    assert first.end_round(2)[DEFAULT_POLICY].stats == second.end_round(2)[DEFAULT_POLICY].stats
    assert _state(first) == _state(second)


@pytest.mark.parametrize("name", NAMES)
def test_a_state_is_restored_over_a_later_one_as_often_as_one_likes(tmp_path: Path, name: str) -> None:
    """What was learned and sampled in between leaves no trace."""
    learner = algorithm(name, TWICE if name == "rllib/appo" else {}, **ROUND)
    learner.take(_round(1))
    learner.end_round(1)
    path = tmp_path / "state.safetensors"
    path.write_bytes(_state(learner))
    found = []
    for between in (2, 3):
        learner.take(_round(between))
        learner.load_state_dict(load(path).state)
        learner.take(_round(4))
        found.append((learner.end_round(2)[DEFAULT_POLICY].stats, _state(learner)))
    assert found[0] == found[1]


@pytest.mark.parametrize("name", NAMES)
def test_a_round_is_described_and_measured_and_stays_as_it_was(name: str) -> None:
    learner = algorithm(name, **ROUND)
    learner.take(_round(1))
    result = learner.end_round(1)[DEFAULT_POLICY]
    assert result.surrogate.size == 4 * 64
    assert {"policy_loss", "value_loss", "entropy", "kl", "explained_variance"} <= set(result.stats)
    before = _state(learner)
    spec = rllib_job(name).spec
    for mode in ("paper", "artifact"):
        spec.scaling.mode = mode  # type: ignore[assignment]
        measured = Detector(spec.scaling, spec.seed, 128).measure(result.surrogate, 1)
        assert measured.ratio is not None
        assert measured.lambda_min < 0 < measured.lambda_max
    trajectories = result.surrogate.trajectories("total")
    assert len(trajectories.mean.terms) == 4
    assert gradient_noise(trajectories) is not None
    assert _state(learner) == before


def test_weights_that_are_not_finite_end_in_a_sentence() -> None:
    learner = algorithm("rllib/appo", **ROUND)
    learner.take(_round(1))
    with torch.no_grad():
        learner.network.policy.head.bias.fill_(torch.nan)
    with pytest.raises(FloatingPointError, match=r"round 1: .* lower spec.algorithm.rllib.lr"):
        learner.end_round(1)


def test_a_bad_fragment_is_raised_where_it_is_met() -> None:
    """With RLlib's thread it would be waited for, for ever."""
    learner = algorithm("rllib/appo", **ROUND)
    bad = fragment(length=64, size=3)
    with pytest.raises(RllibError, match=r"RLlib's learner failed in update 1: RuntimeError: "):
        learner.take([bad])
    learner.take(_round(1))
