"""IMPACT against its formulas in plain float64, its target network's schedule, and its state."""

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from actor_support import policies_of, rollout
from learner_support import HOPPER, fragment, job, learner_of, lone_fragment, plain
from nitro_actor.config import EnvironmentConfig
from nitro_actor.make_env import make_env
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.protocol.weights import DEFAULT_POLICY
from nitro_api.spec.scaling import GivenScaling
from nitro_learner.algorithms.base import OffPolicyLearner, OnPolicyLearner
from nitro_learner.algorithms.impact.learning import Impact, denominator
from nitro_learner.algorithms.ppo.loss import Coefficients, gradients, terms
from nitro_learner.algorithms.ppo.samples import Samples
from nitro_learner.boosting.detector import Detector
from nitro_learner.data.batch import Fragment
from nitro_learner.networks.distributions import Categorical, Distribution, Gaussian
from nitro_learner.networks.module import ActorCriticModule

HYPER = "algorithm__hyperparameters__"
SMALL = {
    "algorithm__name": "impact",
    "network__hiddenSizes": [16, 16],
    "environment__rolloutLength": 64,
    "environment__envsPerActor": 2,
}


def impact(preset: str = "paper", **hyperparameters: Any) -> Impact:
    """An algorithm whose fragments have 64 steps of 2 environments; a batch is one fragment by default."""
    chosen = {"batchSize": 0} | hyperparameters
    return learner_of(job(preset, **SMALL, **{HYPER + name: v for name, v in chosen.items()}).spec, HOPPER)


def sampled(slot: int = 0, seed: int = 0, **changes: Any) -> Fragment:
    return fragment(slot, length=32, envs=2, seed=seed, **changes)


def parameters(algorithm: Impact) -> Tensor:
    return algorithm.parameters.detach().clone()


def followed(algorithm: Impact) -> bool:
    """Whether the target network equals the policy."""
    size = algorithm.network.policy_size
    return torch.equal(algorithm.target[:, :size], algorithm.parameters[:, :size])


def test_impact_is_off_policy() -> None:
    assert isinstance(impact(), OffPolicyLearner)
    assert not isinstance(impact(), OnPolicyLearner)


# The loss.


def random_case(distribution: Distribution, n: int = 60) -> dict[str, Tensor]:
    """Parameters of mu, pi_target and pi, actions and what the loss needs besides, float64."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    discrete = isinstance(distribution, Categorical)
    mu, spread = 0.5 * normal(n, 4), 0.8 if discrete else 0.4
    return {
        "mu": mu,
        "target": mu + spread * normal(n, 4),
        "pi": mu + spread * normal(n, 4),
        "actions": torch.randint(4, (n,), generator=generator) if discrete else normal(n, 2),
        "advantages": normal(n),
        "values": normal(n),
        "targets": normal(n),
    }


def plain_loss(distribution: Distribution, case: dict[str, Tensor], c: Coefficients) -> float:
    """The objective as Luo et al. write it, one sample after the other."""

    def log_prob(name: str) -> list[float]:
        return distribution.log_prob(case[name], case["actions"]).tolist()

    total = 0.0
    rows = zip(
        log_prob("mu"),
        log_prob("target"),
        log_prob("pi"),
        case["advantages"].tolist(),
        case["values"].tolist(),
        case["targets"].tolist(),
        distribution.kl(case["target"], case["pi"]).tolist(),
        distribution.entropy(case["pi"]).tolist(),
        strict=True,
    )
    for mu, target, pi, advantage, value, wanted, kl, entropy in rows:
        rho = min(math.exp(mu) / math.exp(target), 2.0)
        ratio = rho * math.exp(pi) / math.exp(mu)
        clipped = min(max(ratio, 1 - c.clip), 1 + c.clip)
        total += -min(ratio * advantage, clipped * advantage)
        total += c.kl * kl - c.entropy * entropy + c.value * (value - wanted) ** 2
    return total / len(case["advantages"])


def samples_of(distribution: Distribution, case: dict[str, Tensor]) -> Samples:
    return Samples(
        observations=case["mu"],
        actions=case["actions"],
        log_probs=denominator(
            distribution.log_prob(case["target"], case["actions"]),
            distribution.log_prob(case["mu"], case["actions"]),
        ),
        distribution=case["target"],
        advantages=case["advantages"],
        returns=case["targets"],
    )


@pytest.mark.slow
@pytest.mark.parametrize("distribution", [Gaussian(), Categorical()], ids=["gaussian", "categorical"])
def test_the_loss_and_its_gradient_are_the_papers(distribution: Distribution) -> None:
    c = Coefficients(clip=0.4, kl=0.7, entropy=0.01, value=1.0, value_clip=math.inf)
    case = random_case(distribution)
    samples = samples_of(distribution, case)
    t = terms(samples, case["pi"], case["values"], distribution, c)
    bounded = samples.log_probs > distribution.log_prob(case["target"], case["actions"])
    assert 0.1 < bounded.double().mean() < 0.9, "both branches of rho must occur"
    assert 0.1 < t.clipped.double().mean() < 0.9
    assert t.loss(c).mean().item() == pytest.approx(plain_loss(distribution, case, c), rel=1e-9)
    by_params, by_values = gradients(
        samples, case["pi"], case["values"], distribution, c, scale=1 / len(samples)
    )
    step = 1e-6
    for name, gradient in (("pi", by_params), ("values", by_values)):
        numeric = torch.zeros_like(gradient)
        for index in range(case[name].numel()):
            sides = []
            for sign in (1, -1):
                moved = case[name].clone()
                moved.view(-1)[index] += sign * step
                sides.append(plain_loss(distribution, case | {name: moved}, c))
            numeric.view(-1)[index] = (sides[0] - sides[1]) / (2 * step)
        torch.testing.assert_close(gradient, numeric, rtol=1e-5, atol=1e-7)


# A whole pass.


def vtrace_by_definition(
    f: Fragment, rho: np.ndarray, value: np.ndarray, following: np.ndarray, gamma: float
) -> tuple[np.ndarray, np.ndarray]:
    """V-trace's targets and advantages of a fragment, [L, E] in float64."""
    rewards, terminated = plain(f)["rewards"], f.tensors["terminated"]
    ended = terminated | f.tensors["truncated"]
    rho, after = np.minimum(rho, 1.0), np.where(terminated, 0.0, following)
    targets, advantages = np.empty_like(value), np.empty_like(value)
    for e in range(value.shape[1]):
        excess = 0.0
        for s in reversed(range(len(value))):
            excess = 0.0 if ended[s, e] else excess
            surprise = rewards[s, e] + gamma * (after[s, e] + excess) - value[s, e]
            advantages[s, e] = rho[s, e] * surprise
            excess = (
                rho[s, e] * (rewards[s, e] + gamma * after[s, e] - value[s, e]) + gamma * rho[s, e] * excess
            )
            targets[s, e] = value[s, e] + excess
    return targets, advantages


def test_a_pass_equals_autograd_on_the_formulas() -> None:
    """One fragment, one step: plain modules, the ratio as the paper writes it, torch.optim.Adam."""
    algorithm = impact(bufferBatches=1, bufferUses=1, targetUpdateFrequency=1e6)
    with torch.no_grad():  # so that target, policy and the fragment's own policy are three
        algorithm.target += 0.05 * torch.randn(
            algorithm.target.shape, generator=torch.Generator().manual_seed(0)
        )
    settings, f = algorithm.settings, sampled(ends=0.1)
    network, target = (
        copy.deepcopy(ActorCriticModule(algorithm.network, row)).double()
        for row in (algorithm.parameters, algorithm.target)
    )

    def rows(name: str) -> Tensor:
        return torch.from_numpy(np.asarray(plain(f)[name], np.float64).reshape(-1, 11))

    observations, n = rows("observations"), plain(f)["rewards"].size
    actions = torch.from_numpy(plain(f)["actions"].astype(np.float64).reshape(n, -1))
    mu = torch.from_numpy(plain(f)["log_probs"].astype(np.float64).reshape(n))
    gaussian = Gaussian()
    with torch.no_grad():
        target_params = target.policy(observations)
        target_log_prob = gaussian.log_prob(target_params, actions)
        value, last, final = (
            network.critic(rows(name))[:, 0].numpy()
            for name in ("observations", "last_observations", "final_observations")
        )
    value = value.reshape(32, 2)
    following = np.concatenate([value[1:], last[None]])
    following[f.tensors["truncated"] & ~f.tensors["terminated"]] = final
    rho = torch.exp(target_log_prob - mu).numpy().reshape(32, 2)
    targets, advantages = (
        torch.from_numpy(x.reshape(n)) for x in vtrace_by_definition(f, rho, value, following, settings.gamma)
    )
    params = network.policy(observations)
    ratio = (mu - target_log_prob).exp().clamp(max=2.0) * (gaussian.log_prob(params, actions) - mu).exp()
    surrogate = torch.min(ratio * advantages, ratio.clamp(0.6, 1.4) * advantages)
    loss = (
        -surrogate
        + settings.kl_coefficient * gaussian.kl(target_params, params)
        - settings.entropy_coefficient * gaussian.entropy(params)
        + settings.value_coefficient * (network.critic(observations)[:, 0] - targets) ** 2
    ).mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(network.parameters(), settings.max_grad_norm)
    torch.optim.Adam(network.parameters(), lr=settings.learning_rate, eps=settings.adam_epsilon).step()

    algorithm.take([f])
    expected = torch.cat([p.detach().flatten() for p in network.parameters()])
    torch.testing.assert_close(algorithm.parameters[0].double(), expected, rtol=1e-4, atol=2e-6)


# The feed.


def test_a_batch_is_used_the_configured_number_of_times() -> None:
    algorithm = impact(bufferBatches=2, bufferUses=3)
    assert not algorithm.replay(), "nothing has come yet"
    algorithm.take([sampled()])
    assert [algorithm.replay() for _ in range(4)] == [True, True, False, False]
    before = parameters(algorithm)
    assert not algorithm.replay()
    assert torch.equal(parameters(algorithm), before)


def test_a_batch_waits_for_its_fragments() -> None:
    algorithm = impact(batchSize=100, bufferUses=1)
    before = parameters(algorithm)
    algorithm.take([sampled()])
    assert torch.equal(parameters(algorithm), before)
    algorithm.take([sampled(slot=1)])
    assert not torch.equal(parameters(algorithm), before)


@pytest.mark.parametrize(("frequency", "every"), [(0.5, 3), (1.0, 6), (0.01, 1)])
def test_the_target_follows_on_its_schedule(frequency: float, every: int) -> None:
    """Every frequency * N * K passes; in between it stays as it is."""
    algorithm = impact(bufferBatches=2, bufferUses=3, targetUpdateFrequency=frequency)
    assert followed(algorithm)
    for passes in range(1, 13):
        held = algorithm.target.clone()
        algorithm.take([sampled(seed=passes)])
        if passes % every == 0:
            assert followed(algorithm)
        else:
            assert torch.equal(algorithm.target, held)


def test_n_and_k_default_by_action_space() -> None:
    discrete = DescribedEnvironment.from_json({**HOPPER.json, "action": {"kind": "discrete", "n": 3}})
    spec = job("paper", **SMALL, **{HYPER + "batchSize": 0}).spec
    discrete_fragment = sampled()
    rng = np.random.default_rng(0)
    tensors = plain(discrete_fragment) | {
        "actions": rng.integers(3, size=(32, 2)),
        "distribution": rng.standard_normal((32, 2, 3), np.float32),
    }
    algorithm = learner_of(spec, discrete)
    algorithm.take([lone_fragment(discrete_fragment.meta, tensors)])
    assert [algorithm.replay() for _ in range(2)] == [True, False]
    algorithm = learner_of(spec, HOPPER)
    algorithm.take([sampled()])
    assert [algorithm.replay() for _ in range(20)] == [True] * 19 + [False]


def feed(algorithm: Impact, rounds: int, grouped: bool = True) -> None:
    """Rounds of three fragments that arrive out of order, with replay in between."""
    for k in range(1, rounds + 1):
        algorithm.begin_round(k, 20)
        fragments = [sampled(slot, seed=k, resumed=k > 1) for slot in (2, 0, 1)]
        for part in [fragments] if grouped else [fragments[:1], fragments[1:]]:
            algorithm.take(part)
        algorithm.replay()
        algorithm.end_round(k)


@pytest.mark.parametrize("preset", ["paper", "tuned", "artifact"])
def test_an_equal_feed_gives_equal_bits_however_it_is_grouped(preset: str) -> None:
    first, second = impact(preset), impact(preset)
    feed(first, 3)
    feed(second, 3, grouped=False)
    assert torch.equal(parameters(first), parameters(second))
    assert torch.isfinite(parameters(first)).all()
    expected, again = (one.weights()[DEFAULT_POLICY] for one in (first, second))
    assert expected.meta == again.meta
    assert all(np.array_equal(tensor, again.tensors[name]) for name, tensor in expected.tensors.items())


@pytest.mark.parametrize("preset", ["paper", "tuned"])
def test_a_restored_algorithm_continues_equally_once_its_buffer_is_empty(preset: str) -> None:
    options = {"bufferUses": 2, "bufferBatches": 1, "learningRateAnneal": True}
    first = impact(preset, **options)
    feed(first, 3)
    while first.replay():
        pass
    second = impact(preset, **options)
    second.load_state_dict(first.state_dict())
    rates = []
    for algorithm in (first, second):
        algorithm.begin_round(4, 20)
        algorithm.take([sampled(seed=9, resumed=True), sampled(1, seed=9, resumed=True)])
        algorithm.replay()
        rates.append(algorithm.end_round(4)[DEFAULT_POLICY].stats["learning_rate"])
    assert torch.equal(parameters(first), parameters(second))
    states = first.state_dict(), second.state_dict()
    assert states[0]["passes"] == states[1]["passes"]
    assert rates == pytest.approx([0.85 * first.settings.learning_rate] * 2)


def test_loading_a_state_drops_batches_that_were_sampled_since() -> None:
    options = {"batchSize": 128, "bufferUses": 2}
    algorithm = impact(**options)
    before = copy.deepcopy(algorithm.state_dict())
    fresh = impact(**options)
    # A batch of two fragments that may be drawn once more, and one that waits for another.
    algorithm.take([sampled(slot, seed=8) for slot in range(3)])
    algorithm.load_state_dict(before)
    assert not algorithm.replay()
    for each in (algorithm, fresh):
        each.take([sampled(slot, seed=9) for slot in range(2)])
        each.replay()
    assert torch.equal(parameters(algorithm), parameters(fresh))
    assert (
        algorithm.end_round(1)[DEFAULT_POLICY].surrogate.size
        == fresh.end_round(1)[DEFAULT_POLICY].surrogate.size
        == 2 * 64
    )


def test_it_learns_from_images() -> None:
    env = make_env(EnvironmentConfig("colours", 3, {}, "learner_environments:Colours", frame_stack=2))
    layers = [{"channels": 3, "kernel": 4, "stride": 2}]
    settings = {"algorithm__name": "impact", "network__hiddenSizes": [4], "network__convLayers": layers}
    algorithm = learner_of(
        job(**settings, **{HYPER + "batchSize": 0}).spec, DescribedEnvironment.from_json(env.spec.to_json())
    )
    policy = policies_of(algorithm.weights()[DEFAULT_POLICY], env.spec)
    before = parameters(algorithm)
    for slot in range(2):
        tensors = rollout(env, policy, seed=slot, steps=60, state={})
        algorithm.take([lone_fragment({"slot": slot, "resumed": False}, tensors)])
    assert algorithm.replay()
    surrogate = algorithm.end_round(1)[DEFAULT_POLICY].surrogate
    assert not torch.equal(parameters(algorithm), before)
    assert Detector(GivenScaling(), 0, 100).measure(surrogate, 1).ratio is not None


def test_a_state_of_ppo_is_refused() -> None:
    state = impact().state_dict() | {"network": {"kind": "other"}}
    with pytest.raises(ValueError, match="the state is of the network"):
        impact().load_state_dict(state)


# The round's end.


def test_the_surrogate_is_the_rounds_at_the_updated_policy() -> None:
    algorithm = impact(standardiseAdvantages="batch")  # otherwise the loss has other advantages
    algorithm.take([sampled(slot, seed=1) for slot in range(2)])
    algorithm.end_round(1)
    fragments = [sampled(slot, seed=2) for slot in range(3)]
    algorithm.take(fragments)
    result = algorithm.end_round(2)[DEFAULT_POLICY]
    assert result.surrogate.size == 3 * 64
    function = result.surrogate.function("clip", torch.arange(3 * 64))
    value = sum(term().item() for term in function.terms)
    assert value == pytest.approx(-result.stats["policy_loss"], rel=1e-4, abs=1e-6)
    before = algorithm.parameters.clone()
    with torch.no_grad():
        function.parameters[0].add_(1.0)
    assert not torch.equal(algorithm.parameters, before), "who moves the parameters moves the policy"
    assert set(result.stats) == {
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


def test_the_kl_penalty_is_to_the_target_network_and_adapts() -> None:
    algorithm = impact(targetUpdateFrequency=1e6, learningRate=0.05)
    coefficient = algorithm.policy.kl_coefficient
    algorithm.take([sampled()])
    stats = algorithm.end_round(1)[DEFAULT_POLICY].stats
    assert stats["kl"] > 2 * algorithm.settings.kl_target
    assert algorithm.policy.kl_coefficient == 1.5 * coefficient


def test_diverged_weights_are_an_error() -> None:
    algorithm = impact(learningRate=1.0, maxGradNorm=0)
    with torch.no_grad():
        algorithm.parameters.fill_(math.nan)
    algorithm.take([sampled()])
    with pytest.raises(FloatingPointError, match="round 1: the weights became infinite or NaN"):
        algorithm.end_round(1)


def test_observation_statistics_change_between_rounds_only() -> None:
    algorithm = impact("tuned")
    algorithm.take([sampled()])
    before = algorithm.weights()[DEFAULT_POLICY].tensors["observation.mean"]
    assert np.array_equal(before, np.zeros(11))
    algorithm.end_round(1)
    assert not np.array_equal(algorithm.weights()[DEFAULT_POLICY].tensors["observation.mean"], before)
