"""The policy against plain recomputation in f64, and refusal of weights that do not fit."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from actor_support import environment, policy_of, weights
from nitro_actor import wire
from nitro_actor.actions import LOG_STD_RANGE
from nitro_actor.environment import EnvironmentSpec
from nitro_actor.protocol.weights import PolicyWeights


@pytest.fixture(scope="module")
def hopper() -> EnvironmentSpec:
    return environment("Hopper-v5", 1).spec


@pytest.fixture(scope="module")
def cartpole() -> EnvironmentSpec:
    return environment("CartPole-v1", 1).spec


def _recomputed(policy: PolicyWeights, observations: np.ndarray) -> np.ndarray:
    """Outputs of the head, in f64."""
    network, tensors, clip = policy.network, policy.tensors, policy.observation_clip
    x = observations.astype(np.float64)
    if "observation.mean" in tensors:
        x = (x - tensors["observation.mean"]) / np.sqrt(tensors["observation.var"] + 1e-8)
        x = np.clip(x, -clip, clip)
    for i in range(len(network["hidden"])):
        x = x @ tensors[f"policy.layers.{i}.weight"].T.astype(float) + tensors[f"policy.layers.{i}.bias"]
        x = np.tanh(x) if network["activation"] == "tanh" else np.maximum(x, 0)
    return x @ tensors["policy.head.weight"].T.astype(float) + tensors["policy.head.bias"]


@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("log_std", ["state", "parameter"])
@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("rows", [1, 8])
def test_gaussian_distribution(
    hopper: EnvironmentSpec, activation: str, log_std: str, normalise: bool, rows: int
) -> None:
    given = weights(hopper, activation=activation, log_std=log_std, normalise=normalise)
    policy = policy_of(given, hopper)
    observations = np.random.default_rng(0).normal(0, 30, (rows, 11)).astype(np.float32)  # some are clipped
    distribution = np.empty((rows, policy.actions.parameters), np.float32)
    for _ in range(2):  # the second call meets used buffers
        policy.distribution(observations, None, distribution)
        expected = _recomputed(given, observations)
        if log_std == "state":
            expected[:, 3:] = np.clip(expected[:, 3:], *LOG_STD_RANGE)
        else:
            expected = np.concatenate([expected, np.tile(given.tensors["policy.log_std"], (rows, 1))], 1)
        np.testing.assert_allclose(distribution, expected, rtol=1e-4, atol=1e-5)


def test_log_std_is_clamped(hopper: EnvironmentSpec) -> None:
    given = weights(hopper)
    given = replace(given, tensors={**given.tensors, "policy.log_std": np.array([-30, 0, 3], np.float32)})
    distribution = np.empty((1, 6), np.float32)
    policy_of(given, hopper).distribution(np.zeros((1, 11), np.float32), None, distribution)
    assert distribution[0, 3:].tolist() == [-20.0, 0.0, 2.0]


def test_gaussian_samples_and_log_probabilities(hopper: EnvironmentSpec) -> None:
    policy = policy_of(weights(hopper), hopper)
    rows = 20_000
    distribution = np.tile(np.array([1, -1, 0, 0, -1, 0.5], np.float32), (rows, 1))
    actions = np.empty((rows, 3), np.float32)
    policy.actions.sample(distribution, policy.actions.noise(np.random.default_rng(0), (rows,)), actions)
    np.testing.assert_allclose(actions.mean(0), [1, -1, 0], atol=0.05)
    np.testing.assert_allclose(actions.std(0), np.exp([0, -1, 0.5]), rtol=0.02)
    std = np.exp(np.array([0, -1, 0.5]))
    density = np.exp(-0.5 * ((actions - [1, -1, 0]) / std) ** 2) / (std * np.sqrt(2 * np.pi))
    found = policy.actions.log_probabilities(distribution, actions)
    np.testing.assert_allclose(found, np.log(density.astype(np.float64)).sum(1), atol=1e-4)
    np.testing.assert_array_equal(policy.actions.mode(distribution)[0], [1, -1, 0])


def test_categorical_samples_and_log_probabilities(cartpole: EnvironmentSpec) -> None:
    policy = policy_of(weights(cartpole), cartpole)
    rows = 20_000
    logits = np.tile(np.array([500.0, 501.0], np.float32), (rows, 1))  # exp of these overflows
    actions = np.empty(rows, np.int64)
    policy.actions.sample(logits, policy.actions.noise(np.random.default_rng(0), (rows,)), actions)
    assert actions.mean() == pytest.approx(1 / (1 + np.exp(-1)), abs=0.01)
    found = policy.actions.log_probabilities(logits.reshape(2, -1, 2), actions.reshape(2, -1))
    expected = np.log(np.where(actions == 1, 1, np.exp(-1)) / (1 + np.exp(-1)))
    np.testing.assert_allclose(found.reshape(-1), expected, atol=1e-5)
    assert policy.actions.mode(logits)[0] == 1


def test_pixels_are_flattened() -> None:
    spec = environment("pixels", 1, "actor_support:Pixels").spec
    given = weights(spec)
    observations = np.random.default_rng(0).integers(0, 256, (3, 4, 4, 1), np.uint8)
    given.tensors["observation.mean"][:] += 128
    distribution = np.empty((3, 4), np.float32)
    policy_of(given, spec).distribution(observations, None, distribution)
    flat = {n: a.reshape(-1) if n.startswith("observation") else a for n, a in given.tensors.items()}
    expected = _recomputed(replace(given, tensors=flat), observations.reshape(3, -1))
    np.testing.assert_allclose(distribution[:, :2], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "transformer"}, "known kinds"),
        ({"hidden": []}, "hidden"),
        ({"hidden": [16, "16"]}, "hidden"),
        ({"hidden": [16, 17]}, r"policy.layers.1.weight: shape \[16, 16\] instead of \[17, 16\]"),
        ({"hidden": [16]}, "policy.layers.1.bias: not expected|policy.layers.1.weight: not expected"),
        ({"activation": "gelu"}, "activation"),
        ({"head": "categorical"}, "need one of .*'gaussian'"),
        ({"logStd": "state"}, "policy.log_std: not expected"),
    ],
)
def test_refuses_networks_that_do_not_fit(
    hopper: EnvironmentSpec, change: dict[str, Any], message: str
) -> None:
    given = weights(hopper)
    with pytest.raises(wire.WireError, match=message):
        policy_of(replace(given, network={**given.network, **change}), hopper)


def test_refuses_nan_and_missing_statistics(hopper: EnvironmentSpec) -> None:
    given = weights(hopper)
    diverged = {**given.tensors, "policy.head.bias": np.full(3, np.nan, np.float32)}
    with pytest.raises(wire.WireError, match=r"policy\.head\.bias: holds NaN"):
        policy_of(replace(given, tensors=diverged), hopper)
    without = {name: array for name, array in given.tensors.items() if name != "observation.var"}
    with pytest.raises(wire.WireError, match=r"observation\.var: missing"):
        policy_of(replace(given, tensors=without), hopper)
