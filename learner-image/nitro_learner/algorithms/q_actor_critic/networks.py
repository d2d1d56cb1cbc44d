"""Networks of critics and policies, stacked, whose parameters lie in one tensor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from nitro_learner.algorithms.adam import Adam, AdamState
from nitro_learner.networks.images import Activation, Weights
from nitro_learner.networks.kernels import tanh
from nitro_learner.networks.stacked import StackedPerceptron


class Networks:
    """The shape of P networks that compute together: hidden layers, then one linear head.

    Attributes:
        layout: where each layer lies in a row of parameters.
    """

    def __init__(
        self,
        inputs: int,
        hidden: Sequence[int],
        outputs: int,
        activation: Activation,
        *,
        layer_norm: bool = False,
    ) -> None:
        """
        Args:
            inputs: of the first layer.
            hidden: units of each hidden layer.
            outputs: of the head.
            activation: of the hidden layers.
            layer_norm: whether each hidden layer is normalised before its activation. The normalisation has
                no parameters.
        """
        self.layout = StackedPerceptron(inputs, hidden, {"head": outputs}, activation)
        self._activation, self._layer_norm = activation, layer_norm

    def __call__(self, layers: Weights, x: Tensor) -> Tensor:
        """Outputs [P, B, outputs] of inputs [P or 1, B, inputs]; with a graph where `layers` ask for one."""
        *hidden, head = layers
        for weight, bias in hidden:
            z = _linear(x, weight, bias)
            if self._layer_norm:
                z = functional.layer_norm(z, z.shape[-1:])
            x = torch.relu_(z) if self._activation == "relu" else tanh(z)
        return _linear(x, *head)


class Trained:
    """P networks of one shape, their target networks and Adam's moments.

    Attributes:
        shape: of the networks.
        parameters: f32 [P, n].
        targets: f32 [P, n].
    """

    def __init__(
        self, shape: Networks, rows: Sequence[tuple[Tensor, Tensor, AdamState]], adam_epsilon: float
    ) -> None:
        """
        Args:
            shape: of the networks.
            rows: the parameters, the target's and Adam's state of each network; copied.
            adam_epsilon: Adam's epsilon.
        """
        self.shape = shape
        self.parameters = torch.stack([parameters for parameters, _, _ in rows])
        self.targets = torch.stack([targets for _, targets, _ in rows])
        self._adam = Adam(self.parameters, [adam for _, _, adam in rows], adam_epsilon)
        self.layers = shape.layout.layers(self.parameters)
        """The parameters by layer, as views without a graph."""
        self.target_layers = shape.layout.layers(self.targets)
        self.leaves = [
            (weight.detach().requires_grad_(), bias.detach().requires_grad_()) for weight, bias in self.layers
        ]
        """The parameters by layer, as views that gradients are taken by."""

    def step(self, loss: Tensor, rate: float) -> None:
        """Take Adam's step down the loss."""
        flat = [leaf for layer in self.leaves for leaf in layer]
        gradients = torch.autograd.grad(loss, flat)
        count = len(self.parameters)
        self._adam.step(torch.cat([gradient.reshape(count, -1) for gradient in gradients], 1), rate)

    @torch.no_grad()
    def follow(self, tau: float) -> None:
        """Let the target networks follow by a share tau of the way (Polyak averaging)."""
        self.targets.lerp_(self.parameters, tau)

    def finite(self) -> bool:
        """Whether all parameters are finite."""
        return bool(torch.isfinite(self.parameters).all())

    def state_dict(self) -> dict[str, Any]:
        """The state for a checkpoint, by network."""
        return {
            str(row): {
                "parameters": self.parameters[row].cpu().clone(),
                "targets": self.targets[row].cpu().clone(),
                "adam": adam.state_dict(),
            }
            for row, adam in enumerate(self._adam.states())
        }

    def loaded(self, state: Mapping[str, Any], adam_epsilon: float) -> Trained:
        """Networks that continue from `state_dict()`.

        Raises:
            ValueError: the state has other networks.
        """
        rows = []
        for row, own in enumerate(self.parameters):
            saved = state.get(str(row))
            if saved is None or len(saved["parameters"]) != len(own):
                raise ValueError(f"network {row} of the state is missing or has another number of parameters")
            parameters, targets = (torch.as_tensor(saved[name]).to(own) for name in ("parameters", "targets"))
            rows.append((parameters, targets, AdamState.of(saved["adam"], str(own.device))))
        return Trained(self.shape, rows, adam_epsilon)


def fresh(
    shape: Networks, count: int, generator: torch.Generator, adam_epsilon: float, device: str
) -> Trained:
    """Networks as a run begins with them, each with its own parameters."""
    rows = []
    for _ in range(count):
        row = shape.layout.initial(generator, orthogonal=False, head_gains={}).to(device)
        rows.append((row, row, AdamState.fresh(len(row), device)))
    return Trained(shape, rows, adam_epsilon)


def _linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x W^T + b of each network."""
    if len(weight) == 1:
        return torch.addmm(bias[0], x[0], weight[0].t())[None]
    return torch.baddbmm(bias[:, None], x.expand(len(weight), -1, -1), weight.transpose(1, 2))
