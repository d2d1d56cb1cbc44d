"""SAC, TD3 and DDPG of one agent: what is drawn from fragments, the warm-up, checkpoints, the detector's
objective and refusals."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from learner_support import HOPPER, fragment, job, learner_of, plain
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.protocol.weights import DEFAULT_POLICY
from nitro_api import JobInvalid
from nitro_learner.algorithms.base import OffPolicyLearner, OnPolicyLearner
from nitro_learner.checkpoints.store import CheckpointStore, load, pack

HYPER = "algorithm__hyperparameters__"
SETTINGS = {
    "network__hiddenSizes": [16],
    HYPER + "bufferSize": 500,
    HYPER + "batchSize": 32,
    HYPER + "warmUpSteps": 100,
}


def made(name: str = "sac", environment: DescribedEnvironment = HOPPER, **settings: Any) -> Any:
    return learner_of(job(algorithm__name=name, **SETTINGS | settings).spec, environment)


def feed(learner: Any, rounds: range) -> None:
    """Rounds of two fragments."""
    for number in rounds:
        learner.begin_round(number, 99)
        learner.take([fragment(slot, seed=number, resumed=number > 1) for slot in (0, 1)])
        assert not learner.replay()
        learner.end_round(number)


def acted(actions: int = 3, **fields: Any) -> DescribedEnvironment:
    action = {"kind": "continuous", "size": actions, "low": [-1.0] * actions, "high": [1.0] * actions}
    return DescribedEnvironment.from_json(
        {"observation": {"shape": [11], "dtype": "float32"}, "action": action | fields}
    )


def test_a_drawn_transition_is_a_step_with_what_was_seen_next() -> None:
    """A time limit bootstraps from the last observation, an end does not."""
    learner = made(**{HYPER + "warmUpSteps": 1000})
    given = fragment(length=64, ends=0.2)
    learner.take([given])
    arrays = plain(given)
    seen = arrays["observations"][:, 0]
    cut = (arrays["truncated"] & ~arrays["terminated"])[:, 0]
    following = np.concatenate([seen[1:], arrays["last_observations"]])
    following[cut] = arrays["final_observations"]
    assert cut.sum() > 3
    (batch,) = learner._batches(1, np.random.default_rng(0))
    assert len(batch.observations) == 32
    for row in range(32):
        (step,) = np.flatnonzero((seen == batch.observations[row].numpy()).all(1))
        np.testing.assert_array_equal(batch.actions[row], arrays["actions"][step, 0])
        assert batch.rewards[row] == arrays["rewards"][step, 0]
        ended = arrays["terminated"][step, 0]
        assert batch.discounts[row] == (0 if ended else np.float32(0.99))
        assert ended or (batch.following[row].numpy() == following[step]).all()


def test_actions_are_uniform_and_nothing_is_learned_until_the_warm_up_ends() -> None:
    learner = made("td3", **{HYPER + "explorationNoise": 0.3, HYPER + "updatesPerStep": 0.5})
    assert isinstance(learner, OffPolicyLearner)
    assert not isinstance(learner, OnPolicyLearner)
    first = learner.weights()[DEFAULT_POLICY]
    assert first.network["uniform"]
    assert (first.network["head"], first.network["noise"]) == ("tanh", 0.3)
    learner.take([fragment(0)])
    assert learner.end_round(1)[DEFAULT_POLICY].stats["gradient_steps"] == 0
    for name, tensor in learner.weights()[DEFAULT_POLICY].tensors.items():
        np.testing.assert_array_equal(tensor, first.tensors[name])
    learner.take([fragment(1)])
    assert not learner.weights()[DEFAULT_POLICY].network["uniform"]
    stats = learner.end_round(2)[DEFAULT_POLICY].stats
    assert stats["gradient_steps"] == (2 * 64 - 100) / 2
    assert stats["value_loss"] > 0


@pytest.mark.parametrize("name", ["sac", "td3"])
def test_a_learner_goes_on_from_each_checkpoint_to_the_bit(name: str, tmp_path: Path) -> None:
    seldom = {HYPER + "updatesPerStep": 0.125}
    store, undisturbed = CheckpointStore(tmp_path, keep_last=10), made(name, **seldom)
    for number in range(1, 7):  # the buffer is full after the fourth round
        feed(undisturbed, range(number, number + 1))
        store.save(number, undisturbed.state_dict())
    assert len(list((tmp_path / "attachments").iterdir())) == 6, "one file a round, whatever its fragments"
    for begin in (1, 5):
        resumed = made(name, **seldom)
        resumed.load_state_dict(load(store.path(begin)).state)
        feed(resumed, range(begin + 1, 7))
        other = CheckpointStore(tmp_path / f"from-{begin}", keep_last=1)
        other.save(6, resumed.state_dict())
        assert pack(6, load(other.path(6)).state) == pack(6, load(store.path(6)).state)


@pytest.mark.parametrize("name", ["sac", "ddpg"])
def test_the_detector_measures_the_mean_value_of_the_policys_actions(name: str) -> None:
    """Computed once more from the published policy, with the critics' parameters by hand."""
    learner = made(name, **{HYPER + "layerNorm": False})
    feed(learner, range(1, 3))
    given = [fragment(slot, seed=3, resumed=True) for slot in (0, 1)]
    learner.take(given)
    surrogate = learner.end_round(3)[DEFAULT_POLICY].surrogate
    seen = torch.from_numpy(np.concatenate([plain(one)["observations"][:, 0] for one in given]))

    def of(values: Any, x: torch.Tensor) -> torch.Tensor:
        weight, bias, head, last = (torch.as_tensor(value) for value in values)
        return torch.relu(x @ weight.T + bias) @ head.T + last

    actions = torch.tanh(of(learner.weights()[DEFAULT_POLICY].tensors.values(), seen)[:, :3])
    critics = [
        of((row[: 16 * 14].view(16, 14), row[224:240], row[240:256].view(1, 16), row[256:]), x)
        for row in learner._learned.critics.parameters
        for x in [torch.cat([seen, actions], 1)]
    ]
    expected = torch.stack(critics).amin(0)[:, 0]
    assert surrogate.size == 128
    rows = torch.arange(0, 128, 3)
    (term,) = surrogate.function("clip", rows).terms
    assert term().item() == pytest.approx(expected[rows].mean().item(), abs=1e-5)
    means = surrogate.trajectories("total").mean.terms
    assert sum(mean() for mean in means).item() == pytest.approx(-expected.mean().item(), abs=1e-5)


def test_what_they_cannot_learn_is_refused_with_the_remedy() -> None:
    for environment, sentence in (
        (acted(kind="discrete", n=2), '"sac"; needs a Box of actions, .*take dqn for Discrete ones'),
        (
            acted(high=[1.0, None, 1.0]),
            r"needs actions with bounds, and actions\[1\] is from -1 to inf in the",
        ),
        (acted(high=[1.0, 1.0, 3.4028234663852886e38]), r"actions\[2\] is from -1 to 3.40282e\+38 in the"),
    ):
        with pytest.raises(JobInvalid, match=sentence):
            made(environment=environment)
    with pytest.raises(JobInvalid, match=r"spec\.network\.type.*must be mlp with sac"):
        made(network__type="conv", network__convLayers='[{"channels": 2, "kernel": 1, "stride": 1}]')
