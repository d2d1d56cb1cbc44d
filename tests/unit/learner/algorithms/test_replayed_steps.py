"""Steps that are captured once and replayed give what calls of them give, to the bit: in rounds of other
sizes, learning rates and KL penalties. A stand-in on the CPU records them (see `recorded_steps`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from agents_support import agent_class, agents_fragment, team
from learner_support import HOPPER, fragment, job, learner_of
from nitro_actor.protocol.agents import AGENT
from nitro_actor.protocol.weights import DEFAULT_POLICY
from nitro_api.spec.network import Recurrent
from nitro_learner.algorithms.ppo import learning
from nitro_learner.algorithms.ppo.learning import Ppo
from nitro_learner.data.batch import Fragment
from nitro_learner.networks.steps import Graphs
from recorded_steps import Recorded, by_torch

RATE = 2**-8
"""Rounded to float32, as a graph reads it, this rate and the annealed ones stay what they are."""

MEMORY = 4

Round = list[Fragment]


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    by_torch(monkeypatch)
    return Recorded()


def of_hopper(preset: str) -> Ppo:
    settings = {"minibatchSize": 40, "epochs": 2, "learningRate": RATE, "learningRateAnneal": True}
    named = {f"algorithm__hyperparameters__{name}": value for name, value in settings.items()}
    learner = learner_of(job(preset, network__hiddenSizes=[8], **named).spec, HOPPER)
    assert isinstance(learner, Ppo)
    learner.begin_round(1, 4)
    return learner


def hopper(sizes: Sequence[int]) -> list[Round]:
    """Rounds of so many fragments of 64 steps, with minibatches of 32 to 40."""
    return [[fragment(slot, seed=k) for slot in range(size)] for k, size in enumerate(sizes)]


def of_agents(algorithm: str, *, memory: bool = False) -> Ppo:
    """Three agents, some of which die; each policy has a KL penalty that changes."""
    settings = {"minibatch_size": 16, "epochs": 2, "kl_coefficient": 0.25}
    settings |= {"learning_rate": RATE, "learning_rate_anneal": True}
    made = team(agent_class(masked=True), algorithm=algorithm, hidden=[8], rounds=4)
    made = replace(made, settings=made.settings.model_copy(update=settings))
    if memory:
        network = made.network.model_copy(update={"recurrent": Recurrent(hidden_size=MEMORY)})
        made = replace(made, network=network)
    return Ppo(made)


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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "rounds"),
    [
        (lambda: of_hopper("tuned"), hopper([2, 1, 2])),
        (lambda: of_agents("ippo"), agents([2, 1, 2])),
        (lambda: of_agents("mappo"), agents([2, 1, 2])),
        (lambda: of_agents("ippo", memory=True), agents([2, 1, 2])),
    ],
    ids=["ppo", "ippo", "mappo", "memory"],
)
def test_replayed_steps_learn_what_called_steps_learn(
    make: Callable[[], Ppo], rounds: list[Round], recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = make()
    monkeypatch.setattr(learning, "graphs_on", lambda *names: Graphs(recorded, *names[1:]))
    replayed = make()
    for k, fragments in enumerate(rounds, 1):
        expected, found = called.update(fragments, k), replayed.update(fragments, k)
        assert same(replayed.state_dict(), called.state_dict()), f"after round {k}"
        assert [result.stats for result in found.values()] == [result.stats for result in expected.values()]
    assert 0 < recorded.captures < recorded.replays


def test_replayed_steps_have_the_kl_penalty_of_an_only_agent(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Called steps have it as a number of the loss, whose gradient is rounded otherwise.
    called = of_hopper("paper")
    monkeypatch.setattr(learning, "graphs_on", lambda *names: Graphs(recorded, *names[1:]))
    replayed = of_hopper("paper")
    for k, fragments in enumerate(hopper([2, 1, 2]), 1):
        expected = called.update(fragments, k)[DEFAULT_POLICY].stats
        assert replayed.update(fragments, k)[DEFAULT_POLICY].stats == pytest.approx(expected, rel=1e-4)
    assert called.learned[AGENT].kl_coefficient != called.settings.kl_coefficient, "it changed"
    torch.testing.assert_close(replayed.learned[AGENT].parameters, called.learned[AGENT].parameters)
    assert recorded.replays > 0
