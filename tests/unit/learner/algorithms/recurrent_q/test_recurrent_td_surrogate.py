"""The detector's view of a round of a Q-learner with a memory: its value and its curvature."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from agents_support import agent_class
from nitro_learner.boosting.hvp import hessian
from nitro_learner.boosting.surrogate import Function
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
    by_lane = surrogate.trajectories("clip")
    assert len(by_lane.terms) == 4
    assert value(by_lane) == pytest.approx(value(surrogate.function("clip", torch.arange(20))), rel=1e-5)


@pytest.mark.parametrize("algorithm", ["iql", "qmix"])
def test_hessian_products_are_differences_of_gradients(algorithm: str) -> None:
    surrogate, _, _ = updated(algorithm)

    def double(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach().double()

    played = [
        replace(
            one,
            parameters=double(one.parameters).requires_grad_(),
            **{name: double(getattr(one, name)) for name in ("observations", "acted", "memory", "keep")},
        )
        for one in surrogate.played
    ]
    function = replace(
        surrogate,
        played=played,
        mixer_parameters=double(surrogate.mixer_parameters).requires_grad_(),
        state=None if surrogate.state is None else double(surrogate.state),
        targets=double(surrogate.targets),
        weights=double(surrogate.weights),
    ).function("clip", ROWS)
    sizes = [p.numel() for p in function.parameters]

    def gradient() -> torch.Tensor:
        parts = [torch.autograd.grad(term(), list(function.parameters)) for term in function.terms]
        return torch.stack([torch.cat([g.flatten() for g in part]) for part in parts]).sum(0)

    vector = torch.randn(sum(sizes), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    with hessian(function) as operator:
        found = operator(vector)
    step, ends = 1e-7, []
    for sign in (1, -2):  # the second step goes back and beyond
        with torch.no_grad():
            for p, v in zip(function.parameters, torch.split(vector, sizes), strict=True):
                p += sign * step * v.view_as(p)
        ends.append(gradient())
    torch.testing.assert_close(found, (ends[0] - ends[1]) / (2 * step), rtol=1e-4, atol=1e-5)
    assert np.abs(found.numpy()).max() > 0.01
