"""A trained policy as one PyTorch module: raw observations to actions, with everything between inside.

It computes what `nitro_actor.policy` and `nitro_actor.agents.policies` compute in NumPy. It is written with
plain PyTorch operators, because torch.export follows those.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nitro_actor.agents.policies import UNAVAILABLE
from nitro_actor.policy import LOG_STD_RANGE
from nitro_actor.protocol.agents import AgentClass
from nitro_actor.protocol.weights import PolicyWeights


class PolicyModule(nn.Module):
    """The policy of one agent.

    `forward` takes observations [B, *shape] as the environment gives them, f32 or u8, and returns

        actions       the most probable or most valuable ones: f32 [B, A] within their bounds, or i64 [B],
                      counted from 0
        distribution  f32 [B, P]: mean and log standard deviation, logits, or Q values

    Of several agents with discrete actions it also takes `available`, bool [B, N].
    """

    mean: Tensor
    scale: Tensor
    identity: Tensor
    log_std: Tensor
    low: Tensor
    high: Tensor

    def __init__(self, weights: PolicyWeights, one: AgentClass, agent: str) -> None:
        """
        Args:
            weights: the agent's.
            one: the class of the agent.
            agent: its name.
        """
        super().__init__()
        network, action = weights.network, one.action
        tensors = {name: torch.from_numpy(np.array(array)) for name, array in weights.tensors.items()}
        self._relu = network["activation"] == "relu"
        self._continuous = action["kind"] == "continuous"
        self._actions: int = action["size" if self._continuous else "n"]
        shape = tuple(one.observation["shape"])
        self._image = (*shape, 1)[:3] if network["kind"] == "conv" else ()
        self._normalised = "observation.mean" in tensors
        if self._normalised:
            self.register_buffer("mean", tensors["observation.mean"].float())
            self.register_buffer("scale", (tensors["observation.var"] + 1e-8).sqrt().float())
        self._clip = math.inf if weights.observation_clip is None else float(weights.observation_clip)
        ids = network.get("agentIds")
        self._identified = ids is not None
        if ids is not None:
            self.register_buffer("identity", torch.eye(ids)[one.agents.index(agent)][None])
        self.convolutions = nn.ModuleList()
        size = self._image[:2]
        for index, layer in enumerate(network.get("convolutions") or ()):
            padded = _PaddedConvolution(layer, size, tensors, f"policy.convolutions.layers.{index}")
            self.convolutions.append(padded)
            size = padded.output
        self.layers = nn.ModuleList(
            _linear(tensors, f"policy.layers.{index}") for index in range(len(network["hidden"]))
        )
        self.head = _linear(tensors, "policy.head")
        self.value = _linear(tensors, "policy.value") if network.get("dueling") else None
        self._fixed_std = "policy.log_std" in tensors
        if self._fixed_std:
            self.register_buffer("log_std", tensors["policy.log_std"].clamp(*LOG_STD_RANGE)[None])
        if self._continuous:
            self.register_buffer("low", _bounds(action["low"], -math.inf))
            self.register_buffer("high", _bounds(action["high"], math.inf))

    def forward(self, observation: Tensor, available: Tensor | None = None) -> tuple[Tensor, Tensor]:
        features = self._features(observation)
        distribution = self._distribution(features)
        if available is not None:
            distribution = torch.where(available, distribution, float(UNAVAILABLE))
        if not self._continuous:
            return distribution.argmax(-1), distribution
        mean = distribution[:, : self._actions]
        return torch.minimum(torch.maximum(mean, self.low), self.high), distribution

    def _features(self, observation: Tensor) -> Tensor:
        x = observation
        if self._normalised:
            x = ((x.float() - self.mean) / self.scale).clamp(-self._clip, self._clip)
        if self._image:
            scaled = x.float() / 255 if x.dtype == torch.uint8 else x.float()
            x = scaled.reshape(-1, *self._image).permute(0, 3, 1, 2)
            for layer in self.convolutions:
                x = self._activated(layer(x))
        x = x.flatten(1).float()
        if self._identified:
            x = torch.cat([x, self.identity.expand(x.shape[0], -1)], 1)
        for layer in self.layers:
            x = self._activated(layer(x))
        return x

    def _distribution(self, features: Tensor) -> Tensor:
        output: Tensor = self.head(features)
        if self.value is not None:
            value: Tensor = self.value(features)
            return value + output - output.mean(1, keepdim=True)
        if not self._continuous:
            return output
        log_std = output[:, self._actions :].clamp(*LOG_STD_RANGE)
        if self._fixed_std:
            log_std = self.log_std.expand(output.shape[0], -1)
        return torch.cat([output[:, : self._actions], log_std], 1)

    def _activated(self, x: Tensor) -> Tensor:
        return torch.relu(x) if self._relu else torch.tanh(x)


class _PaddedConvolution(nn.Module):
    """A convolution with the zeros around its image.

    Attributes:
        output: height and width of what comes out.
    """

    weight: Tensor
    bias: Tensor

    def __init__(self, layer: dict[str, Any], size: tuple[int, ...], tensors: dict[str, Tensor], name: str):
        super().__init__()
        kernel, stride = layer["kernel"], layer["stride"]
        same = layer["padding"] == "same"
        zeros = [max((math.ceil(n / stride) - 1) * stride + kernel - n, 0) if same else 0 for n in size]
        self.output = tuple((n + z - kernel) // stride + 1 for n, z in zip(size, zeros, strict=True))
        # Left, right, above, below; an odd zero comes last.
        self._zeros = [part for z in reversed(zeros) for part in (z // 2, z - z // 2)]
        self._stride = stride
        self.register_buffer("weight", tensors[f"{name}.weight"])
        self.register_buffer("bias", tensors[f"{name}.bias"])

    def forward(self, x: Tensor) -> Tensor:
        padded = nn.functional.pad(x, self._zeros) if any(self._zeros) else x
        return torch.conv2d(padded, self.weight, self.bias, self._stride)


def _linear(tensors: dict[str, Tensor], name: str) -> nn.Linear:
    weight = tensors[f"{name}.weight"]
    layer = nn.Linear(weight.shape[1], weight.shape[0])
    layer.weight = nn.Parameter(weight, requires_grad=False)
    layer.bias = nn.Parameter(tensors[f"{name}.bias"], requires_grad=False)
    return layer


def _bounds(values: list[float | None], missing: float) -> Tensor:
    return torch.tensor([[missing if value is None else value for value in values]], dtype=torch.float32)
