"""Algorithms of one agent with masked actions: the loss, its gradient and its curvature see what is left."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import actor_support
from actor_support import environment, policies_of
from learner_support import (
    by_autograd,
    by_hand,
    learner_of,
    lone_fragment,
    module_of,
    parts_of,
    plain,
    samples_of,
)
from masked_environments import SIZES
from nitro_actor.environment import Environment
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.protocol.state import bare
from nitro_actor.protocol.weights import DEFAULT_POLICY
from nitro_api import JobInvalid, load_job, resolve
from nitro_api.spec.scaling import GivenScaling
from nitro_learner.algorithms.impact.learning import Impact
from nitro_learner.algorithms.ppo.loss import Coefficients, terms
from nitro_learner.boosting.detector import Detector
from nitro_learner.boosting.gradient_noise import gradient_noise
from nitro_learner.data.batch import Fragment
from train_support import job

pytestmark = pytest.mark.usefixtures("one_thread")

STEPS, ENVS = 128, 2
KINDS = list(SIZES)


def masked(kind: str, stack: int = 1) -> Environment:
    return environment(
        "doors", ENVS, "masked_environments:Doors", kind=kind, form="method", frame_stack=stack
    )


def learner(env: Environment, name: str = "ppo", memory: bool = False, **hyper: Any) -> Any:
    recurrent = {"recurrent": {"cell": "gru", "hiddenSize": 6}} if memory else {}
    settings = {"epochs": 2, "minibatchSize": 64, **hyper}
    source = job(
        environment={
            "entryPoint": "masked_environments:Doors",
            "rolloutLength": STEPS,
            "envsPerActor": ENVS,
            "frameStack": env.spec.classes[0].observation["stack"],
        },
        algorithm={"name": name, "hyperparameters": settings},
        network={"hiddenSizes": [16], "type": "mlp", **recurrent},
    )
    return learner_of(resolve(load_job(source)).spec, DescribedEnvironment.from_json(env.spec.to_json()))


def sampled(algorithm: Any, env: Environment, seed: int, state: Any = None) -> tuple[Fragment, Any]:
    policy = policies_of(algorithm.weights()[DEFAULT_POLICY], env.spec)
    tensors = actor_support.rollout(env, policy, seed=seed, steps=STEPS, state=state or {})
    return lone_fragment({"slot": 0, "resumed": bool(state)}, tensors), bare(tensors)


def by_torch(params: Tensor, actions: Tensor, available: Tensor, kind: str) -> tuple[Tensor, Tensor]:
    """Log-probabilities and entropies of independent categoricals over what is left, in float64.

    A bit is a categorical over 0 and 1, whose logits are 0 and its own.
    """
    if kind == "MultiBinary":
        params = torch.stack([torch.zeros_like(params), params], -1).flatten(1)
    actions = actions[:, None] if kind == "Discrete" else actions
    log_probs, entropies = [], []
    for part, mask, action in zip(
        torch.split(params.double(), SIZES[kind], 1),
        torch.split(available, SIZES[kind], 1),
        actions.unbind(1),
        strict=True,
    ):
        one = torch.distributions.Categorical(logits=part.masked_fill(~mask, -torch.inf))
        log_probs.append(one.log_prob(action))
        entropies.append(-(one.probs * one.probs.clamp(min=1e-300).log()).sum(-1))
    return torch.stack(log_probs).sum(0), torch.stack(entropies).sum(0)


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_sees_the_distribution_that_is_left(kind: str) -> None:
    env = masked(kind)
    algorithm = learner(env)
    fragment, _ = sampled(algorithm, env, 1)
    samples = samples_of(algorithm, [fragment])
    assert samples.available is not None
    assert not samples.available.all()
    outputs = module_of(algorithm).policy(samples.observations).detach()
    family = parts_of(algorithm)[0].family
    params = family.masked(outputs, samples.available)
    log_probs, entropies = by_torch(outputs, samples.actions, samples.available, kind)
    np.testing.assert_allclose(family.log_prob(params, samples.actions), log_probs, atol=1e-5)
    np.testing.assert_allclose(samples.log_probs, log_probs, atol=1e-5)
    np.testing.assert_allclose(family.entropy(params), entropies, atol=1e-5)
    c = Coefficients(clip=0.2, kl=0.3, entropy=0.05, value=0.5, value_clip=1e9)
    values = module_of(algorithm).critic(samples.observations)[:, 0].detach()
    found = terms(samples, params, values, family, c)
    np.testing.assert_allclose(found.kl, 0, atol=1e-5)
    assert not found.clipped.any()


@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_by_hand_is_autograds(kind: str) -> None:
    env = masked(kind)
    algorithm = learner(env)
    samples = samples_of(algorithm, [sampled(algorithm, env, 1)[0]])
    with torch.no_grad():  # away from the policy that sampled, so that no term is 0
        parameters = parts_of(algorithm)[1]
        parameters += 0.1 * torch.randn(parameters.shape, generator=torch.Generator().manual_seed(1))
    c = Coefficients(clip=0.2, kl=0.3, entropy=0.05, value=0.5, value_clip=1e9)
    expected = by_autograd(algorithm, c, samples)
    torch.testing.assert_close(by_hand(algorithm, c, samples, chunk=50), expected, rtol=1e-4, atol=1e-6)
    part = samples.rows(torch.arange(3)).with_advantages(torch.ones(3)).parts(2)[0]
    assert part.available is not None
    assert part.available.tolist() == samples.available[:2].tolist()  # type: ignore[index]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("name", "memory"), [("ppo", False), ("ppo", True), ("impact", False)])
def test_rounds_go_on_and_have_a_boosting_ratio(kind: str, name: str, memory: bool) -> None:
    """The environment raises where a forbidden action is taken."""
    env = masked(kind, stack=2)
    algorithm = learner(env, name, memory)
    state = None
    for round in range(1, 4):
        algorithm.begin_round(round, 3)
        fragment, state = sampled(algorithm, env, round, state)
        if name == "impact":
            algorithm.take([fragment])
            result = algorithm.end_round(round)[DEFAULT_POLICY]
        else:
            result = algorithm.update([fragment], round)[DEFAULT_POLICY]
        assert 0 < result.stats["entropy"] < np.log(SIZES[kind]).sum()
        assert np.isfinite(list(result.stats.values())).all()
        assert Detector(GivenScaling(), 0, 64).measure(result.surrogate, round).ratio is not None
        assert gradient_noise(result.surrogate.trajectories("total")) is not None


def test_impact_weighs_by_masked_probabilities() -> None:
    """Before any update its target policy is the one that sampled: all ratios are 1."""
    env = masked("MultiDiscrete")
    algorithm = learner(env, "impact")
    assert isinstance(algorithm, Impact)
    fragment, _ = sampled(algorithm, env, 1)
    from nitro_learner.algorithms.impact.learning import _Sampled

    samples, _ = algorithm.samples([_Sampled(fragment, plain(fragment)["rewards"])])
    np.testing.assert_allclose(samples.log_probs, plain(fragment)["log_probs"].reshape(-1), atol=1e-5)
    sent = plain(fragment)["distribution"].reshape(STEPS, -1)
    np.testing.assert_allclose(samples.distribution, sent, atol=1e-5)
    assert (np.asarray(samples.distribution) == -1e9).any()


def test_the_best_return_is_found() -> None:
    """The observation shows the last choice that is allowed; a step pays 1 for it."""
    env = masked("Discrete")
    algorithm = learner(env, learningRate=1e-2)
    state = None
    for round in range(1, 31):
        fragment, state = sampled(algorithm, env, round, state)
        algorithm.update([fragment], round)
    policy = policies_of(algorithm.weights()[DEFAULT_POLICY], env.spec)
    played = actor_support.evaluate(env, policy, seed=1, episodes=40, max_steps=100)
    assert played["episode_returns"].sum() > 0.95 * played["episode_lengths"].sum()


def test_rllib_takes_no_masks() -> None:
    from nitro_learner.algorithms import availability

    spec = resolve(load_job(job(algorithm={"name": "rllib/ppo"}))).spec
    with pytest.raises(
        JobInvalid, match=r"rllib/ppo.*takes no action masks, and the environment has them; take ppo"
    ):
        availability.check_actions(spec, DescribedEnvironment.from_json(masked("Discrete").spec.to_json()))
