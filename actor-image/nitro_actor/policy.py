"""The policy in numpy: observation normalisation and network, for E observations."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nitro_actor import masks, wire
from nitro_actor.actions import ActionSpace
from nitro_actor.environment import EnvironmentSpec
from nitro_actor.matmul import Floats
from nitro_actor.memory import Gru, memory_parameters, memory_size
from nitro_actor.networks import ACTIVATIONS, NETWORKS, Network, Specs, linear, linear_parameters
from nitro_actor.protocol.weights import PolicyWeights

LOG_STD_RANGE = (-20.0, 2.0)
"""Range that a log standard deviation is clamped to, in the actor as in the learner."""

_LOWEST, _HIGHEST = (np.float32(bound) for bound in LOG_STD_RANGE)


class Policy:
    """A network with its head.

    Attributes:
        actions: the environment's action space, for samples and their probabilities.
        memory_size: H, numbers that the policy remembers of an episode; 0 without a recurrent layer.
    """

    def __init__(self, weights: PolicyWeights, spec: EnvironmentSpec) -> None:
        """Build from weights.

        Raises:
            WireError: they do not fit the environment, or hold NaN.
        """
        _check(weights, spec)
        network, tensors = weights.network, weights.tensors
        self.actions = spec.action
        self._network: Network = NETWORKS[network["kind"]](network, tensors, spec.observation_shape)
        self.memory_size = memory_size(network)
        self._gru = Gru([tensors]) if self.memory_size else None
        self._head = linear(tensors, "policy.head")
        # The log std is clamped once if it is a parameter, and in every distribution if it depends on the
        # state.
        self._log_std = (
            np.clip(tensors["policy.log_std"], _LOWEST, _HIGHEST) if "policy.log_std" in tensors else None
        )
        self._normalise = "observation.mean" in tensors
        if self._normalise:
            self._mean = tensors["observation.mean"].astype(np.float32)
            self._scale = np.sqrt(tensors["observation.var"] + 1e-8).astype(np.float32)
            self._clip = np.float32(np.inf if weights.observation_clip is None else weights.observation_clip)

    def distribution(
        self,
        observations: np.ndarray,
        out: Floats,
        memory: Floats | None = None,
        available: NDArray[np.bool_] | None = None,
    ) -> None:
        """Write the action distribution of each observation.

        Args:
            observations: [E, *shape], f32 or u8, raw.
            out: f32 [E, P]; `nitro_actor.actions` says what the parameters are.
            memory: f32 [E, H] before the observation, and after the call with it; needed where H is not 0.
            available: bool [E, C], see `nitro_actor.masks`; None where all actions are.
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
            out[:, len(bias) :] = self._log_std
        elif self.actions.head == "gaussian":
            log_std = out[:, self.actions.outputs :]
            np.minimum(log_std, _HIGHEST, out=log_std)
            np.maximum(log_std, _LOWEST, out=log_std)
        if available is not None:
            masks.apply(available, self.actions, out)


def _check(weights: PolicyWeights, spec: EnvironmentSpec) -> None:
    """Check that the weights fit their network and the environment."""
    network, tensors = weights.network, weights.tensors
    if network.get("kind") not in NETWORKS:
        raise wire.WireError(f"weights: network {network!r} is unknown; known kinds: {sorted(NETWORKS)}")
    check_layers(network)
    for name, needed in spec.action.network().items():
        if network.get(name) != needed:
            raise wire.WireError(
                f"weights: {name} {network.get(name)!r}, but the environment needs {needed!r}"
            )
    shape = spec.observation_shape
    layers, width = NETWORKS[network["kind"]].parameters(network, shape)
    head, _ = head_parameters(network, width, spec.action)
    wire.check(tensors, layers | head | statistics_parameters(tensors, shape))


def check_layers(network: Mapping[str, Any]) -> None:
    """Check the widths and the activation of a network's description.

    Raises:
        WireError
    """
    hidden = network.get("hidden")
    if not isinstance(hidden, list) or not all(type(n) is int and n > 0 for n in hidden):
        raise wire.WireError(f"weights: hidden {hidden!r} must be a list of widths")
    if network.get("activation") not in ACTIVATIONS:
        raise wire.WireError(f"weights: activation {network.get('activation')!r} is unknown")


def head_parameters(network: Mapping[str, Any], width: int, actions: ActionSpace) -> tuple[Specs, int]:
    """Names and shapes of what follows a network's layers, a recurrent layer and the head; and the number of
    features that the head sees.

    Args:
        width: features of the layers.

    Raises:
        WireError: the description is wrong.
    """
    expected, width = memory_parameters(network, width)
    continuous = actions.head == "gaussian"
    per_state = continuous and network.get("logStd") == "state"
    expected |= linear_parameters("policy.head", width, 2 * actions.outputs if per_state else actions.outputs)
    if continuous and not per_state:
        expected["policy.log_std"] = wire.TensorSpec("float32", (actions.outputs,))
    return expected, width


def statistics_parameters(tensors: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> Specs:
    """Names and shapes of the normalisation's statistics: both, if there is one of them."""
    names = ("observation.mean", "observation.var")
    return {name: wire.TensorSpec("float64", shape) for name in names} if tensors.keys() & names else {}
