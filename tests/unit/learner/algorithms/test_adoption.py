"""What a new run takes from the state of another run's learner."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agents_support import agent_class, agents_fragment, team
from learner_support import HOPPER, job, learner_of
from nitro_learner.algorithms.adoption import ANEW, adopted
from nitro_learner.algorithms.multi_ppo.learning import MultiPpo
from nitro_learner.algorithms.q_learning.learning import QLearner
from nitro_learner.checkpoints.store import CheckpointStore

LEARNED = {
    "adam", "groups", "learned", "network", "networks", "observations", "parameters", "policies", "rewards",
    "target",
}  # fmt: skip
CLASSES = (agent_class("agent", 2, size=4),)
MULTI = {"ippo": MultiPpo, "mappo": MultiPpo, "iql": QLearner, "vdn": QLearner, "qmix": QLearner}


def learner(algorithm: str, seed: int = 0) -> Any:
    settings = (
        {"klCoefficient": 0.2, "normaliseObservations": True}
        if algorithm.endswith("ppo")
        else {"batchSize": 16, "bufferSize": 200}
    )
    return MULTI[algorithm](team(*CLASSES, algorithm=algorithm, settings=settings, reward="team", seed=seed))


def fragments(round: int) -> list[Any]:
    return [
        agents_fragment(*CLASSES, slot=slot, length=10, envs=3, seed=round, resumed=round > 1)
        for slot in (0, 1)
    ]


@pytest.mark.parametrize("name", ["ppo", "impact", *MULTI])
def test_every_part_of_a_state_is_either_taken_or_begins_anew(name: str) -> None:
    """A new part must be named in ANEW, or here."""
    if name in MULTI:
        state = learner(name).state_dict()
    else:
        state = learner_of(job(algorithm={"name": name}).spec, HOPPER).state_dict()
    assert state.keys() <= LEARNED | ANEW


@pytest.mark.parametrize("name", MULTI)
def test_policies_are_taken_to_the_bit_and_counters_begin_anew(name: str, tmp_path: Path) -> None:
    source, fresh, new = learner(name), learner(name, seed=1), learner(name, seed=1)
    for round in (1, 2):
        source.update(fragments(round), round)
    store = CheckpointStore(tmp_path / "checkpoints", keep_last=1)
    store.save(2, source.state_dict())
    for attachment in (tmp_path / "checkpoints").glob("attachments/*"):
        attachment.unlink()
    saved = store.latest(attached=False)
    assert saved is not None
    new.load_state_dict(adopted(saved.state, new.state_dict()))

    there, here = source.weights(), new.weights()
    for policy, weights in there.items():
        for tensor, value in weights.tensors.items():
            assert np.array_equal(value, here[policy].tensors[tensor]), tensor
    after, begun, left = new.state_dict(), fresh.state_dict(), source.state_dict()
    for part in ANEW & after.keys() - {"replay"}:
        assert after[part] == begun[part], part
    if "replay" in after:
        assert after["replay"]["rounds"] == []
        assert left["replay"]["rounds"] != []
        assert here[policy].meta["network"]["epsilon"] == 1.0
    else:
        policies = after["policies"].values()
        assert {one["kl_coefficient"] for one in policies} == {0.2}
        assert all(one["rewards"]["running"] == {} for one in policies)
        assert all(one["adam"]["step"] > 0 for one in policies)
    new.update(fragments(1), 1)
