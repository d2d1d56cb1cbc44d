"""Policies that train stacked learn the same, to the bit, as each of them alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from agents_support import agent_class, agents_fragment, team
from nitro_actor.protocol.agents import AgentClass
from nitro_api.spec.network import Network, Recurrent
from nitro_learner.algorithms.base import UpdateResult
from nitro_learner.algorithms.ppo.learning import Ppo
from nitro_learner.data.batch import Fragment

SHAPES: dict[str, dict[str, Any]] = {
    "two layers": {"hidden": (16, 16)},
    "wide": {"hidden": (64, 64), "length": 40, "settings": {"minibatchSize": 64}},
    "one unit": {"hidden": (1, 5)},
    "many minibatches": {"hidden": (7,), "settings": {"minibatchSize": 5}},
    "one row": {"hidden": (16,), "length": 1, "envs": 1},
    "parts of a batch": {"hidden": (8,), "length": 300, "settings": {"minibatchSize": 0}},
    "relu and a penalty": {
        "hidden": (16, 16),
        "activation": "relu",
        "settings": {"klCoefficient": 0.3, "klTarget": 0.01, "entropyCoefficient": 0.02},
    },
}
MEMORIES = {"small": 5, "one number": 1, "wide": 32}
SPACES: dict[str, dict[str, Any]] = {
    "masked": {"masked": True},
    "continuous": {"continuous": True, "actions": 2},
    "one number": {"continuous": True, "actions": 1, "size": 1},
}


def learner(
    one: AgentClass,
    agents: tuple[str, ...],
    algorithm: str,
    hidden: Any,
    activation: Any,
    memory: int,
    **of: Any,
) -> Ppo:
    network = Network(type="mlp", hidden_sizes=list(hidden), activation=activation, log_std="state")
    if memory:
        network.recurrent = Recurrent(hidden_size=memory)
    made = team(one, agents=agents, algorithm=algorithm, network=network, **of)
    return Ppo(made)


def fragments_of(one: AgentClass, round: int, memory: int, **shape: int) -> list[Fragment]:
    made = [
        agents_fragment(one, slot=slot, deaths=0.02, returns=0.3, resumed=round > 1, seed=round, **shape)
        for slot in range(2)
    ]
    rng = np.random.default_rng(round)
    for fragment in made if memory else []:
        for arrays in fragment.by_class.values():
            before = rng.uniform(-1, 1, (*arrays["alive"].shape[1:], memory)).astype(np.float32)
            arrays["memory"] = before  # type: ignore[index]
    return made


def check(
    algorithm: str,
    space: dict[str, Any],
    *,
    hidden: tuple[int, ...],
    activation: str = "tanh",
    memory: int = 0,
    settings: dict[str, Any] | None = None,
    **shape: int,
) -> None:
    one = agent_class(agents=3, **space)
    of = {"settings": {"minibatchSize": 13, "epochs": 2} | (settings or {})}
    together = learner(one, one.agents, algorithm, hidden, activation, memory, **of)
    alone = {a: learner(one, (a,), algorithm, hidden, activation, memory, **of) for a in one.agents}
    for round in (1, 2, 3):
        fragments = fragments_of(one, round, memory, **({"length": 24} | shape))
        found = together.update(fragments, round)
        for agent, single in alone.items():
            expected: UpdateResult = single.update(fragments, round)[agent]
            assert found[agent].stats == expected.stats, agent
            saved, own = (each.state_dict()["policies"][agent] for each in (together, single))
            for name, value in own["parameters"].items():
                assert torch.equal(saved["parameters"][name], value), (agent, round, name)
            for name, value in own["adam"].items():
                assert torch.equal(saved["adam"][name], value), (agent, round, name)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("algorithm", ["ippo", "mappo"])
@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("shape", SHAPES)
def test_policies_learn_together_as_each_learns_alone(algorithm: str, space: str, shape: str) -> None:
    check(algorithm, SPACES[space], **SHAPES[shape])


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("memory", MEMORIES)
def test_so_do_policies_that_remember(space: str, memory: str) -> None:
    check("ippo", SPACES[space], hidden=(16,), memory=MEMORIES[memory], settings={"minibatchSize": 60})
