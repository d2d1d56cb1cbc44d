"""A Q-learner's checkpoint: what goes on from it is the same to the bit, and it stays small."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agents_support import agent_class, agents_fragment, team
from nitro_learner.algorithms.q_learning.learning import QLearner
from nitro_learner.checkpoints.store import CheckpointError, CheckpointStore, load, pack

CLASSES = (agent_class("adversary", 1, size=3), agent_class("agent", 3, size=4, masked=True))
GROUPS = {"adversary_0": ["adversary_0"], "agent_2": ["agent_0", "agent_2"], "agent_1": ["agent_1"]}


def _learner(algorithm: str, **settings: Any) -> QLearner:
    # Three rounds fill the buffer.
    chosen = {"bufferSize": 200, "targetUpdateSteps": 7, "batchSize": 16} | settings
    return QLearner(team(*CLASSES, algorithm=algorithm, settings=chosen, reward="team"))


def _update(learner: QLearner, round: int) -> None:
    learner.update(
        [
            agents_fragment(*CLASSES, slot=slot, length=10, envs=3, seed=round, deaths=0.1, resumed=round > 1)
            for slot in (0, 1)
        ],
        round,
    )


@pytest.mark.parametrize("algorithm", ["iql", "vdn", "qmix"])
def test_a_learner_goes_on_from_each_checkpoint_to_the_bit(algorithm: str, tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep_last=10)
    undisturbed = _learner(algorithm)
    for round in range(1, 8):
        if round == 4:
            undisturbed.regroup(GROUPS)
        _update(undisturbed, round)
        store.save(round, undisturbed.state_dict())
    for begin in (1, 3, 5, 6):
        resumed = _learner(algorithm)
        resumed.load_state_dict(load(store.path(begin)).state)
        for round in range(begin + 1, 8):
            if round == 4:
                resumed.regroup(GROUPS)
            _update(resumed, round)
            other = CheckpointStore(tmp_path / f"from-{begin}", keep_last=1)
            other.save(round, resumed.state_dict())
            again, expected = load(other.path(round)).state, load(store.path(round)).state
            assert pack(round, again) == pack(round, expected)
        assert {name: w.meta for name, w in resumed.weights().items()} == {
            name: w.meta for name, w in undisturbed.weights().items()
        }


def test_each_round_is_written_once_however_many_checkpoints_hold_it(tmp_path: Path) -> None:
    store, learner = CheckpointStore(tmp_path, keep_last=2), _learner("iql")
    written: dict[str, int] = {}
    for round in range(1, 7):
        _update(learner, round)
        store.save(round, learner.state_dict())
        files = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "attachments").iterdir()}
        assert all(written.get(name, time) == time for name, time in files.items())
        assert len(set(files) - set(written)) == 1
        written |= files
    # The newest buffer's rounds, and one more of the checkpoint before.
    rounds = len(learner.state_dict()["replay"]["rounds"])
    assert len(files) == rounds + 1


def test_a_learner_whose_state_was_loaded_writes_no_round_again(tmp_path: Path) -> None:
    store, learner = CheckpointStore(tmp_path, keep_last=3), _learner("vdn")
    for round in (1, 2):
        _update(learner, round)
        store.save(round, learner.state_dict())
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "attachments").iterdir()}
    resumed = _learner("vdn")
    resumed.load_state_dict(load(store.path(2)).state)
    _update(resumed, 3)
    store.save(3, resumed.state_dict())
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "attachments").iterdir()}
    assert len(after) == len(before) + 1
    assert all(after[path] == time for path, time in before.items())


def test_a_missing_round_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    store, learner = CheckpointStore(tmp_path, keep_last=3), _learner("iql")
    _update(learner, 1)
    path = store.save(1, learner.state_dict())
    (attachment,) = (tmp_path / "attachments").iterdir()
    attachment.unlink()
    with pytest.raises(CheckpointError, match=f"{attachment.name}: .* cannot be read"):
        load(path)


def test_a_state_of_another_network_or_buffer_is_refused(tmp_path: Path) -> None:
    learner = _learner("iql")
    _update(learner, 1)
    CheckpointStore(tmp_path, 1).save(1, learner.state_dict())
    state = load(CheckpointStore(tmp_path, 1).path(1)).state
    with pytest.raises(ValueError, match="the state is of the network"):
        _learner("iql", dueling=False).load_state_dict(state)
    with pytest.raises(ValueError, match="bufferSize must stay"):
        _learner("iql", bufferSize=300).load_state_dict(state)


def test_equal_learners_learn_equally_and_other_seeds_differ() -> None:
    def trained(seed: int) -> np.ndarray:
        learner = QLearner(team(*CLASSES, algorithm="iql", seed=seed))
        _update(learner, 1)
        return learner.weights()["agent_1"].tensors["policy.head.weight"]

    assert np.array_equal(trained(3), trained(3))
    assert not np.array_equal(trained(3), trained(4))
