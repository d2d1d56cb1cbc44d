"""Gradient noise: the estimate's formula, a problem of known noise scale, and a PPO round recomputed."""

import math
from collections.abc import Sequence
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from learner_support import HOPPER, fragment, job, learner_of, module_of, parts_of, plain
from nitro_actor.protocol.weights import DEFAULT_POLICY
from nitro_learner.algorithms.ppo.samples import Samples
from nitro_learner.boosting.gradient_noise import GradientNoise, NoiseMeter, gradient_noise
from nitro_learner.boosting.surrogate import Function, Objective, Trajectories


def linear(slopes: Tensor, sizes: Sequence[float], transitions: int | None = None) -> Trajectories:
    """Trajectories of so many summands each, whose mean gradients are the rows of `slopes` [n, d]."""
    theta = torch.zeros(slopes.shape[1], requires_grad=True)
    parts = zip(slopes, sizes, strict=True)
    terms = [partial(torch.dot, slope * size / sum(sizes), theta) for slope, size in parts]
    return Trajectories(Function(terms, [theta]), sizes, transitions or int(sum(sizes)))


def test_a_known_noise_scale_is_found_without_bias() -> None:
    """8 parts of 32 transitions whose gradients are mu + N(0, Sigma): G = |mu|^2 and S = tr(Sigma)."""
    rng = np.random.default_rng(0)
    mean, deviation = rng.standard_normal(20) * 0.2, 1 + rng.random(20)
    signal, noise = float(mean @ mean), float(deviation @ deviation)
    found = []
    for _ in range(400):
        slopes = mean + deviation * rng.standard_normal((8, 20)) / math.sqrt(32)
        measured = gradient_noise(linear(torch.from_numpy(slopes).float(), [32] * 8))
        assert measured is not None
        found.append((measured.signal, measured.noise))
    means, errors = np.mean(found, 0), np.std(found, 0) / math.sqrt(400)
    assert np.all(np.abs(means - [signal, noise]) < 4 * errors)
    assert means[1] / means[0] == pytest.approx(noise / signal, rel=0.1)
    assert errors[0] < 0.03 * signal, "the test could not tell"


@given(st.integers(2, 9), st.integers(1, 50), st.integers(0, 100))
def test_equal_trajectories_give_the_papers_estimates(count: int, size: int, seed: int) -> None:
    slopes = torch.randn(count, 5, generator=torch.Generator().manual_seed(seed))
    found = gradient_noise(linear(slopes, [size] * count))
    assert found is not None
    signal, noise = by_hand(list(slopes), size)
    assert found.signal == pytest.approx(signal, rel=1e-4, abs=1e-5)
    assert found.noise == pytest.approx(noise, rel=1e-4)


def test_trajectories_of_unequal_size_bias_neither() -> None:
    """Some of the agents die early. Half of the environments' transitions are of nobody."""
    rng = np.random.default_rng(0)
    sizes = [10, 10, 20, 40, 80, 100, 100, 120]
    mean, deviation = rng.standard_normal(20) * 0.2, 1 + rng.random(20)
    signal, noise = float(mean @ mean), float(deviation @ deviation)
    found = []
    for _ in range(400):
        slopes = mean + deviation * rng.standard_normal((8, 20)) / np.sqrt(sizes)[:, None]
        measured = gradient_noise(linear(torch.from_numpy(slopes).float(), sizes, 2 * sum(sizes)))
        assert measured is not None
        found.append((measured.signal, measured.noise))
    means, errors = np.mean(found, 0), np.std(found, 0) / math.sqrt(400)
    assert np.all(np.abs(means - [signal, 2 * noise]) < 4 * errors)
    assert errors[1] < 0.03 * noise, "the test could not tell"
    same = gradient_noise(linear(torch.ones(8, 20), sizes))
    assert same == GradientNoise(signal=pytest.approx(20, rel=1e-4), noise=pytest.approx(0, abs=1e-2))


def test_the_noise_is_never_negative_and_the_signal_may_be() -> None:
    opposite = gradient_noise(linear(torch.tensor([[1.0], [-1.0]]), [32, 32]))
    assert opposite == GradientNoise(signal=pytest.approx(-1.0), noise=pytest.approx(64.0))
    assert opposite.snr(64) == pytest.approx(-1.0)
    assert opposite.snr(640) == pytest.approx(-10.0)


def test_without_noise_the_ratio_is_unknown() -> None:
    assert gradient_noise(linear(torch.ones(1, 3), [64])) is None
    assert gradient_noise(linear(torch.tensor([[1.0], [math.nan]]), [32, 32])) is None
    assert gradient_noise(linear(torch.ones(3, 3), [64, 0, 0])) is None, "one trajectory has all of it"
    equal = gradient_noise(linear(torch.ones(4, 3), [16] * 4))
    assert equal is not None
    assert equal.signal == pytest.approx(3.0)
    assert equal.noise == pytest.approx(0.0, abs=1e-5)
    assert GradientNoise(3.0, 0.0).snr(64) is None


def by_hand(gradients: list[Tensor], small: int) -> tuple[float, float]:
    """Section 7 of the specification, word for word, in float64 NumPy."""
    each = np.stack([gradient.double().numpy() for gradient in gradients])
    b, big_b = small, small * len(each)
    g_small, g_big = (each**2).sum(1).mean(), (each.mean(0) ** 2).sum()
    return (big_b * g_big - b * g_small) / (big_b - b), (g_small - g_big) / (1 / b - 1 / big_b)


@pytest.mark.parametrize(("objective", "scaler"), [("clip", "nitro"), ("total", "kungfu")])
def test_a_ppo_rounds_noise_is_that_of_its_trajectories_before_the_update(
    objective: Objective, scaler: str
) -> None:
    slots, steps, envs = 3, 32, 2
    spec = job("paper", network__hiddenSizes=[8, 8], algorithm__hyperparameters__epochs=2).spec
    before, algorithm = (learner_of(spec, HOPPER) for _ in range(2))
    fragments = [fragment(slot, length=steps, envs=envs) for slot in range(slots)]
    surrogate = algorithm.update(fragments, 1)[DEFAULT_POLICY].surrogate
    assert not torch.equal(parts_of(before)[1], parts_of(algorithm)[1])
    network = module_of(before)

    rows = torch.arange(slots * steps * envs).reshape(slots, steps, envs)
    gradients = []
    for slot in range(slots):
        for env in range(envs):
            mine: Samples = surrogate.samples.rows(rows[slot, :, env])
            observed = plain(fragments[slot])["observations"][:, env]
            np.testing.assert_array_equal(mine.observations.numpy(), observed)
            params = network.policy(mine.observations)
            log_prob = parts_of(before)[0].family.log_prob(params, mine.actions)
            ratio = torch.exp(log_prob - mine.log_probs)
            loss = -torch.min(ratio * mine.advantages, ratio.clamp(0.7, 1.3) * mine.advantages).mean()
            if objective == "total":
                loss = loss + 0.2 * parts_of(before)[0].family.kl(mine.distribution, params).mean()
                error = network.critic(mine.observations)[:, 0] - mine.returns
                loss = loss + (error**2).clamp(max=10).mean()
            module = network.policy if objective == "clip" else network
            grads = torch.autograd.grad(loss, list(module.parameters()))
            gradients.append(torch.cat([grad.flatten() for grad in grads]))
    signal, noise = by_hand(gradients, steps)

    scaling = spec.scaling.model_copy(update={"scaler": scaler})
    measured = NoiseMeter(scaling, transitions=64).measure(surrogate)
    assert measured.noise is not None
    assert measured.noise.signal == pytest.approx(signal, rel=1e-4)
    assert measured.noise.noise == pytest.approx(noise, rel=1e-4)
    assert measured.snr == pytest.approx(64 * signal / noise, rel=1e-4)
    assert measured.seconds > 0


def test_a_round_of_one_trajectory_has_no_noise_to_measure() -> None:
    algorithm = learner_of(job("paper", network__hiddenSizes=[8]).spec, HOPPER)
    surrogate = algorithm.update([fragment(0)], 1)[DEFAULT_POLICY].surrogate
    measured = NoiseMeter(job("paper").spec.scaling, 64).measure(surrogate)
    assert measured.noise is None
    assert measured.snr is None


def test_measuring_leaves_the_algorithm_as_it_was() -> None:
    spec = job("tuned", network__hiddenSizes=[8]).spec
    measured, plain = (learner_of(spec, HOPPER) for _ in range(2))
    for number in (1, 2):
        fragments = [fragment(slot, seed=number) for slot in range(2)]
        NoiseMeter(spec.scaling, 64).measure(measured.update(fragments, number)[DEFAULT_POLICY].surrogate)
        plain.update(fragments, number)
    assert torch.equal(parts_of(measured)[1], parts_of(plain)[1])


def test_an_impact_rounds_trajectories_are_those_that_arrived_in_it() -> None:
    settings = {"algorithm__name": "impact", "algorithm__hyperparameters__batchSize": 0}
    sizes = {"network__hiddenSizes": [8], "environment__rolloutLength": 64, "environment__envsPerActor": 2}
    algorithm = learner_of(job("paper", **settings, **sizes).spec, HOPPER)
    algorithm.take([fragment(slot, length=32, envs=2) for slot in range(3)])
    surrogate = algorithm.end_round(1)[DEFAULT_POLICY].surrogate
    parts = surrogate.trajectories("clip").mean.terms
    assert len(parts) == 6
    whole = surrogate.function("clip", torch.arange(surrogate.size)).terms
    assert sum(part().item() for part in parts) == pytest.approx(
        sum(part().item() for part in whole), rel=1e-4
    )
    assert NoiseMeter(job("paper").spec.scaling, 64).measure(surrogate).noise is not None
