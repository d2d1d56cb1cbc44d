"""DQN of one agent: the Q-learner's numbers, fragment by fragment, with a checkpoint at each round's end."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import actor_support
from actor_support import policies_of
from learner_support import job, learner_of, lone_fragment
from nitro_actor.environment import Environment
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.protocol.state import bare
from nitro_actor.protocol.weights import DEFAULT_POLICY
from nitro_api import JobInvalid
from nitro_api.spec.scaling import GivenScaling
from nitro_learner.algorithms.base import OffPolicyLearner, OnPolicyLearner
from nitro_learner.algorithms.q_learning.learning import QLearner
from nitro_learner.boosting.detector import Detector
from nitro_learner.checkpoints.store import CheckpointStore, load, pack

HYPER = "algorithm__hyperparameters__"
SETTINGS = {
    "algorithm__name": "dqn",
    "network__hiddenSizes": [16],
    HYPER + "bufferSize": 400,
    HYPER + "replayRatio": 4,
    HYPER + "batchSize": 16,
    HYPER + "targetUpdateSteps": 7,
    HYPER + "learningRateAnneal": False,
}


@pytest.fixture
def place() -> Environment:
    return actor_support.environment("two-state", 2, "learner_environments:TwoState")


def dqn(place: Environment, **settings: Any) -> Any:
    spec = job(**SETTINGS | settings).spec
    return learner_of(spec, DescribedEnvironment.from_json(place.spec.to_json()))


def feed(learner: Any, place: Environment, rounds: range, states: dict[int, Any]) -> None:
    """Rounds of three fragments of two slots, the second of which comes twice."""
    for number in rounds:
        learner.begin_round(number, 99)
        policy = policies_of(learner.weights()[DEFAULT_POLICY], place.spec)
        for at, slot in enumerate((0, 1, 1)):
            state = states.get(slot, {})
            tensors = actor_support.rollout(place, policy, seed=10 * number + at, steps=40, state=state)
            learner.take([lone_fragment({"slot": slot, "resumed": bool(state)}, tensors)])
            states[slot] = bare(tensors)
        assert not learner.replay()
        learner.end_round(number)


def test_it_learns_what_the_learner_of_rounds_learns_from_the_same_fragments(place: Environment) -> None:
    """Equal to the bit: each fragment is a round whose number is that of the steps before it."""
    one = dqn(place)
    other = QLearner(one._team)
    assert isinstance(one, OffPolicyLearner)
    assert not isinstance(one, OnPolicyLearner)
    before = one.weights()[DEFAULT_POLICY].tensors
    policy = policies_of(one.weights()[DEFAULT_POLICY], place.spec)
    for number in range(3):
        tensors = actor_support.rollout(place, policy, seed=number, steps=40, state={})
        fragments = [lone_fragment({"slot": 0, "resumed": False}, tensors)]
        one.take(fragments)
        other.update(fragments, 40 * number)
    after, expected = one.weights()[DEFAULT_POLICY].tensors, other.weights()[DEFAULT_POLICY].tensors
    for name, tensor in expected.items():
        np.testing.assert_array_equal(after[name], tensor)
    assert any((after[name] != before[name]).any() for name in after)


def test_a_learner_goes_on_from_each_checkpoint_to_the_bit(place: Environment, tmp_path: Path) -> None:
    store, undisturbed = CheckpointStore(tmp_path, keep_last=10), dqn(place)
    states: dict[int, Any] = {}
    ends = {}
    for number in range(1, 7):  # the buffer is full after the third round
        feed(undisturbed, place, range(number, number + 1), states)
        store.save(number, undisturbed.state_dict())
        ends[number] = dict(states)
    assert len(list((tmp_path / "attachments").iterdir())) == 6, "one file a round, whatever its fragments"
    for begin in (1, 3, 5):
        resumed = dqn(place)
        resumed.load_state_dict(load(store.path(begin)).state)
        feed(resumed, place, range(begin + 1, 7), dict(ends[begin]))
        other = CheckpointStore(tmp_path / f"from-{begin}", keep_last=1)
        other.save(6, resumed.state_dict())
        assert pack(6, load(other.path(6)).state) == pack(6, load(store.path(6)).state)


def test_it_learns_what_to_do_in_two_states(place: Environment) -> None:
    own = {"epsilonSteps": 1000, "gamma": 0.9, "learningRate": 3e-3, "replayRatio": 8}
    learner = dqn(place, **{HYPER + name: value for name, value in own.items()})
    feed(learner, place, range(1, 21), {})
    policy = policies_of(learner.weights()[DEFAULT_POLICY], place.spec)
    played = actor_support.evaluate(place, policy, seed=1, episodes=4, max_steps=100)
    assert played["episode_returns"].mean() == 19


def test_the_detector_measures_the_loss_of_a_rounds_fragments(place: Environment) -> None:
    learner = dqn(place)
    feed(learner, place, range(1, 2), {})
    policy = policies_of(learner.weights()[DEFAULT_POLICY], place.spec)
    tensors = actor_support.rollout(place, policy, seed=5, steps=40, state={})
    learner.take([lone_fragment({"slot": 0, "resumed": False}, tensors)])
    result = learner.end_round(2)[DEFAULT_POLICY]
    assert result.surrogate.size == 40
    assert result.stats["gradient_steps"] == 40 * learner._settings.replay_ratio // 16
    assert result.stats["epsilon"] == learner.epsilon == learner.weights()[DEFAULT_POLICY].network["epsilon"]
    assert result.stats["gradient_norm"] > 0
    assert Detector(GivenScaling(), 0, 40).measure(result.surrogate, 2).ratio is not None


def test_what_it_cannot_learn_is_refused_with_the_remedy(place: Environment) -> None:
    hopper = actor_support.environment("Hopper-v5", 1)
    with pytest.raises(
        JobInvalid, match=r'"dqn"; needs Discrete actions, and those of the environment are others'
    ):
        dqn(hopper)
    with pytest.raises(JobInvalid, match=r"spec\.network\.type.*must be mlp with dqn"):
        dqn(place, network__type="conv", network__convLayers='[{"channels": 2, "kernel": 1, "stride": 1}]')


def test_fragments_of_other_shapes_are_refused(place: Environment) -> None:
    learner = dqn(place)
    policy = policies_of(learner.weights()[DEFAULT_POLICY], place.spec)
    made = [
        lone_fragment(
            {"slot": 0, "resumed": False}, actor_support.rollout(place, policy, seed=1, steps=steps, state={})
        )
        for steps in (40, 20)
    ]
    learner.take(made)
    with pytest.raises(ValueError, match="fragments of one shape"):
        learner.end_round(1)
