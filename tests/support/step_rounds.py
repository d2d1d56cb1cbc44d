"""Learners with small minibatches, and rounds of several sizes: for tests of steps that are captured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from agents_support import agent_class, agents_fragment, team
from learner_support import HOPPER, fragment, job, learner_of
from nitro_api.spec.network import Recurrent
from nitro_learner.algorithms.ppo.learning import Ppo
from nitro_learner.data.batch import Fragment

RATE = 2**-8
"""Rounded to float32, as a graph reads it, this rate and the annealed ones stay what they are."""

MEMORY = 4

Round = list[Fragment]


def of_hopper(preset: str, device: str = "cpu") -> Ppo:
    settings = {"minibatchSize": 40, "epochs": 2, "learningRate": RATE, "learningRateAnneal": True}
    named = {f"algorithm__hyperparameters__{name}": value for name, value in settings.items()}
    learner = learner_of(job(preset, network__hiddenSizes=[8], **named).spec, HOPPER, device)
    assert isinstance(learner, Ppo)
    learner.begin_round(1, 4)
    return learner


def hopper(sizes: Sequence[int]) -> list[Round]:
    """Rounds of so many fragments of 64 steps, with minibatches of 32 to 40."""
    return [[fragment(slot, seed=k) for slot in range(size)] for k, size in enumerate(sizes)]


def of_agents(algorithm: str, device: str = "cpu", *, memory: bool = False) -> Ppo:
    """Three agents, some of which die; each policy has a KL penalty that changes."""
    settings = {"minibatch_size": 16, "epochs": 2, "kl_coefficient": 0.25}
    settings |= {"learning_rate": RATE, "learning_rate_anneal": True}
    made = team(agent_class(masked=True), algorithm=algorithm, hidden=[8], rounds=4)
    made = replace(made, settings=made.settings.model_copy(update=settings))
    if memory:
        network = made.network.model_copy(update={"recurrent": Recurrent(hidden_size=MEMORY)})
        made = replace(made, network=network)
    return Ppo(made, device)


def agents(sizes: Sequence[int]) -> list[Round]:
    masked = agent_class(masked=True)
    rounds = [
        [agents_fragment(masked, slot=slot, seed=k, deaths=0.05) for slot in range(size)]
        for k, size in enumerate(sizes)
    ]
    for fragments in rounds:
        for part in fragments:
            part.by_class[masked.name]["memory"] = np.zeros((2, 3, MEMORY), np.float32)
    return rounds


def same(one: Any, other: Any) -> bool:
    """Whether two states are equal to the bit."""
    pairs = zip(tree_leaves(one), tree_leaves(other), strict=True)
    return all(torch.equal(a, b) if isinstance(a, Tensor) else str(a) == str(b) for a, b in pairs)
