"""Gradients as pure functions: those by hand agree with autograd's, and only the step changes weights."""

from typing import Any

import pytest
import torch

from learner_support import HOPPER, by_autograd, fragment, job
from nitro_actor.protocol.weights import DEFAULT_POLICY
from nitro_learner.algorithms.gradient import Gradient, MeanNorm
from nitro_learner.algorithms.ppo.gradient import PpoGradient
from nitro_learner.algorithms.ppo.learning import Ppo
from nitro_learner.algorithms.ppo.loss import Samples


def learned(preset: str = "tuned", **overrides: Any) -> tuple[Ppo, Samples]:
    """An algorithm after one round, whose ratios are not 1, and the round's samples."""
    algorithm = Ppo(job(preset, **overrides).spec, HOPPER)
    fragments = [fragment(slot) for slot in range(3)]
    algorithm.update(fragments, 1)
    batch = algorithm.assemble(fragments)
    return algorithm, Samples(
        batch.observations,
        batch.actions,
        batch.log_probs,
        batch.distribution,
        batch.advantages,
        batch.returns,
    )


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["paper", "tuned"])
def test_the_gradient_by_hand_is_that_of_autograd(preset: str) -> None:
    algorithm, samples = learned(preset)
    by_hand = PpoGradient(algorithm.distribution, algorithm.coefficients(), chunk=50)
    expected = by_autograd(by_hand, algorithm.network, samples)
    found = by_hand(algorithm.network, samples).values
    assert expected.shape == found.shape == algorithm.network.flat.shape
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4 * float(expected.abs().max()))


def test_a_gradient_changes_no_weights_and_is_repeatable_to_the_bit() -> None:
    algorithm, samples = learned()
    gradient = PpoGradient(algorithm.distribution, algorithm.coefficients(), chunk=64)
    before = algorithm.network.flat.detach().clone()
    first = gradient(algorithm.network, samples).values.clone()
    other = gradient(algorithm.network, samples.every(2, 0)).values.clone()
    again = gradient(algorithm.network, samples).values
    assert torch.equal(algorithm.network.flat.detach(), before)
    assert torch.equal(again, first)
    assert not torch.equal(other, first)


def test_a_step_can_apply_a_gradient_from_another_process() -> None:
    settings = {"algorithm__hyperparameters__standardiseAdvantages": "batch"}
    (one, samples), (other, _) = learned(**settings), learned(**settings)
    values = PpoGradient(one.distribution, one.coefficients(), one.chunk)(one.network, samples).values.clone()
    one.step(samples, one.coefficients())
    assert not torch.equal(one.network.flat, other.network.flat)
    other.apply(Gradient(values))
    assert torch.equal(one.network.flat, other.network.flat)


@pytest.mark.parametrize(
    ("norm", "expected"), [(1.0, [0.6, 0.8]), (10.0, [3.0, 4.0]), (0.0, [3.0, 4.0])], ids=str
)
def test_a_gradient_is_scaled_down_to_the_norm_and_never_up(norm: float, expected: list[float]) -> None:
    gradient = Gradient(torch.tensor([3.0, 4.0]))
    assert gradient.clip_(norm) == 5.0, "the norm before"
    torch.testing.assert_close(gradient.values, torch.tensor(expected))


def test_mean_norms_are_those_since_they_were_last_taken() -> None:
    norms = MeanNorm()
    assert norms.take() == []
    first = torch.tensor([1.0, 2.0])
    norms.add(first)
    norms.add(torch.tensor([3.0, 6.0]))
    assert norms.take() == [2.0, 4.0]
    assert first.tolist() == [1.0, 2.0], "what was given stays"
    assert norms.take() == []


@pytest.mark.parametrize("clipped", [0.0, 1e-3])
def test_the_reported_gradient_norm_is_that_before_clipping(clipped: float) -> None:
    settings = {"epochs": 1, "minibatchSize": 0, "maxGradNorm": clipped, "standardiseAdvantages": "batch"}
    overrides = {f"algorithm__hyperparameters__{name}": value for name, value in settings.items()}
    algorithm = Ppo(job("tuned", **overrides).spec, HOPPER)
    fragments = [fragment(slot) for slot in range(3)]
    other = Ppo(job("tuned", **overrides).spec, HOPPER)
    batch = other.assemble(fragments)
    advantages = other.scaled(batch.advantages)
    samples = Samples(
        batch.observations, batch.actions, batch.log_probs, batch.distribution, advantages, batch.returns
    )
    expected = PpoGradient(other.distribution, other.coefficients(), other.chunk)(other.network, samples)
    stats = algorithm.update(fragments, 1)[DEFAULT_POLICY].stats
    assert stats["gradient_norm"] == pytest.approx(float(expected.values.norm()), rel=1e-5)
    assert "gradient_norm" not in other.stats(samples, other.coefficients()), "no step, no norm"
