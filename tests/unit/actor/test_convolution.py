"""Convolutions against plain loops in f64, and refusal of descriptions that do not fit."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from actor_support import action_of, policy_of, spec_of
from nitro_actor import wire
from nitro_actor.actions import Discrete
from nitro_actor.environment import EnvironmentSpec
from nitro_actor.protocol.weights import PolicyWeights

Layers = list[dict[str, Any]]

PAPER: Layers = [
    {"channels": 4, "kernel": 8, "stride": 4, "padding": "same"},
    {"channels": 5, "kernel": 4, "stride": 2, "padding": "same"},
    {"channels": 6, "kernel": 3, "stride": 1, "padding": "valid"},
]
SMALL: Layers = [
    {"channels": 3, "kernel": 3, "stride": 2, "padding": "valid"},
    {"channels": 2, "kernel": 2, "stride": 1, "padding": "same"},
]
ODD: Layers = [{"channels": 2, "kernel": 5, "stride": 3, "padding": "same"}]


def container(
    spec: EnvironmentSpec,
    layers: Layers,
    hidden: list[int],
    *,
    activation: str = "relu",
    normalise: bool = False,
) -> PolicyWeights:
    """Random weights; the sizes between the layers by counting the places of a filter."""
    rng = np.random.default_rng(0)
    tensors: dict[str, np.ndarray] = {}
    height, width, channels = (*spec.classes[0].observation["shape"], 1)[:3]
    for i, layer in enumerate(layers):
        kernel = layer["kernel"]
        weight = rng.normal(0, 0.3, (layer["channels"], channels, kernel, kernel))
        tensors[f"policy.convolutions.layers.{i}.weight"] = weight.astype(np.float32)
        tensors[f"policy.convolutions.layers.{i}.bias"] = rng.normal(0, 0.1, layer["channels"]).astype(
            np.float32
        )
        over = kernel - 1 if layer["padding"] == "valid" else 0
        height, width = (len(range(0, n - over, layer["stride"])) for n in (height, width))
        channels = layer["channels"]
    sizes = [height * width * channels, *hidden]
    for i, (fan_in, fan_out) in enumerate(zip(sizes[:-1], hidden, strict=True)):
        tensors[f"policy.layers.{i}.weight"] = rng.normal(0, 0.3, (fan_out, fan_in)).astype(np.float32)
        tensors[f"policy.layers.{i}.bias"] = rng.normal(0, 0.1, fan_out).astype(np.float32)
    outputs = action_of(spec).outputs
    tensors["policy.head.weight"] = rng.normal(0, 0.3, (outputs, sizes[-1])).astype(np.float32)
    tensors["policy.head.bias"] = rng.normal(0, 0.1, outputs).astype(np.float32)
    if normalise:
        tensors["observation.mean"] = rng.uniform(50, 200, spec.classes[0].observation["shape"])
        tensors["observation.var"] = rng.uniform(100, 5000, spec.classes[0].observation["shape"])
    network = {"kind": "conv", "convolutions": layers, "hidden": hidden, "activation": activation}
    network |= {"head": "categorical", "logStd": "parameter"}
    return PolicyWeights(network, tensors, 10.0)


def recomputed(weights: PolicyWeights, observations: np.ndarray) -> np.ndarray:
    """The head's outputs, place by place and filter by filter."""
    network, tensors, clip = weights.network, weights.tensors, weights.observation_clip
    act = np.tanh if network["activation"] == "tanh" else lambda x: np.maximum(x, 0)
    outputs = []
    for observation in observations:
        x = observation.astype(np.float64)
        if "observation.mean" in tensors:
            x = (x - tensors["observation.mean"]) / np.sqrt(tensors["observation.var"] + 1e-8)
            x = np.clip(x, -clip, clip)
        elif observation.dtype == np.uint8:
            x /= 255
        x = x.reshape(*x.shape[:2], -1)
        for i, layer in enumerate(network["convolutions"]):
            weight = tensors[f"policy.convolutions.layers.{i}.weight"].astype(np.float64)
            bias = tensors[f"policy.convolutions.layers.{i}.bias"]
            kernel, stride = layer["kernel"], layer["stride"]
            if layer["padding"] == "same":
                pads = []
                for n in x.shape[:2]:
                    total = max((-(-n // stride) - 1) * stride + kernel - n, 0)
                    pads.append((total // 2, total - total // 2))
                x = np.pad(x, (*pads, (0, 0)))
            rows, columns = (range(0, n - kernel + 1, stride) for n in x.shape[:2])
            places = [[x[r : r + kernel, c : c + kernel] for c in columns] for r in rows]
            x = act(np.array([[np.einsum("yxc,fcyx->f", p, weight) + bias for p in row] for row in places]))
        x = x.transpose(2, 0, 1).reshape(-1)
        for i in range(len(network["hidden"])):
            x = act(tensors[f"policy.layers.{i}.weight"] @ x + tensors[f"policy.layers.{i}.bias"])
        outputs.append(tensors["policy.head.weight"] @ x + tensors["policy.head.bias"])
    return np.array(outputs)


@pytest.mark.parametrize(
    ("shape", "layers", "hidden", "activation", "normalise", "dtype"),
    [
        ((20, 19, 4), PAPER, [], "relu", False, "uint8"),
        ((36, 40, 4), PAPER, [7], "relu", False, "uint8"),
        ((9, 8, 3), SMALL, [5, 4], "tanh", False, "uint8"),
        ((9, 8, 3), SMALL, [], "tanh", True, "uint8"),
        ((9, 8), SMALL, [5], "relu", False, "float32"),
        ((10, 10, 2), ODD, [3], "relu", True, "float32"),
    ],
)
def test_equals_plain_loops(
    shape: tuple[int, ...], layers: Layers, hidden: list[int], activation: str, normalise: bool, dtype: str
) -> None:
    spec = spec_of("test", shape, dtype, Discrete(4))
    weights = container(spec, layers, hidden, activation=activation, normalise=normalise)
    policy = policy_of(weights, spec)
    rng = np.random.default_rng(1)
    for rows in (3, 3, 1):  # used buffers, then other ones
        observations = rng.integers(0, 256, (rows, *shape)).astype(dtype)
        if dtype == "float32":
            observations /= 50
        # Stacks of frames are not contiguous.
        views = np.moveaxis(np.ascontiguousarray(np.moveaxis(observations, -1, 1)), 1, -1)
        expected = recomputed(weights, observations)
        for given in (observations, views):
            actual = np.empty((rows, 4), np.float32)
            policy.distribution(given, None, actual)
            np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=5e-5 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"convolutions": []}, "at least one layer"),
        ({"convolutions": [SMALL[0] | {"kernel": 0}]}, "whole channels, kernel and stride"),
        ({"convolutions": [SMALL[0] | {"padding": "full"}]}, "same or valid"),
        ({"convolutions": [SMALL[0] | {"kernel": 10}]}, "larger than its image"),
        ({"convolutions": [SMALL[0], SMALL[1] | {"channels": 3}]}, "layers.1.weight: shape"),
        ({"convolutions": SMALL[:1]}, "not expected"),
        ({"hidden": [4]}, "policy.layers.0.weight: shape"),
        ({"kind": "mlp"}, "not expected"),
    ],
)
def test_refuses_descriptions_that_do_not_fit(change: dict[str, Any], message: str) -> None:
    spec = spec_of("test", (9, 8, 3), "uint8", Discrete(4))
    weights = container(spec, SMALL, [5])
    with pytest.raises(wire.WireError, match=message):
        policy_of(replace(weights, network={**weights.network, **change}), spec)


def test_refuses_observations_that_are_no_images() -> None:
    spec = spec_of("test", (9, 8, 3), "uint8", Discrete(4))
    vector = spec_of("test", (216,), "uint8", Discrete(4))
    with pytest.raises(wire.WireError, match="no images"):
        policy_of(container(spec, SMALL, [5]), vector)
