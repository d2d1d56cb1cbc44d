"""Gradient steps of SAC, TD3 and DDPG equal those of Stable-Baselines3, from equal weights, transitions and
noise."""

import json
from typing import Any

import numpy as np
import pytest
import torch

from learner_support import job
from nitro_learner.algorithms.adam import AdamState
from nitro_learner.algorithms.q_actor_critic.networks import Networks, Trained
from nitro_learner.algorithms.q_actor_critic.updates import Batch, Deterministic, Sac
from sb3_reference import (
    ACTION,
    GAMMA,
    HIDDEN,
    NAMES,
    OBSERVATION,
    RATE,
    REFERENCE,
    TAU,
    batches,
    start,
)

HYPER = "algorithm__hyperparameters__"


def made(name: str) -> Any:
    settings = {HYPER + "learningRate": RATE, HYPER + "gamma": GAMMA, HYPER + "tau": TAU}
    spec = job("paper", algorithm__name=name, **settings).spec

    def trained(inputs: int, networks: list[list[np.ndarray]]) -> Trained:
        rows = [torch.from_numpy(np.concatenate([array.ravel() for array in row])) for row in networks]
        shape = Networks(inputs, HIDDEN, len(networks[0][-1]), "relu")
        return Trained(shape, [(row, row, AdamState.fresh(len(row))) for row in rows], 1e-8)

    policy, critics = start(name)
    networks = trained(OBSERVATION, [policy]), trained(OBSERVATION + ACTION, critics)
    if name == "sac":
        return Sac(*networks, spec.algorithm.hyperparameters, ACTION)
    return Deterministic(*networks, spec.algorithm.hyperparameters)


@pytest.mark.parametrize("name", NAMES)
def test_gradient_steps_are_those_of_stable_baselines3(name: str) -> None:
    learned = made(name)
    for number, batch in enumerate(batches(), 1):
        tensors = {key: torch.from_numpy(array) for key, array in batch.items()}
        discounts = GAMMA * (1 - tensors.pop("terminated"))
        noise = tensors.pop("noise")[: learned.draws]
        learned.step(Batch(**tensors, discounts=discounts, noise=noise), number)
    expected = json.loads(REFERENCE.read_text())[name]
    got = {
        "policy": learned.policy.parameters,
        "policy_targets": learned.policy.targets,
        "critics": learned.critics.parameters,
        "critics_targets": learned.critics.targets,
    }
    for key, values in expected.items():
        if key == "log_temperature":
            assert learned.state_dict()[key].item() == pytest.approx(values[0], abs=1e-7)
            continue
        np.testing.assert_allclose(got[key].numpy(), values, atol=1e-5, rtol=0, err_msg=key)
