"""The policy in numpy: network, observation normalisation, action distribution, for E observations."""

import math

import numpy as np
from numpy.typing import NDArray

from nitro_actor import wire
from nitro_actor.environment import EnvironmentSpec
from nitro_actor.matmul import Floats
from nitro_actor.memory import Gru, memory_parameters, memory_size
from nitro_actor.networks import ACTIVATIONS, NETWORKS, Network, linear, linear_parameters
from nitro_actor.protocol.weights import PolicyWeights

LOG_STD_RANGE = (-20.0, 2.0)
"""Range that a log standard deviation is clamped to, in the actor as in the learner."""

_LOWEST, _HIGHEST = (np.float32(bound) for bound in LOG_STD_RANGE)


class Policy:
    """A network with its head.

    Attributes:
        parameters_per_action: P, the width of the distribution: mean and log std, or logits.
        memory_size: H, numbers that the policy remembers of an episode; 0 without a recurrent layer.
    """

    def __init__(self, weights: PolicyWeights, spec: EnvironmentSpec) -> None:
        """Build from weights.

        Raises:
            WireError: they do not fit the environment, or hold NaN.
        """
        _check(weights, spec)
        network, tensors = weights.network, weights.tensors
        self._actions = spec.action_size
        self._continuous = spec.continuous
        self._network: Network = NETWORKS[network["kind"]](network, tensors, spec.observation_shape)
        self.memory_size = memory_size(network)
        self._gru = Gru([tensors]) if self.memory_size else None
        self._head = linear(tensors, "policy.head")
        # The log std is clamped once if it is a parameter, and in every distribution if it depends on the
        # state.
        self._log_std = (
            np.clip(tensors["policy.log_std"], _LOWEST, _HIGHEST) if "policy.log_std" in tensors else None
        )
        self.parameters_per_action = 2 * spec.action_size if spec.continuous else spec.action_size
        self._normalise = "observation.mean" in tensors
        if self._normalise:
            self._mean = tensors["observation.mean"].astype(np.float32)
            self._scale = np.sqrt(tensors["observation.var"] + 1e-8).astype(np.float32)
            self._clip = np.float32(np.inf if weights.observation_clip is None else weights.observation_clip)

    def distribution(self, observations: np.ndarray, out: Floats, memory: Floats | None = None) -> None:
        """Write the action distribution of each observation.

        Args:
            memory: f32 [E, H] before the observation, and after the call with it; needed where H is not 0.
            observations: [E, *shape], f32 or u8, raw.
            out: f32 [E, P]: mean and log std, or logits.
        """
        inputs = observations
        if self._normalise:
            inputs = inputs.astype(np.float32, copy=False) - self._mean
            np.divide(inputs, self._scale, out=inputs)
            np.minimum(inputs, self._clip, out=inputs)
            np.maximum(inputs, -self._clip, out=inputs)
        features = self._network(inputs)
        if self._gru is not None:
            assert memory is not None, "the policy has a memory"
            memory[...] = features = self._gru(features[None], memory[None])[0]
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
            chosen: Floats = np.take_along_axis(log_softmax(distribution), actions[..., None], axis=-1)[
                ..., 0
            ]
            return chosen
        return gaussian_log_probabilities(distribution, actions)


def log_softmax(logits: Floats) -> Floats:
    """Log probabilities of discrete actions, f32 [..., N]."""
    shifted = logits - logits.max(axis=-1, keepdims=True)
    result: Floats = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return result


def gaussian_log_probabilities(distribution: Floats, actions: np.ndarray) -> Floats:
    """Log density of actions f32 [..., A] under means and log standard deviations f32 [..., 2 A]."""
    mean, log_std = np.split(distribution, 2, axis=-1)
    deviation = (actions - mean) / np.exp(log_std)
    each = -0.5 * np.square(deviation) - log_std - np.float32(0.5 * math.log(2 * math.pi))
    total: Floats = each.sum(axis=-1)
    return total


def _check(weights: PolicyWeights, spec: EnvironmentSpec) -> None:
    """Check that the weights fit their network and the environment."""
    network, tensors = weights.network, weights.tensors
    if network.get("kind") not in NETWORKS:
        raise wire.WireError(f"weights: network {network!r} is unknown; known kinds: {sorted(NETWORKS)}")
    hidden = network.get("hidden")
    if not isinstance(hidden, list) or not all(type(n) is int and n > 0 for n in hidden):
        raise wire.WireError(f"weights: hidden {hidden!r} must be a list of widths")
    if network.get("activation") not in ACTIVATIONS:
        raise wire.WireError(f"weights: activation {network.get('activation')!r} is unknown")
    head = "gaussian" if spec.continuous else "categorical"
    if network.get("head") != head:
        raise wire.WireError(f"weights: head {network.get('head')!r}, but the environment needs {head!r}")
    per_state = spec.continuous and network.get("logStd") == "state"
    outputs = 2 * spec.action_size if per_state else spec.action_size
    shape = spec.observation_shape
    expected, width = NETWORKS[network["kind"]].parameters(network, shape)
    remembered, width = memory_parameters(network, width)
    expected |= remembered | linear_parameters("policy.head", width, outputs)
    if spec.continuous and not per_state:
        expected["policy.log_std"] = wire.TensorSpec("float32", (spec.action_size,))
    if "observation.mean" in tensors or "observation.var" in tensors:
        expected["observation.mean"] = wire.TensorSpec("float64", shape)
        expected["observation.var"] = wire.TensorSpec("float64", shape)
    wire.check(tensors, expected)
