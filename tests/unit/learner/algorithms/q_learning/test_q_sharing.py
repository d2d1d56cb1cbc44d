"""Q-learners whose agents share policies: regrouping, what groups learn from, distances."""

from typing import Any

import numpy as np
import pytest

from agents_support import agent_class, agents_fragment, team
from nitro_learner.algorithms.agents.team import SharingLearner, Team
from nitro_learner.algorithms.q_learning.learning import QLearner
from nitro_learner.algorithms.q_learning.training import QTrainer
from q_learning_support import values

CLASSES = (agent_class("adversary", 1, size=3), agent_class("agent", 3, size=4))
PAIRS = {"adversary_0": ["adversary_0"], "agent_2": ["agent_0", "agent_2"], "agent_1": ["agent_1"]}
ALONE = {agent: [agent] for one in CLASSES for agent in one.agents}


def _team(algorithm: str = "iql", **fields: Any) -> Team:
    return team(*CLASSES, algorithm=algorithm, reward="team", **fields)


def _update(learner: SharingLearner, round: int) -> Any:
    fragments = [agents_fragment(*CLASSES, slot=slot, length=10, envs=3, seed=round) for slot in (0, 1)]
    return learner.update(fragments, round)


def _tensors(learner: QLearner) -> dict[str, np.ndarray]:
    """All of each policy's published tensors as one vector."""
    return {
        name: np.concatenate([array.ravel() for array in weights.tensors.values()])
        for name, weights in learner.weights().items()
    }


@pytest.mark.parametrize("algorithm", ["iql", "vdn", "qmix"])
def test_a_group_goes_on_with_the_policy_of_its_name(algorithm: str) -> None:
    learner = QLearner(_team(algorithm))
    _update(learner, 1)
    before = _tensors(learner)
    learner.regroup(PAIRS)
    assert learner.policies == ("adversary_0", "agent_1", "agent_2")
    assert dict(learner.agents) == {
        "adversary_0": "adversary_0",
        "agent_0": "agent_2",
        "agent_1": "agent_1",
        "agent_2": "agent_2",
    }
    after = _tensors(learner)
    assert all(np.array_equal(after[name], before[name]) for name in learner.policies)
    assert set(_update(learner, 2)) == set(learner.policies)


@pytest.mark.parametrize("algorithm", ["iql", "vdn", "qmix"])
def test_after_sharing_each_agent_goes_on_with_a_copy(algorithm: str) -> None:
    learner = QLearner(_team(algorithm))
    learner.regroup(PAIRS)
    _update(learner, 1)
    shared = learner.state_dict()["learned"]["policies"]["agent"]["agent_2"]
    learner.regroup(ALONE)
    alone = learner.state_dict()["learned"]["policies"]["agent"]["agent_0"]
    for part in ("parameters", "target", "adam"):
        assert all(np.array_equal(alone[part][name], shared[part][name]) for name in shared[part])
    _update(learner, 2)
    after = _tensors(learner)
    assert not np.array_equal(after["agent_0"], after["agent_2"])


def test_regrouping_to_the_same_groups_changes_nothing() -> None:
    one, other = QLearner(_team()), QLearner(_team())
    for round in (1, 2):
        _update(one, round)
        _update(other, round)
        other.regroup(ALONE)
    assert all(np.array_equal(array, _tensors(other)[name]) for name, array in _tensors(one).items())


@pytest.mark.parametrize(("group_batch", "rows"), [("equal", 128), ("all", 256)])
def test_a_group_draws_as_much_as_one_agent_or_as_all(
    group_batch: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = QLearner(_team(group_batch=group_batch, settings={"batchSize": 128}))
    learner.regroup(PAIRS)
    drawn: list[Any] = []
    original = QTrainer.turn

    def turn(trainer: QTrainer, size: int, number: int) -> Any:
        drawn.append((trainer.lanes["agent"], original(trainer, size, number)))
        return drawn[-1][1]

    monkeypatch.setattr(QTrainer, "turn", turn)
    _update(learner, 1)
    lanes, (agents, columns) = drawn[0]
    # The stack has agent_1, then agent_2, which agent_0 plays too.
    own = np.concatenate([a for a, row in zip(agents["agent"], lanes.policies, strict=True) if row == 1])
    assert len(own) == rows
    assert {at: int((own == at).sum()) for at in (0, 2)} == {0: rows // 2, 2: rows // 2}
    # Each transition comes from the column of its agent.
    assert np.array_equal(columns[1:], agents["agent"] + 1)


@pytest.mark.parametrize("group_batch", ["equal", "all"])
def test_a_shared_policy_learns_as_its_agents_would_together(group_batch: str) -> None:
    # Two agents whose transitions are the same learn together what one of them learns alone.
    one = agent_class("agent", 2, size=4)
    settings = {"priorityAlpha": 0.0, "batchSize": 2000, "replayRatio": 2000 / 60, "normaliseRewards": False}
    fragment = agents_fragment(one, length=20, envs=3)
    for array in fragment.by_class["agent"].values():
        axis = 1 if array.ndim and array.shape[0] != 20 else 2
        array[...] = np.take(array, [0], axis=axis)
    alone = QLearner(team(one, algorithm="iql", settings=settings))
    together = QLearner(team(one, algorithm="iql", settings=settings, group_batch=group_batch))
    together.regroup({"agent_0": ["agent_0", "agent_1"]})
    for learner in (alone, together):
        learner.update([fragment], 1)
    start = _tensors(QLearner(team(one, algorithm="iql", settings=settings)))["agent_0"]
    moved = [_tensors(learner)["agent_0"] - start for learner in (alone, together)]
    # Draws differ, so the steps agree but for noise.
    cosine = moved[0] @ moved[1] / np.linalg.norm(moved[0]) / np.linalg.norm(moved[1])
    assert cosine > 0.9


def test_with_agent_ids_a_class_plays_one_policy_from_the_start() -> None:
    learner = QLearner(_team(agent_ids=True))
    assert learner.policies == ("adversary_0", "agent_0")
    network = learner.weights()["agent_0"]
    assert network.network["agentIds"] == 3
    assert network.tensors["policy.layers.0.weight"].shape == (16, 4 + 3)
    _update(learner, 1)


@pytest.mark.parametrize("masked", [False, True])
def test_distances_are_divergences_of_softmax_policies(masked: bool) -> None:
    learner = QLearner(_team())
    _update(learner, 1)
    rng = np.random.default_rng(0)
    observations = rng.standard_normal((50, 4), np.float32)
    available = rng.random((50, 5)) < 0.6
    available[:, 0] = True
    mask = available if masked else np.ones_like(available)
    agents = CLASSES[1].agents
    found = learner.distances(agents, observations, available if masked else None)
    logs = []
    for agent in agents:
        q = values(learner.weights()[agent], observations).astype(np.float64)
        scaled = np.where(mask, q / q[mask].std(), -np.inf)
        logs.append(scaled - np.log(np.exp(scaled).sum(1, keepdims=True)))
    for i, p in enumerate(logs):
        for j, q in enumerate(logs):
            difference = np.where(mask, p, 0) - np.where(mask, q, 0)
            assert np.isclose(found[i, j], (np.exp(p) * difference).sum(1).mean(), atol=1e-5)
    assert np.allclose(np.diag(found), 0)
    assert (found[~np.eye(3, dtype=bool)] > 0).all()
