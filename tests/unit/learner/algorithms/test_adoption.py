"""What a new run takes from the state of another run's learner."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from agents_support import agent_class, agents_fragment, team
from learner_support import HOPPER, fragment, job, learner_of
from nitro_learner.algorithms.ppo.learning import Ppo
from nitro_learner.algorithms.q_learning.learning import QLearner
from nitro_learner.checkpoints.store import CheckpointStore

CLASSES = (agent_class("agent", 2, size=4),)
MULTI = {"ippo": Ppo, "mappo": Ppo, "iql": QLearner, "vdn": QLearner, "qmix": QLearner}


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


def adopted(source: Any, new: Any, folder: Path) -> dict[str, Any]:
    """The state of `new` once it has adopted the checkpoint of `source`, whose attachments are lost."""
    store = CheckpointStore(folder / "checkpoints", keep_last=1)
    store.save(2, source.state_dict())
    for attachment in (folder / "checkpoints").glob("attachments/*"):
        attachment.unlink()
    saved = store.latest(attached=False)
    assert saved is not None
    new.adopt(saved.state)
    state: dict[str, Any] = new.state_dict()
    return state


@pytest.mark.parametrize("name", MULTI)
def test_policies_are_taken_to_the_bit_and_counters_begin_anew(name: str, tmp_path: Path) -> None:
    source, fresh, new = learner(name), learner(name, seed=1), learner(name, seed=1)
    for round in (1, 2):
        source.update(fragments(round), round)
    after = adopted(source, new, tmp_path)

    there, here = source.weights(), new.weights()
    for policy, weights in there.items():
        for tensor, value in weights.tensors.items():
            assert np.array_equal(value, here[policy].tensors[tensor]), tensor
    begun, left = fresh.state_dict(), source.state_dict()
    if "replay" in after:
        assert all(after[part] == begun[part] for part in ("env_steps", "owed", "steps"))
        assert left["env_steps"] > 0 < left["steps"]
        assert after["replay"]["rounds"] == []
        assert left["replay"]["rounds"] != []
        assert here[policy].meta["network"]["epsilon"] == 1.0
    else:
        policies = after["policies"].values()
        assert {one["kl_coefficient"] for one in policies} == {0.2}
        assert all(one["rewards"]["running"] == {} for one in policies)
        assert all(one["rewards"]["moments"]["count"] > 0 for one in policies)
        assert all(one["adam"]["step"] > 0 for one in policies)
    new.update(fragments(1), 1)


@pytest.mark.parametrize("name", ["ppo", "impact"])
def test_a_policy_of_one_agent_is_taken_to_the_bit_too(name: str, tmp_path: Path) -> None:
    settings = {
        "algorithm__name": name,
        "algorithm__hyperparameters__klCoefficient": 0.2,
        "algorithm__hyperparameters__normaliseRewards": "true",
    }
    source, new = (learner_of(job(**settings, seed=seed).spec, HOPPER) for seed in (0, 1))
    for round in (1, 2):
        played = [fragment(slot, seed=round, resumed=round > 1) for slot in range(8)]
        if name == "impact":
            source.take(played)
            source.end_round(round)
        else:
            source.update(played, round)
    left, after = source.state_dict(), adopted(source, new, tmp_path)
    learned = ("parameters", "target") if name == "impact" else ("parameters",)
    for part in learned:
        assert all(torch.equal(value, after[part][tensor]) for tensor, value in left[part].items())
    assert after["adam"]["step"] == left["adam"]["step"] > 0
    assert after["rewards"]["moments"]["count"] == left["rewards"]["moments"]["count"] > 0
    assert left["kl_coefficient"] != after["kl_coefficient"] == 0.2
    assert (after["rewards"]["running"], after.get("passes", 0)) == ({}, 0)
    assert left["rewards"]["running"]
