"""The heads squashedGaussian and tanh: actions in [-1, 1] that stand for the environment's bounds."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from actor_support import Alone, environment, evaluate, policies_of, rollout, weights
from nitro_actor import wire
from nitro_actor.config import EnvironmentConfig
from nitro_actor.environment import Environment
from nitro_actor.make_env import make_env
from nitro_actor.policy import Policies
from nitro_actor.protocol.agents import AgentClass
from nitro_actor.protocol.weights import PolicyWeights, WeightsContainer
from nitro_actor.rollout import random_sources
from parallel_environments import mlp
from scaled_environments import BEST, HIGH, LOW
from squashed_support import HEADS, squashing


def wide(**settings: Any) -> Environment:
    """Three environments with actions from -500 to 1500; rewards tell the distance of an action from 900."""
    return make_env(EnvironmentConfig("test", 3, {}, "scaled_environments:Wide", **settings))


def outputs(policy: PolicyWeights, observations: np.ndarray) -> np.ndarray:
    """Of the head, in float64."""
    t = {name: array.astype(float) for name, array in policy.tensors.items()}
    x = (observations - t["observation.mean"]) / np.sqrt(t["observation.var"] + 1e-8)
    for i in range(2):
        x = np.tanh(x @ t[f"policy.layers.{i}.weight"].T + t[f"policy.layers.{i}.bias"])
    result: np.ndarray = x @ t["policy.head.weight"].T + t["policy.head.bias"]
    return result


def sampled(env: Any, policy: PolicyWeights, seed: int = 3, steps: int = 600) -> Any:
    made = policies_of(policy, env.spec)
    return rollout(env, made, seed=seed, steps=steps, state={}, optional_tensors=())


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("rescale", [False, True], ids=["plain", "rescaleActions"])
def test_actions_are_squashed_and_stand_for_the_bounds(head: str, rescale: bool) -> None:
    env = wide(rescale_actions=rescale)
    policy = squashing(env.spec, head)
    fragment = sampled(env, policy)
    noise = np.random.Generator(np.random.PCG64(random_sources(3, 3)[1])).standard_normal(
        (200, 3, 1), np.float32
    )
    found = outputs(policy, fragment["observations"])
    if head == "tanh":
        expected = np.clip(np.tanh(found) + 0.7 * noise, -1, 1)
        assert (abs(expected) == 1).any(), "noise leads over the bounds"
    else:
        mean, log_std = np.split(found, 2, axis=-1)
        expected = np.tanh(mean + np.exp(np.clip(log_std, -20, 2)) * noise)
    actions = fragment["actions"]
    assert actions.dtype == np.float32
    np.testing.assert_allclose(actions, expected, atol=1e-5)
    there = LOW + (actions.astype(float) + 1) / 2 * (HIGH - LOW)
    np.testing.assert_allclose(fragment["rewards"], -abs(there[..., 0] - BEST) / BEST, atol=1e-5)
    assert not {"distribution", "log_probs"} & fragment.keys()


@pytest.mark.parametrize("head", HEADS)
def test_an_evaluation_plays_the_tanh_of_the_means(head: str) -> None:
    env = wide()
    told = []
    for changes in ({}, {"uniform": True}):
        made = policies_of(squashing(env.spec, head, **changes), env.spec)
        told.append(evaluate(env, made, seed=0, episodes=1, max_steps=100)["episode_returns"])
    seen = np.array([[0.1 * t, 0.5] for t in range(10)])
    best = np.tanh(outputs(squashing(env.spec, head), seen)[:, 0])
    expected = -abs(LOW + (best + 1) / 2 * (HIGH - LOW) - BEST).sum() / BEST
    np.testing.assert_allclose(told, expected, rtol=1e-5)


@pytest.mark.parametrize("head", HEADS)
def test_uniform_actions_fill_the_range_and_are_repeated(head: str) -> None:
    env = wide()
    policy = squashing(env.spec, head, uniform=True)
    first, again, other = (sampled(env, policy, seed, 1800)["actions"] for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert (first != other).mean() > 0.99
    shares = np.histogram(first, bins=10, range=(-1, 1))[0] / first.size
    np.testing.assert_allclose(shares, 0.1, atol=0.03)
    spread = np.abs(np.corrcoef(first[:-1].reshape(-1), first[1:].reshape(-1))[0, 1])
    assert spread < 0.1, "one step's draw says nothing of the next"
    assert (sampled(env, squashing(env.spec, head))["actions"] != first[:200]).mean() > 0.99


def test_agents_of_a_class_have_noise_of_their_own() -> None:
    observation = {"shape": [5], "dtype": "float32", "frame": [5], "stack": 1}
    action = {"kind": "continuous", "size": 2, "low": [0.0, -3.0], "high": [1.0, 3.0]}
    one = AgentClass("a", ("a_0", "a_1", "a_2"), observation, action, mortal=True)
    described = ({"noise": 0.0}, {"noise": 0.05}, {"noise": 0.0, "uniform": True})
    networks = {f"a_{i}": mlp(5, 2, i, head="tanh", **changes) for i, changes in enumerate(described)}
    agents = {name: name for name in networks}
    made = Policies(WeightsContainer("r", 1, networks, agents), (one,)).classes["a"]
    seen = np.random.default_rng(0).normal(size=(4 * 3, 5)).astype(np.float32)
    distribution = np.empty((12, 2), np.float32)
    made.distribution(seen, None, distribution)
    noise = made.noise(np.random.default_rng(0), 500, 4)
    actions = np.empty((500, 12, 2), np.float32)
    for t in range(500):
        made.sample(distribution, noise, t, None, actions[t])
    quiet, noisy, uniform = actions.reshape(500, 4, 3, 2).transpose(2, 0, 1, 3)
    means = np.tanh(distribution).reshape(4, 3, 2)
    np.testing.assert_array_equal(quiet, np.tile(means[:, 0], (500, 1, 1)))
    inside = abs(noisy) < 1
    assert np.std((noisy - means[:, 1])[inside]) == pytest.approx(0.05, abs=0.003)
    assert uniform.std() == pytest.approx(3**-0.5, abs=0.02)
    mixed = {**networks, "a_1": mlp(5, 4, 1, head="squashedGaussian")}
    with pytest.raises(wire.WireError, match=r"of several heads, \['squashedGaussian', 'tanh'\]"):
        Policies(WeightsContainer("r", 1, mixed, agents), (one,))


@pytest.mark.parametrize(
    ("head", "changes", "text"),
    [
        ("tanh", {"noise": None}, "noise None is no number from 0 to 10"),
        ("tanh", {"noise": 11}, "noise 11 is no number"),
        ("tanh", {"noise": True}, "noise True is no number"),
        ("tanh", {"uniform": "yes"}, "uniform 'yes' of a head 'tanh'"),
        ("tanh", {"head": "gaussian", "uniform": True}, "uniform True of a head 'gaussian'"),
        ("tanh", {"head": "squashedGaussian"}, r"policy.head.weight: shape \[1, 16\] instead of \[2, 16\]"),
        ("squashedGaussian", {"head": "tanh", "noise": 0}, r"shape \[2, 16\] instead of \[1, 16\]"),
        ("squashedGaussian", {"dueling": True}, "dueling True of a head 'squashedGaussian'"),
    ],
)
def test_descriptions_that_do_not_fit_are_refused(head: str, changes: dict[str, Any], text: str) -> None:
    spec = wide().spec
    with pytest.raises(wire.WireError, match=text):
        policies_of(squashing(spec, head, **changes), spec)


def test_actions_without_bounds_or_of_whole_numbers_are_refused() -> None:
    env = make_env(EnvironmentConfig("test", 1, {"high": np.inf}, "scaled_environments:Wide"))
    with pytest.raises(
        wire.WireError, match=r"needs actions with finite bounds, and actions\[0\] is from -500"
    ):
        policies_of(squashing(env.spec, "tanh"), env.spec)
    cartpole = environment("CartPole-v1", 1).spec
    with pytest.raises(
        wire.WireError, match=r"head 'tanh', but the actions need one of \('categorical', 'q'\)"
    ):
        policies_of(
            replace(weights(cartpole), network={**weights(cartpole).network, **HEADS["tanh"]}), cartpole
        )


def test_distributions_are_not_told() -> None:
    env = wide()
    made = policies_of(squashing(env.spec, "squashedGaussian"), env.spec)
    with pytest.raises(wire.WireError, match=r"\['log_probs'\], which policies of a head 'squashedGaussian'"):
        rollout(env, made, seed=0, steps=30, state={}, optional_tensors=("log_probs",))


def test_a_rollout_goes_on_to_the_bit() -> None:
    """On the engine for MuJoCo, whose bounds are not -1 and 1."""
    env = Alone(make_env(EnvironmentConfig("Humanoid-v5", 1)))
    policy = squashing(env.spec, "squashedGaussian")
    first = sampled(env, policy, steps=20)
    state = {name.removeprefix("state/"): array for name, array in first.items() if name.startswith("state/")}
    assert state
    fragments = []
    for fresh in (env, Alone(make_env(EnvironmentConfig("Humanoid-v5", 1)))):
        made = policies_of(policy, fresh.spec)
        fragments.append(rollout(fresh, made, seed=7, steps=20, state=state, optional_tensors=()))
    for name, array in fragments[0].items():
        np.testing.assert_array_equal(array, fragments[1][name])
    assert abs(fragments[0]["actions"]).max() > 0.4, "beyond the environment's own bounds"
