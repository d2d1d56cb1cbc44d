"""Gradients as pure functions: those by hand agree with autograd's, and only the step changes weights."""

from typing import Any

import pytest
import torch

from learner_support import (
    HOPPER,
    by_autograd,
    by_hand,
    coefficients_of,
    fragment,
    job,
    learner_of,
    parts_of,
    samples_of,
)
from nitro_actor.protocol.agents import AGENT
from nitro_actor.protocol.weights import DEFAULT_POLICY
from nitro_learner.algorithms.gradient import MeanNorm, clip_rows
from nitro_learner.algorithms.ppo.learning import Ppo
from nitro_learner.algorithms.ppo.samples import Samples


def learned(preset: str = "tuned", **overrides: Any) -> tuple[Ppo, Samples]:
    """An algorithm after one round, whose ratios are not 1, and the round's samples."""
    algorithm = learner_of(job(preset, **overrides).spec, HOPPER)
    fragments = [fragment(slot) for slot in range(3)]
    algorithm.update(fragments, 1)
    return algorithm, algorithm.batch(AGENT, fragments, 1).data


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["paper", "tuned"])
def test_the_gradient_by_hand_is_that_of_autograd(preset: str) -> None:
    algorithm, samples = learned(preset)
    c = coefficients_of(algorithm)
    expected, found = by_autograd(algorithm, c, samples), by_hand(algorithm, c, samples, chunk=50)
    assert expected.shape == found.shape == parts_of(algorithm)[1][0].shape
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4 * float(expected.abs().max()))


def test_a_gradient_changes_no_weights_and_is_repeatable_to_the_bit() -> None:
    algorithm, samples = learned()
    c, before = coefficients_of(algorithm), parts_of(algorithm)[1].clone()
    first = by_hand(algorithm, c, samples, chunk=64)
    other = by_hand(algorithm, c, samples.parts(len(samples) // 2)[0], chunk=64)
    again = by_hand(algorithm, c, samples, chunk=64)
    assert torch.equal(parts_of(algorithm)[1], before)
    assert torch.equal(again, first)
    assert not torch.equal(other, first)


@pytest.mark.parametrize(
    ("norm", "expected"), [(1.0, [0.6, 0.8]), (10.0, [3.0, 4.0]), (0.0, [3.0, 4.0])], ids=str
)
def test_a_gradient_is_scaled_down_to_the_norm_and_never_up(norm: float, expected: list[float]) -> None:
    gradient = torch.tensor([[3.0, 4.0]])
    assert clip_rows(gradient, norm).tolist() == [5.0], "the norm before"
    torch.testing.assert_close(gradient, torch.tensor([expected]))


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
    algorithm = learner_of(job("tuned", **overrides).spec, HOPPER)
    fragments = [fragment(slot) for slot in range(3)]
    other = learner_of(job("tuned", **overrides).spec, HOPPER)
    expected = by_hand(other, coefficients_of(other), samples_of(other, fragments))
    stats = algorithm.update(fragments, 1)[DEFAULT_POLICY].stats
    assert stats["gradient_norm"] == pytest.approx(float(expected.norm()), rel=1e-5)
