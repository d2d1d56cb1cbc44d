"""Policies of one shape that compute together: one batched product for a layer of all of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nitro_actor import onnx
from nitro_actor.actions import LOG_STD_RANGE, Continuous, policy_space
from nitro_actor.matmul import Floats
from nitro_actor.memory import Gru, memory_size
from nitro_actor.networks import NETWORKS, linear
from nitro_actor.protocol.agents import AgentClass
from nitro_actor.protocol.weights import PolicyWeights
from nitro_actor.scratch import Scratch

_LOWEST, _HIGHEST = (np.float32(bound) for bound in LOG_STD_RANGE)


class Stack:
    """p policies of one shape that serve k agents of a class each.

    The arrays inside are [p, E k, ...]. The policy of an environment of one agent does without the first
    axis: gathering its rows would cost time, its network may be one for images, and its products may be cut
    into blocks (`nitro_actor.matmul`).
    """

    def __init__(
        self, agent_class: AgentClass, policies: Sequence[PolicyWeights], places: Sequence[Sequence[int]]
    ) -> None:
        """
        Args:
            places: of the agents that each policy serves, in the class.
        """
        network, tensors = policies[0].network, policies[0].tensors
        limits = [policy.observation_clip for policy in policies]
        clip = np.array([np.inf if limit is None else limit for limit in limits], np.float32)
        shape: tuple[int, ...] = tuple(agent_class.observation["shape"])
        lead: tuple[int, ...] = ()
        self._places, self._ids = None, 0
        if agent_class.mortal:
            self._places, self._ids = np.array(places), network.get("agentIds") or 0
            tensors = {name: np.stack([policy.tensors[name] for policy in policies]) for name in tensors}
            shape, lead = (int(np.prod(shape)),), (len(policies), 1, 1)
        self._agents, self._shape = len(agent_class.agents), shape
        actions = policy_space(agent_class.action, network["head"])
        self._parameters = actions.parameters
        self._deviates = isinstance(actions, Continuous) and actions.parameters > actions.outputs
        seen = (shape[0] + self._ids,) if self._ids else shape
        self._network = NETWORKS[network["kind"]](network, tensors, seen)
        self._gru = Gru(tensors) if memory_size(network) else None
        # What a network of the user's own gives are the head's outputs.
        self._head = None if network["kind"] == onnx.KIND else linear(tensors, "policy.head")
        self._value = linear(tensors, "policy.value") if network.get("dueling") else None
        # The log std is clamped once if it is a parameter, and in every distribution if it depends on the
        # state.
        self._log_std = None
        if "policy.log_std" in tensors:
            log_std = np.clip(tensors["policy.log_std"], _LOWEST, _HIGHEST)
            self._log_std = log_std[:, None] if agent_class.mortal else log_std
        self._normalise = "observation.mean" in tensors
        if self._normalise:
            mean, scale = tensors["observation.mean"], np.sqrt(tensors["observation.var"] + 1e-8)
            self._mean = mean.reshape((*lead, *shape)).astype(np.float32)
            self._scale = scale.reshape((*lead, *shape)).astype(np.float32)
            self._clip = clip.reshape(-1, 1, 1, 1) if agent_class.mortal else clip[0]
        self._scratch = Scratch()

    def __call__(self, observations: np.ndarray, out: Floats, memory: Floats | None) -> None:
        """Write the distribution of the stack's agents; the arguments hold those of all agents."""
        if self._places is None:
            inputs = self._normalised(observations) if self._normalise else observations
            features = self._network(inputs)
            self._write(features if self._gru is None else self._remember(features, memory), out)
            return
        scratch = self._scratch
        if scratch.key != observations.size:
            scratch.key, scratch.arrays = observations.size, self._buffers(observations, self._places)
        inputs, seen, result = scratch.arrays
        rows = observations.reshape(-1, self._agents, *self._shape)[:, self._places]  # [E, p, k, D]
        inputs[...] = rows.transpose(1, 0, 2, 3)
        if self._normalise:
            self._normalised(inputs, inputs)
        features = self._network(seen)
        self._write(features if self._gru is None else self._remember(features, memory), result)
        p, count, k, _ = inputs.shape
        shown = result.reshape(p, count, k, -1).swapaxes(0, 1)
        out.reshape(count, self._agents, -1)[:, self._places] = shown

    def _buffers(self, observations: np.ndarray, places: np.ndarray) -> tuple[Floats, Floats, Floats]:
        """Normalised observations f32 [p, E, k, D]; what the network sees f32 [p, E k, D + ids], of which
        they are a view; and distributions f32 [p, E k, P]."""
        (p, k), (size,) = places.shape, self._shape
        count = observations.size // (self._agents * size)
        inputs = np.zeros((p, count, k, size + self._ids), np.float32)
        if self._ids:
            inputs[..., size:] = np.eye(self._ids, dtype=np.float32)[places][:, None]
        result = np.empty((p, count * k, self._parameters), np.float32)
        return inputs[..., :size], inputs.reshape(p, count * k, -1), result

    def _normalised(self, observations: np.ndarray, out: Floats | None = None) -> Floats:
        result: Floats = np.subtract(observations, self._mean, out=out)
        np.divide(result, self._scale, out=result)
        np.minimum(result, self._clip, out=result)
        np.maximum(result, -self._clip, out=result)
        return result

    def _remember(self, features: Floats, memory: Floats | None) -> Floats:
        """Take the features into the agents' memories, and return what the layer makes of them."""
        assert self._gru is not None
        assert memory is not None, "the policies have a memory"
        if self._places is None:
            memory[...] = remembered = self._gru(features, memory)
            return remembered
        by_agent = memory.reshape(-1, self._agents, memory.shape[-1])
        before = by_agent[:, self._places].swapaxes(0, 1)  # [p, E, k, H]
        remembered = self._gru(features, before.reshape(*features.shape[:2], -1))
        by_agent[:, self._places] = remembered.reshape(before.shape).swapaxes(0, 1)
        return remembered

    def _write(self, features: Floats, out: Floats) -> None:
        """Write distributions [..., P]."""
        if self._head is None:
            width = features.shape[-1]
            out[..., :width] = features
        else:
            weight, bias = self._head
            width = weight.shape[-1]
            np.add(features @ weight, bias, out=out if width == self._parameters else out[..., :width])
        if self._value is not None:
            weight, bias = self._value
            out -= out.mean(axis=-1, keepdims=True)
            out += features @ weight + bias
        if self._log_std is not None:
            out[..., width:] = self._log_std
        elif self._deviates:
            log_std = out[..., width // 2 :]
            np.minimum(log_std, _HIGHEST, out=log_std)
            np.maximum(log_std, _LOWEST, out=log_std)


def shape_of(weights: PolicyWeights) -> tuple[Any, ...]:
    """The properties that policies must have in common to be stacked."""
    network = weights.network
    described = (network.get(name) for name in ("activation", "head", "dueling", "agentIds", "logStd"))
    return (
        tuple(network.get("hidden", ())),
        memory_size(network),
        *described,
        tuple(sorted(weights.tensors)),
    )
