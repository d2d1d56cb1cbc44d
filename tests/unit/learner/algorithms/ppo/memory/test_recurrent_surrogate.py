"""The surrogate of a policy with a memory: what the detector and the noise meter differentiate."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from actor_support import environment, policies_of, rollout
from learner_support import job, learner_of, lone_fragment
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.protocol.weights import DEFAULT_POLICY
from nitro_api.spec.scaling import GivenScaling
from nitro_learner.boosting.detector import Detector
from nitro_learner.boosting.gradient_noise import NoiseMeter
from nitro_learner.boosting.surrogate import Function

ROWS = 2 * 24


def updated() -> Any:
    """The result of a round with a tiny network."""
    env = environment("walk", 2, "actor_support:Walk")
    spec = job(
        "paper",
        environment__id="walk",
        network__hiddenSizes=[4],
        network__recurrent__hiddenSize=3,
        algorithm__hyperparameters__epochs=2,
        algorithm__hyperparameters__learningRate=0.01,
    ).spec
    learner = learner_of(spec, DescribedEnvironment.from_json(env.spec.to_json()))
    policy = policies_of(learner.weights()[DEFAULT_POLICY], env.spec)
    fragments = [
        lone_fragment({"slot": slot, "resumed": False}, rollout(env, policy, seed=slot, steps=24, state={}))
        for slot in range(2)
    ]
    return learner.update(fragments, 1)[DEFAULT_POLICY]  # type: ignore[attr-defined]


def value(function: Function) -> float:
    return sum(term().item() for term in function.terms)


def dense(function: Function) -> torch.Tensor:
    """The Hessian [n, n]."""
    parameters = list(function.parameters)
    total = torch.stack([term() for term in function.terms]).sum()
    grads = torch.autograd.grad(total, parameters, create_graph=True)
    rows = [
        torch.cat(
            [
                r.flatten()
                for r in torch.autograd.grad(g, parameters, retain_graph=True, materialize_grads=True)
            ]
        )
        for g in torch.cat([g.flatten() for g in grads])
    ]
    return torch.stack(rows).double()


def test_the_ratio_of_a_round_is_that_of_the_dense_hessian() -> None:
    surrogate = updated().surrogate
    spectrum = torch.linalg.eigvalsh(dense(surrogate.function("clip", torch.arange(ROWS))))
    measured = Detector(GivenScaling(), 0, ROWS).measure(surrogate, 1)
    assert measured.lambda_min == pytest.approx(spectrum[0].item(), rel=1e-2)
    assert measured.lambda_max == pytest.approx(spectrum[-1].item(), rel=1e-2)


def test_objectives_are_what_the_update_reports() -> None:
    result = updated()
    stats, rows = result.stats, torch.arange(ROWS)
    assert result.surrogate.size == ROWS
    assert value(result.surrogate.function("clip", rows)) == pytest.approx(-stats["policy_loss"], abs=1e-5)
    total = stats["policy_loss"] + 0.2 * stats["kl"] + stats["value_loss"]
    assert value(result.surrogate.function("total", rows)) == pytest.approx(total, rel=1e-4)


def test_drawn_transitions_count_with_what_came_before_them() -> None:
    """Means over two halves of the transitions have the mean over all, whatever the halves."""
    surrogate = updated().surrogate
    order = torch.randperm(ROWS, generator=torch.Generator().manual_seed(0))
    halves = [order[: ROWS // 2], order[ROWS // 2 :]]
    for objective in ("clip", "total"):
        each = [value(surrogate.function(objective, half)) for half in halves]
        whole = value(surrogate.function(objective, torch.arange(ROWS)))
        assert sum(each) / 2 == pytest.approx(whole, rel=1e-4, abs=1e-6)


def test_noise_is_measured_over_sequences_of_the_policy_that_sampled() -> None:
    surrogate = updated().surrogate
    function = surrogate.trajectories("ratio1").mean
    assert len(function.terms) == 4
    assert value(function) == pytest.approx(0, abs=1e-5)  # standardised advantages
    measured = NoiseMeter(GivenScaling(), ROWS).measure(surrogate)
    assert measured.noise is not None
    assert measured.noise.noise > 0
