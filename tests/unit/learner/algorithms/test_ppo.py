"""PPO: gradients and updates against plain autograd, determinism to the bit, and each option's effect."""

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from learner_support import HOPPER, fragment, job, learner_of, module_of, parts_of, plain
from nitro_actor.protocol.agents import AGENT
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.protocol.weights import DEFAULT_POLICY
from nitro_learner.algorithms.ppo.learning import Ppo, parted
from nitro_learner.algorithms.ppo.loss import Coefficients, gradients, terms
from nitro_learner.algorithms.ppo.samples import Samples
from nitro_learner.algorithms.updates import adapted
from nitro_learner.data.batch import Fragment
from nitro_learner.networks.distributions import (
    Bernoulli,
    Categorical,
    Distribution,
    Gaussian,
    MultiCategorical,
)

SMALL = {"network__hiddenSizes": [16, 16], "algorithm__hyperparameters__epochs": 3}


def ppo(preset: str = "tuned", **overrides: Any) -> Ppo:
    algorithm = learner_of(job(preset, **(SMALL | overrides)).spec, HOPPER)
    assert isinstance(algorithm, Ppo)
    return algorithm


def rounds(count: int, slots: int = 3) -> list[list[Fragment]]:
    return [[fragment(s, envs=2, seed=k, resumed=k > 0) for s in range(slots)] for k in range(count)]


def samples_of(distribution: Distribution, n: int = 50) -> tuple[Samples, Tensor, Tensor]:
    """Samples, new parameters and new values, all in float64, some beyond the clips."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    width = 5 if isinstance(distribution, MultiCategorical) else 4
    old = normal(n, width)
    if isinstance(distribution, Categorical):
        actions = torch.randint(4, (n,), generator=generator)
    elif isinstance(distribution, MultiCategorical):
        actions = torch.stack([torch.randint(size, (n,), generator=generator) for size in (2, 3)], 1)
    elif isinstance(distribution, Bernoulli):
        actions = torch.randint(2, (n, 4), generator=generator)
    else:
        actions = normal(n, 2)
    samples = Samples(
        observations=normal(n, 3),
        actions=actions,
        log_probs=distribution.log_prob(old, actions),
        distribution=old,
        advantages=normal(n),
        returns=2 * normal(n),
    )
    return samples, old + 0.4 * normal(n, width), normal(n)


@pytest.mark.parametrize(
    "distribution",
    [Gaussian(), Categorical(), MultiCategorical([2, 3]), Bernoulli()],
    ids=lambda one: type(one).__name__,
)
@pytest.mark.parametrize(
    "c",
    [
        Coefficients(clip=0.2, kl=0, entropy=0, value=0, value_clip=math.inf),
        Coefficients(clip=0.2, kl=0.5, entropy=0, value=0, value_clip=math.inf),
        Coefficients(clip=0.2, kl=0, entropy=0.3, value=0, value_clip=math.inf),
        Coefficients(clip=0.3, kl=0.2, entropy=0.01, value=0.7, value_clip=4.0),
    ],
    ids=["surrogate", "kl", "entropy", "all"],
)
def test_the_losss_gradient_equals_autograds(distribution: Distribution, c: Coefficients) -> None:
    samples, params, values = samples_of(distribution)
    params.requires_grad_()
    values.requires_grad_()
    t = terms(samples, params, values, distribution, c)
    assert 0.1 < t.clipped.double().mean() < 0.9
    if c.value_clip < math.inf:
        assert 0 < int((t.value_error == c.value_clip).sum()) < len(samples)
    expected = torch.autograd.grad(t.loss(c).mean(), (params, values), materialize_grads=True)
    actual = gradients(samples, params.detach(), values.detach(), distribution, c, scale=1 / len(samples))
    torch.testing.assert_close(actual[0], expected[0], rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(actual[1], expected[1], rtol=1e-10, atol=1e-12)


def test_distributions_equal_pytorchs() -> None:
    samples, params, _ = samples_of(Gaussian())
    old, new = (
        torch.distributions.Independent(torch.distributions.Normal(p[:, :2], p[:, 2:].exp()), 1)
        for p in (samples.distribution, params)
    )
    torch.testing.assert_close(Gaussian().log_prob(params, samples.actions), new.log_prob(samples.actions))
    torch.testing.assert_close(Gaussian().entropy(params), new.entropy())
    torch.testing.assert_close(
        Gaussian().kl(samples.distribution, params), torch.distributions.kl_divergence(old, new)
    )
    samples, params, _ = samples_of(Categorical())
    old, new = (torch.distributions.Categorical(logits=p) for p in (samples.distribution, params))
    torch.testing.assert_close(Categorical().log_prob(params, samples.actions), new.log_prob(samples.actions))
    torch.testing.assert_close(Categorical().entropy(params), new.entropy())
    torch.testing.assert_close(
        Categorical().kl(samples.distribution, params), torch.distributions.kl_divergence(old, new)
    )
    samples, params, _ = samples_of(Bernoulli())
    old, new = (
        torch.distributions.Independent(torch.distributions.Bernoulli(logits=p), 1)
        for p in (samples.distribution, params)
    )
    bits = samples.actions.double()
    torch.testing.assert_close(Bernoulli().log_prob(params, samples.actions), new.log_prob(bits))
    torch.testing.assert_close(Bernoulli().entropy(params), new.entropy())
    torch.testing.assert_close(
        Bernoulli().kl(samples.distribution, params), torch.distributions.kl_divergence(old, new)
    )
    both = MultiCategorical([2, 3])
    samples, params, _ = samples_of(both)
    first, second = slice(0, 2), slice(2, 5)
    old_and_new = [
        [torch.distributions.Categorical(logits=p[:, part]) for p in (samples.distribution, params)]
        for part in (first, second)
    ]
    torch.testing.assert_close(
        both.log_prob(params, samples.actions),
        sum(new.log_prob(samples.actions[:, i]) for i, (_, new) in enumerate(old_and_new)),
    )
    torch.testing.assert_close(both.entropy(params), sum(new.entropy() for _, new in old_and_new))
    torch.testing.assert_close(
        both.kl(samples.distribution, params),
        sum(torch.distributions.kl_divergence(old, new) for old, new in old_and_new),
    )


def test_bernoullis_stay_finite_where_a_bit_is_certain() -> None:
    certain = torch.tensor([[90.0, -90.0]], dtype=torch.float32, requires_grad=True)
    other = torch.tensor([[-90.0, -90.0]])
    log_prob = Bernoulli().log_prob(certain, torch.tensor([[1, 1]]))
    assert log_prob.item() == -90
    for value in (log_prob, Bernoulli().entropy(certain), Bernoulli().kl(other, certain)):
        (gradient,) = torch.autograd.grad(value.sum(), certain, create_graph=True)
        assert torch.isfinite(gradient).all()
        assert torch.isfinite(torch.autograd.grad(gradient.sum(), certain, retain_graph=True)[0]).all()
    assert Bernoulli().entropy(certain).item() == pytest.approx(0, abs=1e-30)


class Reference:
    """PPO's update written plainly: an autograd graph per minibatch, PyTorch's modules, Adam and clipping."""

    def __init__(self, algorithm: Ppo) -> None:
        self.network: Any = copy.deepcopy(module_of(algorithm))

    def update(self, algorithm: Ppo, fragments: list[Fragment], seed: int) -> None:
        s = algorithm.settings
        batch: Samples = copy.deepcopy(algorithm).batch(AGENT, fragments, 1).data
        optimiser = torch.optim.Adam(self.network.parameters(), lr=s.learning_rate, eps=s.adam_epsilon)
        generator = torch.Generator().manual_seed(seed)
        whole = (batch.advantages - batch.advantages.mean()) / batch.advantages.std(correction=0).clamp(
            min=1e-4
        )
        n, free = len(batch), getattr(self.network.policy, "log_std", None)
        for _ in range(s.epochs):
            size = s.minibatch_size or n
            order = torch.randperm(n, generator=generator) if size < n else torch.arange(n)
            for rows in order.split(math.ceil(n / math.ceil(n / size))):
                a = whole[rows]
                if s.standardise_advantages == "minibatch":
                    a = (a - a.mean()) / a.std(correction=0).clamp(min=1e-4)
                params = self._mlp(self.network.policy, batch.observations[rows])
                mean, log_std = (
                    params.chunk(2, -1) if params.shape[1] == 6 else (params, free.expand_as(params))
                )
                new = torch.distributions.Normal(mean, log_std.clamp(-20, 2).exp())
                old_mean, old_log_std = batch.distribution[rows].chunk(2, -1)
                old = torch.distributions.Normal(old_mean, old_log_std.exp())
                ratio = (new.log_prob(batch.actions[rows]).sum(-1) - batch.log_probs[rows]).exp()
                surrogate = torch.min(ratio * a, ratio.clamp(1 - s.clip, 1 + s.clip) * a).mean()
                kl = torch.distributions.kl_divergence(old, new).sum(-1).mean()
                error = (
                    self._mlp(self.network.critic, batch.observations[rows])[:, 0] - batch.returns[rows]
                ) ** 2
                value_loss = error.clamp(max=s.value_clip or math.inf).mean()
                loss = -surrogate + s.kl_coefficient * kl + s.value_coefficient * value_loss
                loss = loss - s.entropy_coefficient * new.entropy().sum(-1).mean()
                optimiser.zero_grad()
                loss.backward()
                if s.max_grad_norm:
                    nn.utils.clip_grad_norm_(self.network.parameters(), s.max_grad_norm)
                optimiser.step()

    @staticmethod
    def _mlp(mlp: nn.Module, x: Tensor) -> Tensor:
        for layer in mlp.layers.children():
            x = torch.tanh(nn.functional.linear(x, layer.weight, layer.bias))
        return nn.functional.linear(x, mlp.head.weight, mlp.head.bias)


@pytest.mark.parametrize(
    ("preset", "overrides"),
    [
        ("paper", {}),
        ("tuned", {}),
        ("tuned", {"algorithm__hyperparameters__minibatchSize": 100, "network__hiddenSizes": [256, 256]}),
        ("paper", {"algorithm__hyperparameters__entropyCoefficient": 0.01}),
    ],
)
def test_an_update_equals_plain_pytorchs(preset: str, overrides: dict[str, Any], monkeypatch: Any) -> None:
    algorithm = ppo(preset, **overrides)
    monkeypatch.setattr("nitro_learner.algorithms.ppo.alone.stream", lambda *_: 42)
    for module in ("alone", "team"):  # several chunks per batch
        monkeypatch.setattr(f"nitro_learner.algorithms.ppo.{module}.chunk_size", lambda *_: 100)
    reference = Reference(algorithm)
    fragments = rounds(1, slots=4)[0]
    before = parts_of(algorithm)[1].detach().clone()
    reference.update(algorithm, fragments, seed=42)
    algorithm.update(fragments, 1)
    expected = nn.utils.parameters_to_vector(reference.network.parameters())
    moved = (expected - before).abs().max()
    assert moved > 1e-4
    # Adam divides by the gradient's root mean square: rounding of a small gradient is a part of its step.
    assert (parts_of(algorithm)[1] - expected).abs().max() < 0.02 * moved
    assert (parts_of(algorithm)[1] - expected).abs().mean() < 1e-5


@pytest.mark.parametrize("preset", ["paper", "tuned"])
def test_equal_fragments_give_equal_weights_to_the_bit(preset: str) -> None:
    one, two = ppo(preset), ppo(preset)
    for k, fragments in enumerate(rounds(3), start=1):
        stats = one.update(fragments, k)[DEFAULT_POLICY].stats
        torch.rand(3)  # global random numbers do not matter
        assert two.update(fragments, k)[DEFAULT_POLICY].stats == stats
    assert torch.equal(parts_of(one)[1], parts_of(two)[1])
    other = ppo(preset, seed=1)
    assert not torch.equal(parts_of(ppo(preset))[1], parts_of(other)[1])


@pytest.mark.parametrize("preset", ["paper", "tuned"])
@pytest.mark.parametrize("after", [0, 2])
def test_continues_from_its_state_to_the_bit(preset: str, after: int) -> None:
    whole, first, second = ppo(preset), ppo(preset), ppo(preset, seed=0)
    played = rounds(4)
    for k in range(1, after + 1):
        whole.update(played[k - 1], k)
        first.update(played[k - 1], k)
    state = copy.deepcopy(first.state_dict())
    second.load_state_dict(state)
    for k in range(after + 1, 5):
        stats = whole.update(played[k - 1], k)[DEFAULT_POLICY].stats
        assert second.update(played[k - 1], k)[DEFAULT_POLICY].stats == stats
        first.update(played[k - 1], k)
    assert torch.equal(parts_of(whole)[1], parts_of(second)[1])
    assert _flat(whole.state_dict()) == _flat(second.state_dict()) == _flat(first.state_dict())
    expected, again = (one.weights()[DEFAULT_POLICY] for one in (whole, second))
    assert expected.meta == again.meta
    assert all(np.array_equal(tensor, again.tensors[name]) for name, tensor in expected.tensors.items())


def _flat(state: Any) -> Any:
    """A state as plain values that compare; also: nothing in it that a checkpoint would need pickle for."""
    if isinstance(state, dict):
        assert all(isinstance(key, str) for key in state)
        return {key: _flat(value) for key, value in state.items()}
    if isinstance(state, Tensor | np.ndarray):
        return state.tolist()
    if isinstance(state, list):
        return [_flat(value) for value in state]
    assert state is None or isinstance(state, int | float | str)
    return state


def test_a_state_is_a_copy() -> None:
    algorithm = ppo()
    algorithm.update(rounds(1)[0], 1)
    state, before = algorithm.state_dict(), _flat(algorithm.state_dict())
    weights = algorithm.weights()[DEFAULT_POLICY].tensors["policy.head.bias"]
    kept = weights.copy()
    algorithm.update(rounds(2)[1], 2)
    assert _flat(state) == before
    np.testing.assert_array_equal(weights, kept)


def test_refuses_a_state_of_another_network() -> None:
    with pytest.raises(ValueError, match="network"):
        ppo(network__hiddenSizes=[8]).load_state_dict(ppo().state_dict())
    other = DescribedEnvironment.from_json({**HOPPER.json, "observation": {"shape": [5], "dtype": "float32"}})
    with pytest.raises(
        ValueError, match=r"policy\.layers\.0\.weight has shape \(16, 5\), expected \(16, 11\)"
    ):
        ppo().load_state_dict(learner_of(job(**SMALL).spec, other).state_dict())


def test_an_update_reports_its_statistics() -> None:
    stats = ppo("paper").update(rounds(1)[0], 1)[DEFAULT_POLICY].stats
    assert set(stats) == {
        "policy_loss",
        "value_loss",
        "entropy",
        "kl",
        "clip_fraction",
        "explained_variance",
        "advantage_std",
        "learning_rate",
        "kl_coefficient",
        "gradient_norm",
    }
    assert all(math.isfinite(value) for value in stats.values())
    assert stats["kl"] > 0
    assert stats["learning_rate"] == 5e-5
    assert stats["kl_coefficient"] == 0.2


@pytest.mark.parametrize(
    ("kl", "factor"), [(0.021, 1.5), (0.0199, 1.0), (0.0051, 1.0), (0.0049, 0.5), (0.0, 0.5)]
)
def test_the_kl_coefficient_adapts(kl: float, factor: float) -> None:
    assert adapted(0.2, kl, target=0.01) == pytest.approx(0.2 * factor)


def test_the_learning_rate_anneals_over_the_rounds() -> None:
    annealed = {
        "algorithm__hyperparameters__learningRate": 3e-4,
        "algorithm__hyperparameters__learningRateAnneal": True,
    }
    algorithm = ppo("tuned", stop__rounds=4, **annealed)
    rates = [
        algorithm.update(f, k)[DEFAULT_POLICY].stats["learning_rate"]
        for k, f in enumerate(rounds(5), start=1)
    ]
    assert rates == pytest.approx([3e-4, 2.25e-4, 1.5e-4, 0.75e-4, 0.0])


def test_minibatches_cover_the_batch_once_an_epoch() -> None:
    settings = {"minibatchSize": 64, "standardiseAdvantages": "'off'"}
    algorithm = ppo("tuned", **{f"algorithm__hyperparameters__{name}": v for name, v in settings.items()})
    samples, _, _ = samples_of(Gaussian(), n=150)
    minibatches = list(parted(samples, algorithm.settings, twice=True)[1]([torch.Generator().manual_seed(0)]))
    assert [len(m) for m in minibatches] == [
        50,
        50,
        50,
    ]  # not 64, 64, 22: no step weighs a few samples as many
    seen = torch.cat([m.advantages for m in minibatches])
    assert not torch.equal(seen, samples.advantages)
    assert torch.equal(seen.sort().values, samples.advantages.sort().values)
    rows = {float(a): i for i, a in enumerate(samples.advantages)}
    for m in minibatches:  # all columns move together
        order = torch.tensor([rows[float(a)] for a in m.advantages])
        assert torch.equal(m.observations, samples.observations[order])
        assert torch.equal(m.returns, samples.returns[order])


def test_standardises_and_does_not_blow_up_equal_advantages() -> None:
    def standardise(advantages: Tensor) -> Tensor:
        samples, _, _ = samples_of(Gaussian(), n=len(advantages))
        return samples.with_advantages(advantages).standardised()

    x = standardise(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    assert x.mean().item() == pytest.approx(0, abs=1e-6)
    assert x.std(correction=0).item() == pytest.approx(1)
    assert not standardise(torch.full((5,), 3.0)).any()
    assert standardise(torch.tensor([0.0, 1e-6]))[1].item() == pytest.approx(0.5e-6 / 1e-4)


def test_diverged_weights_are_an_error() -> None:
    algorithm = ppo("paper")
    with torch.no_grad():
        parts_of(algorithm)[1][0, 0] = math.nan
    with pytest.raises(FloatingPointError, match=r"round 1: .*learningRate"):
        algorithm.update(rounds(1)[0], 1)


def test_trains_on_the_statistics_that_the_actors_used() -> None:
    algorithm = ppo("tuned")
    played = rounds(2)
    for fragments in played:
        for f in fragments:
            plain(f)["observations"][:] = 7 + 2 * plain(f)["observations"]
    sent = algorithm.weights()[DEFAULT_POLICY].tensors
    assert not sent["observation.mean"].any()
    first = algorithm.update(played[0], 1)[DEFAULT_POLICY]
    np.testing.assert_array_equal(
        first.surrogate.samples.observations[:2], plain(played[0][0])["observations"][0]
    )
    sent = algorithm.weights()[DEFAULT_POLICY].tensors
    np.testing.assert_allclose(sent["observation.mean"], 7, atol=0.5)
    second = algorithm.update(played[1], 2)[DEFAULT_POLICY]
    raw = plain(played[1][0])["observations"][0]
    expected = (raw - sent["observation.mean"]) / np.sqrt(sent["observation.var"] + 1e-8)
    np.testing.assert_allclose(second.surrogate.samples.observations[:2], expected, atol=1e-5)
