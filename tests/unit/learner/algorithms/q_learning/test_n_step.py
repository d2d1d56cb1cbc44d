"""DQN's n-step targets against loops over fragments, where episodes, fragments and the buffer end."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from learner_support import fragment, job, learner_of, lone_fragment, plain
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.protocol.weights import DEFAULT_POLICY
from nitro_learner.algorithms.q_learning.rewards import ValueUnits
from nitro_learner.checkpoints.store import CheckpointStore, load
from nitro_learner.data.batch import Fragment
from q_learning_support import values

HYPER = "algorithm__hyperparameters__"
GAMMA, LENGTH, ENVS, SIZE, ACTIONS = 0.9, 12, 2, 4, 3
PLACE = DescribedEnvironment.from_json(
    {
        "observation": {"shape": [SIZE], "dtype": "float32"},
        "action": {"kind": "discrete", "n": ACTIONS},
    }
)
SETTINGS = {"gamma": GAMMA, "bufferSize": 100, "batchSize": 16, "replayRatio": 1, "targetUpdateSteps": 9999}


def dqn(steps: int, **settings: Any) -> Any:
    named = {HYPER + name: value for name, value in (SETTINGS | {"nStep": steps} | settings).items()}
    plainly = {"algorithm__name": "dqn", "network__hiddenSizes": [16], "network__activation": "tanh"}
    return learner_of(job(**plainly, **named).spec, PLACE)


def made_up(number: int) -> Fragment:
    """A fragment with ends of all kinds, whose first number of an observation says which step it is of."""
    tensors = plain(fragment(length=LENGTH, envs=ENVS, size=SIZE, ends=0.12, seed=number))
    steps = LENGTH * ENVS
    tensors["observations"][..., 0] = (number * steps + np.arange(steps).reshape(LENGTH, ENVS)) / 100
    rng = np.random.default_rng(number)
    kept = {name: array for name, array in tensors.items() if name not in ("distribution", "log_probs")}
    actions = rng.integers(0, ACTIONS, (LENGTH, ENVS))
    return lone_fragment({"slot": 0, "resumed": False}, kept | {"actions": actions})


def targets(
    one: Fragment, steps: int, learned: Any, target: Any, level: float = 0.0, scale: float = 1.0
) -> Any:
    """Targets [L, E] of double Q-learning."""
    t, cut = plain(one), 0
    finals = np.full((LENGTH, ENVS), -1)
    for k, e in np.argwhere(t["truncated"] & ~t["terminated"]):
        finals[k, e], cut = cut, cut + 1

    def value(seen: np.ndarray) -> float:
        return level + scale * float(values(target, seen)[values(learned, seen).argmax()])

    found = np.zeros((LENGTH, ENVS))
    for begin in range(LENGTH):
        for e in range(ENVS):
            total, k = 0.0, begin
            while True:
                total += GAMMA ** (k - begin) * float(t["rewards"][k, e])
                if t["terminated"][k, e]:
                    break
                discount = GAMMA ** (k + 1 - begin)
                if t["truncated"][k, e]:
                    total += discount * value(t["final_observations"][finals[k, e]])
                    break
                if k == LENGTH - 1:
                    total += discount * value(t["last_observations"][e])
                    break
                if k + 1 - begin == steps:
                    total += discount * value(t["observations"][k + 1, e])
                    break
                k += 1
            found[begin, e] = (total - level) / scale
    return found


def taught(learner: Any, number: int, one: Fragment) -> Any:
    """The result of a round of one fragment."""
    learner.begin_round(number, 9)
    learner.take([one])
    return learner.end_round(number)[DEFAULT_POLICY]


@pytest.mark.parametrize("steps", [1, 3, 50])
@pytest.mark.parametrize("normalise", [False, True])
def test_targets_of_a_round_and_of_the_buffer(steps: int, normalise: bool) -> None:
    learner = dqn(steps, normaliseRewards=normalise)
    target = learner.weights()[DEFAULT_POLICY]
    fragments = [made_up(number) for number in range(6)]  # 144 steps: the buffer has been overwritten
    for number, one in enumerate(fragments, 1):
        result = taught(learner, number, one)
    learned, replay = learner.weights()[DEFAULT_POLICY], learner._replay
    kept = np.flatnonzero(replay.drawable[:, 0])
    assert 2 * LENGTH * ENVS < len(kept) < 100
    units = ValueUnits.of_returns(1, GAMMA)
    if normalise:
        arrays = replay.arrays
        units = ValueUnits.standard(arrays["rewards"], arrays["ends"], replay.drawable, GAMMA)
    unit = float(units.level[0]), float(units.scale[0])
    expected = np.concatenate([targets(one, steps, learned, target, *unit).ravel() for one in fragments])
    np.testing.assert_allclose(result.surrogate.targets[0], expected[-LENGTH * ENVS :], atol=1e-4)

    trainer = learner._trainer(learner._rows(fragments[5:]).shape)
    agents = {"agent": np.zeros((1, len(kept)), np.int64)}
    drawn = trainer.gather(replay, agents, np.zeros((1, len(kept)), np.int64), kept[None])
    which = np.rint(replay.arrays["agent/observations"][kept, 0, 0] * 100).astype(int)
    assert len(set(which)) == len(kept)
    np.testing.assert_allclose(drawn.targets[0], expected[which], atol=1e-4)


def test_a_learner_goes_on_from_a_checkpoint_to_the_bit(tmp_path: Path) -> None:
    undisturbed, resumed, other = dqn(3), dqn(3), dqn(1)
    for learner in (undisturbed, other):
        taught(learner, 1, made_up(0))
    store = CheckpointStore(tmp_path, keep_last=1)
    store.save(1, undisturbed.state_dict())
    resumed.load_state_dict(load(store.path(1)).state)
    parameters = []
    for learner in (undisturbed, resumed, other):
        taught(learner, 2, made_up(1))
        parameters.append(learner.weights()[DEFAULT_POLICY].tensors["policy.head.weight"])
    np.testing.assert_array_equal(parameters[0], parameters[1])
    assert (parameters[0] != parameters[2]).any(), "the number of steps matters"
