"""The policy in numpy: network, observation normalisation, action distribution, for E observations at once.

A new kind of network (a convolutional one, say) is a class with `parameters` and `__call__` like `Mlp`, and
an entry in `NETWORKS`.
"""

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from nitro_actor import wire
from nitro_actor.environment import EnvironmentSpec

Floats = NDArray[np.float32]
Tensors = Mapping[str, np.ndarray]

LOG_STD_RANGE = (-20.0, 2.0)
"""Range that a log standard deviation is clamped to, in the actor as in the learner."""

_LOWEST, _HIGHEST = (np.float32(bound) for bound in LOG_STD_RANGE)

_ACTIVATIONS: dict[str, Callable[..., Floats]] = {
    "tanh": np.tanh,
    "relu": lambda x, out: np.maximum(x, np.float32(0), out=out),
}


class Network(Protocol):
    """Observations f32 [E, *shape] -> features f32 [E, width]. The next call may overwrite them."""

    width: int

    def __call__(self, observations: Floats) -> Floats: ...


class Mlp:
    """Fully connected layers with one activation.

    Network metadata: {"hidden": [widths], "activation": "tanh" | "relu"}; tensors policy.layers.{i}.weight
    (out, in) and policy.layers.{i}.bias, f32.
    """

    def __init__(self, network: Mapping[str, Any], tensors: Tensors) -> None:
        self.width = int(network["hidden"][-1])
        self._activation = _ACTIVATIONS[network["activation"]]
        self._layers = [_linear(tensors, f"policy.layers.{i}") for i in range(len(network["hidden"]))]
        self._buffers: list[Floats] = []

    @staticmethod
    def parameters(network: Mapping[str, Any], inputs: int) -> dict[str, wire.TensorSpec]:
        """Names and shapes of the tensors."""
        widths = [inputs, *network["hidden"]]
        return {
            name: spec
            for i, (fan_in, fan_out) in enumerate(itertools.pairwise(widths))
            for name, spec in _linear_parameters(f"policy.layers.{i}", fan_in, fan_out).items()
        }

    def __call__(self, observations: Floats) -> Floats:
        rows = len(observations)
        if not self._buffers or len(self._buffers[0]) != rows:
            self._buffers = [np.empty((rows, weight.shape[1]), np.float32) for weight, _ in self._layers]
        features = observations.reshape(rows, -1)
        for (weight, bias), buffer in zip(self._layers, self._buffers, strict=True):
            np.matmul(features, weight, out=buffer)
            np.add(buffer, bias, out=buffer)
            features = self._activation(buffer, out=buffer)
        return features


NETWORKS = {"mlp": Mlp}


class Policy:
    """A network with its head.

    Attributes:
        version: of the weights.
        parameters_per_action: P, the width of the distribution: mean and log std, or logits.
    """

    def __init__(self, meta: Mapping[str, Any], tensors: Tensors, spec: EnvironmentSpec) -> None:
        """Build from a decoded weights container.

        Raises:
            WireError: it does not fit the environment, or holds NaN.
        """
        network = _check(meta, tensors, spec)
        self.version: int = meta["version"]
        self._actions = spec.action_size
        self._continuous = spec.continuous
        self._network: Network = NETWORKS[network["kind"]](network, tensors)
        self._head = _linear(tensors, "policy.head")
        # Clamped once where it is a parameter, in every distribution where it depends on the state.
        self._log_std = (
            np.clip(tensors["policy.log_std"], _LOWEST, _HIGHEST) if "policy.log_std" in tensors else None
        )
        self.parameters_per_action = 2 * spec.action_size if spec.continuous else spec.action_size
        self._normalise = "observation.mean" in tensors
        if self._normalise:
            self._mean = tensors["observation.mean"].astype(np.float32)
            self._scale = np.sqrt(tensors["observation.var"] + 1e-8).astype(np.float32)
            self._clip = np.float32(meta.get("observationClip") or np.inf)

    def distribution(self, observations: np.ndarray, out: Floats) -> None:
        """Write the action distribution of each observation.

        Args:
            observations: [E, *shape], f32 or u8, raw.
            out: f32 [E, P]: mean and log std, or logits.
        """
        inputs = observations.astype(np.float32, copy=False)
        if self._normalise:
            inputs = inputs - self._mean
            np.divide(inputs, self._scale, out=inputs)
            np.minimum(inputs, self._clip, out=inputs)
            np.maximum(inputs, -self._clip, out=inputs)
        features = self._network(inputs)
        weight, bias = self._head
        np.add(features @ weight, bias, out=out[:, : len(bias)])
        if self._log_std is not None:
            out[:, self._actions :] = self._log_std
        elif self._continuous:
            log_std = out[:, self._actions :]
            np.minimum(log_std, _HIGHEST, out=log_std)
            np.maximum(log_std, _LOWEST, out=log_std)

    def noise(self, generator: np.random.Generator, steps: int, copies: int) -> Floats:
        """All random numbers of a rollout, drawn at once: standard normal [L, E, A], or Gumbel [L, E, N]."""
        shape = (steps, copies, self._actions)
        if self._continuous:
            return generator.standard_normal(shape, np.float32)
        return generator.gumbel(size=shape).astype(np.float32)

    def sample(self, distribution: Floats, noise: Floats, out: np.ndarray) -> None:
        """Write actions: f32 [E, A], not clipped, or i64 [E] (by the Gumbel-max trick)."""
        if not self._continuous:
            np.argmax(distribution + noise, axis=-1, out=out)
            return
        np.exp(distribution[:, self._actions :], out=out)
        np.multiply(out, noise, out=out)
        np.add(out, distribution[:, : self._actions], out=out)

    def mode(self, distribution: Floats) -> np.ndarray:
        """The most probable actions: f32 [E, A] or i64 [E]."""
        if not self._continuous:
            chosen: NDArray[np.int64] = np.argmax(distribution, axis=-1)
            return chosen
        return distribution[:, : self._actions]

    def log_probabilities(self, distribution: Floats, actions: np.ndarray) -> Floats:
        """Log probability of each action, f32 [...], over any leading axes."""
        if not self._continuous:
            logits = distribution - distribution.max(axis=-1, keepdims=True)
            chosen = np.take_along_axis(logits, actions[..., None], axis=-1)[..., 0]
            result: Floats = chosen - np.log(np.exp(logits).sum(axis=-1))
            return result
        mean, log_std = distribution[..., : self._actions], distribution[..., self._actions :]
        deviation = (actions - mean) / np.exp(log_std)
        each = -0.5 * np.square(deviation) - log_std - np.float32(0.5 * math.log(2 * math.pi))
        total: Floats = each.sum(axis=-1)
        return total


def _check(meta: Mapping[str, Any], tensors: Tensors, spec: EnvironmentSpec) -> Mapping[str, Any]:
    """The network's description, after comparing the container with what it and the environment ask for."""
    network = meta.get("network")
    if not isinstance(network, dict) or network.get("kind") not in NETWORKS:
        raise wire.WireError(f"weights: network {network!r} is unknown; known kinds: {sorted(NETWORKS)}")
    hidden = network.get("hidden")
    if not isinstance(hidden, list) or not hidden or not all(type(n) is int and n > 0 for n in hidden):
        raise wire.WireError(f"weights: hidden {hidden!r} must be a list of at least one width")
    if network.get("activation") not in _ACTIVATIONS:
        raise wire.WireError(f"weights: activation {network.get('activation')!r} is unknown")
    head = "gaussian" if spec.continuous else "categorical"
    if network.get("head") != head:
        raise wire.WireError(f"weights: head {network.get('head')!r}, but the environment needs {head!r}")
    if type(meta.get("version")) is not int:
        raise wire.WireError("weights: the version is missing")
    per_state = spec.continuous and network.get("logStd") == "state"
    outputs = 2 * spec.action_size if per_state else spec.action_size
    shape = spec.observation_shape
    expected = NETWORKS[network["kind"]].parameters(network, math.prod(shape))
    expected |= _linear_parameters("policy.head", hidden[-1], outputs)
    if spec.continuous and not per_state:
        expected["policy.log_std"] = wire.TensorSpec("float32", (spec.action_size,))
    if "observation.mean" in tensors or "observation.var" in tensors:
        expected["observation.mean"] = wire.TensorSpec("float64", shape)
        expected["observation.var"] = wire.TensorSpec("float64", shape)
    wire.check(tensors, expected)
    return network


def _linear_parameters(name: str, fan_in: int, fan_out: int) -> dict[str, wire.TensorSpec]:
    return {
        f"{name}.weight": wire.TensorSpec("float32", (fan_out, fan_in)),
        f"{name}.bias": wire.TensorSpec("float32", (fan_out,)),
    }


def _linear(tensors: Tensors, name: str) -> tuple[Floats, Floats]:
    """Weight as (in, out), contiguous: what a product with few rows is fastest with. And bias."""
    return np.ascontiguousarray(tensors[f"{name}.weight"].T), tensors[f"{name}.bias"]
