"""The detector's view of a round of a Q-learner with a memory: its value and its curvature."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from agents_support import agent_class
from nitro_learner.boosting.surrogate import Function
from q_learning_support import doubled, hessian_products
from recurrent_q_support import lane, learner_of, networks_of, remembering

CLASSES = (agent_class("adversary", 1, size=3), agent_class("agent", 2, size=4))
LENGTH, ENVS = 5, 2
ROWS = torch.tensor([3, 4, 7, 16, 19])
"""Transitions of three of the four sequences."""


def updated(algorithm: str) -> tuple[Any, list[Any], Any]:
    settings = {"normaliseRewards": False, "targetUpdateSteps": 10_000, "gamma": 0.9}
    learner = learner_of(*CLASSES, algorithm=algorithm, settings=settings)
    target = networks_of(learner, "target")
    fragments = [
        remembering(*CLASSES, slot=slot, length=LENGTH, envs=ENVS, deaths=0.1, seed=2) for slot in (0, 1)
    ]
    results = learner.update(fragments, 1)
    return results["agent_1"].surrogate, fragments, (networks_of(learner, "parameters"), target)


def value(function: Function) -> float:
    return sum(term().item() for term in function.terms)


def test_it_is_the_negative_mean_huber_loss_through_the_sequences() -> None:
    surrogate, fragments, (online, target) = updated("iql")
    assert surrogate.size == 20
    total, count = 0.0, 0.0
    for row in ROWS.tolist():
        sequence, t = divmod(row, LENGTH)
        fragment, env = fragments[sequence // ENVS], sequence % ENVS
        chosen, following = lane(fragment, "agent", 1, env, online["agent_1"], target["agent_1"])
        reward = sum(one["rewards"][t, env].sum() for one in fragment.by_class.values())
        alive = fragment.by_class["agent"]["alive"][t, env, 1]
        wanted = torch.tensor(reward + 0.9 * following[t])
        total += functional.huber_loss(chosen[t], wanted).item() * alive
        count += alive
    assert value(surrogate.function("clip", ROWS)) == pytest.approx(-total / count, rel=1e-5)
    assert value(surrogate.function("total", ROWS)) == pytest.approx(total / count, rel=1e-5)


@pytest.mark.parametrize("algorithm", ["iql", "vdn", "qmix"])
def test_trajectories_sum_to_the_whole_and_are_one_for_each_environment(algorithm: str) -> None:
    surrogate, _, _ = updated(algorithm)
    by_lane = surrogate.trajectories("clip").mean
    assert len(by_lane.terms) == 4
    assert value(by_lane) == pytest.approx(value(surrogate.function("clip", torch.arange(20))), rel=1e-5)


@pytest.mark.parametrize("algorithm", ["iql", "qmix"])
def test_hessian_products_are_differences_of_gradients(algorithm: str) -> None:
    surrogate, _, _ = updated(algorithm)
    found, expected = hessian_products(doubled(surrogate).function("clip", ROWS))
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert np.abs(found.numpy()).max() > 0.01
