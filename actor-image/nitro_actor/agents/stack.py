"""Policies of one shape that compute together: one batched product for a layer of all of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nitro_actor.actions import action_space
from nitro_actor.matmul import Floats
from nitro_actor.memory import Gru, memory_size
from nitro_actor.networks import ACTIVATIONS, linear
from nitro_actor.policy import LOG_STD_RANGE
from nitro_actor.protocol.agents import AgentClass
from nitro_actor.protocol.weights import PolicyWeights
from nitro_actor.scratch import Scratch


class Stack:
    """p policies of one shape that serve k agents of a class each."""

    def __init__(
        self, one: AgentClass, policies: Sequence[PolicyWeights], agents: Sequence[Sequence[int]], count: int
    ) -> None:
        network = policies[0].network
        self._agents = np.array(agents)
        p = len(self._agents)
        self._size = int(np.prod(one.observation["shape"]))
        actions = action_space(one.action)
        self._outputs, self._continuous = actions.outputs, actions.head == "gaussian"
        self._count, self._ids = count, network.get("agentIds") or 0
        self._activation = ACTIVATIONS[network["activation"]]
        self._layers = [_linear(policies, f"policy.layers.{i}") for i in range(len(network["hidden"]))]
        self._scratch = Scratch()
        self._gru = Gru([one.tensors for one in policies]) if memory_size(network) else None
        self._head = _linear(policies, "policy.head")
        self._value = _linear(policies, "policy.value") if network.get("dueling") else None
        self._log_std = None
        if "policy.log_std" in policies[0].tensors:
            log_std = np.stack([policy.tensors["policy.log_std"] for policy in policies])
            self._log_std = np.clip(log_std, *LOG_STD_RANGE)[:, None].astype(np.float32)
        self._normalise = "observation.mean" in policies[0].tensors
        if self._normalise:
            means = [policy.tensors["observation.mean"] for policy in policies]
            scales = [np.sqrt(policy.tensors["observation.var"] + 1e-8) for policy in policies]
            self._mean, self._scale = (
                np.stack(rows).reshape(p, 1, 1, -1).astype(np.float32) for rows in (means, scales)
            )
            clips = [np.inf if one.observation_clip is None else one.observation_clip for one in policies]
            self._clip = np.array(clips, np.float32).reshape(p, 1, 1, 1)

    def __call__(self, observations: np.ndarray, out: Floats, memory: Floats | None) -> None:
        """Write the distribution of the stack's agents; the arguments hold those of all agents."""
        scratch = self._scratch
        if scratch.arrays is None:
            scratch.arrays = self._buffers()
        inputs, features, layers = scratch.arrays
        p, count, k, _ = inputs.shape
        rows = observations.reshape(count, -1, self._size)[:, self._agents]  # [E, p, k, D]
        inputs[...] = rows.transpose(1, 0, 2, 3)
        if self._normalise:
            np.subtract(inputs, self._mean, out=inputs)
            np.divide(inputs, self._scale, out=inputs)
            np.minimum(inputs, self._clip, out=inputs)
            np.maximum(inputs, -self._clip, out=inputs)
        for weight, bias, buffer in layers:
            np.matmul(features, weight, out=buffer)
            np.add(buffer, bias, out=buffer)
            features = self._activation(buffer, out=buffer)
        if self._gru is not None:
            assert memory is not None, "the policies have a memory"
            before = memory[:, self._agents].swapaxes(0, 1)  # [p, E, k, H]
            features = self._gru(features, before.reshape(p, count * k, -1))
            memory[:, self._agents] = features.reshape(before.shape).swapaxes(0, 1)
        result = self._result(features)
        out[:, self._agents] = result.reshape(p, count, k, -1).swapaxes(0, 1)

    def _buffers(self) -> tuple[Floats, Floats, list[tuple[Floats, Floats, Floats]]]:
        """Observations f32 [p, E, k, D]; what the first layer sees f32 [p, E k, D + ids], of which they are a
        view; and each layer's weight, bias and output."""
        (p, k), count = self._agents.shape, self._count
        whole = np.zeros((p, count, k, self._size + self._ids), np.float32)
        if self._ids:
            whole[..., self._size :] = np.eye(self._ids, dtype=np.float32)[self._agents][:, None]
        layers = [
            (weight, bias, np.empty((p, count * k, bias.shape[-1]), np.float32))
            for weight, bias in self._layers
        ]
        return whole[..., : self._size], whole.reshape(p, count * k, -1), layers

    def _result(self, features: Floats) -> Floats:
        """Distributions f32 [p, E k, P]."""
        weight, bias = self._head
        result: Floats = features @ weight + bias
        if self._value is not None:
            weight, bias = self._value
            result -= result.mean(axis=-1, keepdims=True)
            result += features @ weight + bias
        if not self._continuous:
            return result
        if self._log_std is not None:
            return np.concatenate([result, np.broadcast_to(self._log_std, result.shape)], axis=-1)
        np.clip(result[..., self._outputs :], *LOG_STD_RANGE, out=result[..., self._outputs :])
        return result


def shape_of(weights: PolicyWeights) -> tuple[Any, ...]:
    """The properties that policies must have in common to be stacked."""
    network = weights.network
    described = (network.get(name) for name in ("activation", "head", "dueling", "agentIds", "logStd"))
    return (tuple(network["hidden"]), memory_size(network), *described, tuple(sorted(weights.tensors)))


def _linear(policies: Sequence[PolicyWeights], name: str) -> tuple[Floats, Floats]:
    """Weights [p, in, out] and biases [p, 1, out]."""
    weights, biases = zip(*(linear(policy.tensors, name) for policy in policies), strict=True)
    return np.stack(weights), np.stack(biases)[:, None]
