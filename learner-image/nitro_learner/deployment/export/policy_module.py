"""A trained policy as one PyTorch module: raw observations to actions, with everything between inside.

It computes what `nitro_actor.policy` and `nitro_actor.stack` compute in NumPy. It is written with
plain PyTorch operators, because torch.export follows those.
"""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nitro_actor.actions import (
    LOG_STD_RANGE,
    SQUASHED,
    Continuous,
    Discrete,
    MultiBinary,
    MultiDiscrete,
    policy_space,
)
from nitro_actor.protocol.agents import AgentClass
from nitro_actor.protocol.weights import PolicyWeights
from nitro_learner.networks.distributions import distribution_of


class PolicyModule(nn.Module):
    """The policy of one agent.

    `forward` takes observations [B, *shape] as the environment gives them, f32 or u8, and returns

        actions       the most probable or most valuable ones: f32 [B, A] within their bounds; or whole
                      numbers of the environment's own shape and start: of a Discrete space i64 [B], of a
                      MultiDiscrete or MultiBinary one [B, *shape] of its dtype
        distribution  f32 [B, P]: Q values, or the parameters that `nitro_actor.actions` describes

    Where actions are masked, and of several agents with discrete actions, it also takes `available`, bool
    [B, C]: the choices that are allowed, as `nitro_actor.masks` has them.
    """

    mean: Tensor
    scale: Tensor
    identity: Tensor
    log_std: Tensor
    low: Tensor
    high: Tensor
    start: Tensor

    def __init__(self, weights: PolicyWeights, spaces: AgentClass, agent: str) -> None:
        """
        Args:
            weights: the agent's.
            spaces: of the agent.
            agent: its name.
        """
        super().__init__()
        network = weights.network
        space = policy_space(spaces.action, network["head"])
        tensors = {name: torch.from_numpy(np.array(array)) for name, array in weights.tensors.items()}
        self._relu = network["activation"] == "relu"
        self._space = space
        self._family = distribution_of(spaces.action)
        self._squashed = network["head"] in SQUASHED
        self._deviates = isinstance(space, Continuous) and space.parameters > space.outputs
        shape = tuple(spaces.observation["shape"])
        self._image = (*shape, 1)[:3] if network["kind"] == "conv" else ()
        self._normalised = "observation.mean" in tensors
        if self._normalised:
            self.register_buffer("mean", tensors["observation.mean"].float())
            self.register_buffer("scale", (tensors["observation.var"] + 1e-8).sqrt().float())
        self._clip = math.inf if weights.observation_clip is None else float(weights.observation_clip)
        ids = network.get("agentIds")
        self._identified = ids is not None
        if ids is not None:
            self.register_buffer("identity", torch.eye(ids)[spaces.agents.index(agent)][None])
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
        if isinstance(space, Continuous):
            self.register_buffer("low", torch.from_numpy(space.low)[None])
            self.register_buffer("high", torch.from_numpy(space.high)[None])
        self._start = space.start if isinstance(space, Discrete) else 0
        if isinstance(space, MultiDiscrete):
            self.register_buffer("start", torch.tensor([space.start]))

    def forward(self, observation: Tensor, available: Tensor | None = None) -> tuple[Tensor, Tensor]:
        return self._chosen(self._features(observation), available)

    def _chosen(self, features: Tensor, available: Tensor | None) -> tuple[Tensor, Tensor]:
        distribution = self._distribution(features)
        if available is not None:
            distribution = self._family.masked(distribution, available)
        return self._mode(distribution), distribution

    def _mode(self, distribution: Tensor) -> Tensor:
        space = self._space
        if isinstance(space, Continuous):
            mean = distribution[:, : space.outputs]
            if self._squashed:
                mean = torch.tanh(mean)
            if space.rescaled:
                share = (mean.clamp(-1, 1) + 1) * 0.5
                mean = self.low * (1 - share) + self.high * share
            return torch.minimum(torch.maximum(mean, self.low), self.high)
        if isinstance(space, MultiDiscrete):
            parts = torch.split(distribution, list(space.sizes), -1)
            chosen = torch.stack([part.argmax(-1) for part in parts], -1) + self.start
            return chosen.to(getattr(torch, space.native_dtype)).reshape(-1, *space.native_shape)
        if isinstance(space, MultiBinary):
            return (distribution > 0).to(torch.int8).reshape(-1, *space.native_shape)
        return distribution.argmax(-1) + self._start

    def _features(self, observation: Tensor) -> Tensor:
        x = observation
        if self._normalised:
            x = ((x.float() - self.mean) / self.scale).clamp(-self._clip, self._clip)
        if self._image:
            scaled = x.float() / 255 if x.dtype == torch.uint8 else x.float()
            x = scaled.reshape(-1, *self._image).permute(0, 3, 1, 2)
            for layer in self.convolutions:
                x = self._activated(layer(x))
        x = (x.flatten(1) if x.dim() > 1 else x.unsqueeze(1)).float()
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
        if not self._deviates:
            return output
        outputs = self._space.outputs
        log_std = output[:, outputs:].clamp(*LOG_STD_RANGE)
        if self._fixed_std:
            log_std = self.log_std.expand(output.shape[0], -1)
        return torch.cat([output[:, :outputs], log_std], 1)

    def _activated(self, x: Tensor) -> Tensor:
        return torch.relu(x) if self._relu else torch.tanh(x)


class RecurrentPolicyModule(PolicyModule):
    """The policy of one agent with a memory.

    `forward` also takes what the policy remembers before the observations, f32 [B, H], zeros as an episode
    begins, and also returns what it remembers after them.
    """

    weight_ih: Tensor
    weight_hh: Tensor
    bias_ih: Tensor
    bias_hh: Tensor

    def __init__(self, weights: PolicyWeights, spaces: AgentClass, agent: str) -> None:
        """See `PolicyModule`."""
        super().__init__(weights, spaces, agent)
        tensors = {name: torch.from_numpy(np.array(array)) for name, array in weights.tensors.items()}
        for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            self.register_buffer(part, tensors[f"policy.gru.{part}"])

    def forward(  # type: ignore[override]
        self, observation: Tensor, state: Tensor, available: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        seen = nn.functional.linear(self._features(observation), self.weight_ih, self.bias_ih)
        kept = nn.functional.linear(state, self.weight_hh, self.bias_hh)
        (seen_r, seen_z, seen_n), (kept_r, kept_z, kept_n) = seen.chunk(3, 1), kept.chunk(3, 1)
        update = torch.sigmoid(seen_z + kept_z)
        new = torch.tanh(seen_n + torch.sigmoid(seen_r + kept_r) * kept_n)
        after = new + update * (state - new)
        return (*self._chosen(after, available), after)


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
