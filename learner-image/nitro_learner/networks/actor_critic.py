"""Policy and critic: two networks of the same shape, and the meaning of a policy's outputs.

Parameter names are the wire's: policy.convolutions.layers.0.weight, ..., policy.layers.0.weight, ...,
policy.head.weight, policy.head.bias, policy.log_std.

`forward` builds an autograd graph that can be differentiated twice (the detector needs that). Training uses
`trace` and `backpropagate` instead, the same functions with the gradient by hand: half of autograd's time
(bench_learner.py).
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn

from nitro_actor.actions import LOG_STD_RANGE
from nitro_api.spec.network import ConvLayer
from nitro_learner.networks import kernels
from nitro_learner.networks.images import Activation, Convolutions, Image

HeadKind = Literal["gaussian", "categorical", "multiCategorical", "bernoulli"]
LogStd = Literal["state", "parameter"]

LOG_STD_MIN, LOG_STD_MAX = LOG_STD_RANGE


class Perceptron(nn.Module):
    """Hidden layers with an activation, then a linear head: float [n, inputs] -> [n, outputs].

    With convolutions before them the input is their images, and `inputs` is ignored.
    """

    def __init__(
        self,
        inputs: int,
        hidden: list[int],
        outputs: int,
        activation: Activation,
        convolutions: Convolutions | None,
    ) -> None:
        super().__init__()
        sizes = [convolutions.features if convolutions else inputs, *hidden]
        self.activation = activation
        self.convolutions = convolutions
        self.layers = nn.ModuleList(_Linear(i, o) for i, o in pairwise(sizes))
        self.head = _Linear(sizes[-1], outputs)

    def reset(self, generator: torch.Generator, orthogonal: bool, head_gain: float) -> None:
        """Initialise: orthogonal with gain sqrt 2 (the head: `head_gain`) and zero biases, or as nn.Linear
        does."""
        if self.convolutions:
            self.convolutions.reset(generator, orthogonal)
        for layer in self._linears():
            if orthogonal:
                nn.init.orthogonal_(
                    layer.weight, head_gain if layer is self.head else math.sqrt(2), generator
                )
                nn.init.zeros_(layer.bias)
            else:
                bound = 1 / math.sqrt(layer.in_features)
                nn.init.uniform_(layer.weight, -bound, bound, generator)
                nn.init.uniform_(layer.bias, -bound, bound, generator)

    def forward(self, x: Tensor) -> Tensor:
        if self.convolutions:
            x = self.convolutions(x)
        *hidden, head = self._linears()
        for layer in hidden:
            x = kernels.linear(x, layer.weight, layer.bias)
            x = kernels.tanh(x) if self.activation == "tanh" else torch.relu(x)
        return kernels.linear(x, head.weight, head.bias)

    @torch.no_grad()
    def trace(self, x: Tensor) -> list[Tensor]:
        """The trace of the convolutions, the first layer's input, every hidden layer's activation, and the
        output, without a graph."""
        *hidden, head = self._linears()
        trace = self.convolutions.trace(x) if self.convolutions else []
        trace.append(trace[-1].flatten(1) if trace else x)
        for layer in hidden:
            z = kernels.matmul(trace[-1], layer.weight, layer.bias)
            trace.append(kernels.tanh_(z) if self.activation == "tanh" else z.relu_())
        trace.append(kernels.matmul(trace[-1], head.weight, head.bias))
        return trace

    @torch.no_grad()
    def backpropagate(self, trace: list[Tensor], grad: Tensor) -> None:
        """Add the parameters' gradients to `.grad`, given a trace and the loss's gradient by its output.

        With z = W h + b and h' = f(z): dW += dz^T h, db += sum dz, dh = dz W, and dz = dh f'(z) one layer
        down.
        """
        linears = self._linears()
        below, trace = trace[: -len(linears) - 1], trace[-len(linears) - 1 :]
        for index in reversed(range(len(linears))):
            layer, h = linears[index], trace[index]
            _grad(layer.weight).add_(kernels.matmul(grad.t(), h.t()))
            _grad(layer.bias).add_(grad.sum(0))
            if index > 0 or self.convolutions:
                grad = kernels.matmul(grad, layer.weight.t())
            if index > 0:
                if self.activation == "tanh":
                    torch.ops.aten.tanh_backward.grad_input(grad, h, grad_input=grad)
                else:
                    torch.ops.aten.threshold_backward.grad_input(grad, h, 0, grad_input=grad)
        if self.convolutions:
            self.convolutions.backpropagate(below, grad)

    def _linears(self) -> list[nn.Linear]:
        return [*self.layers, self.head]


class Policy(Perceptron):
    """Observations [n, D] to the action distribution's parameters [n, P], the wire's `distribution`.

    gaussian: P = 2 A, mean then log-std in [-20, 2]; the log-std is an output (`state`) or a parameter.
    The others: P = the number of outputs, logits; see `nitro_actor.actions`.
    """

    def __init__(
        self,
        inputs: int,
        hidden: list[int],
        actions: int,
        activation: Activation,
        head: HeadKind,
        log_std: LogStd,
        convolutions: Convolutions | None,
    ) -> None:
        self.actions, self.head_kind = actions, head
        doubled = head == "gaussian" and log_std == "state"
        super().__init__(inputs, hidden, 2 * actions if doubled else actions, activation, convolutions)
        self.log_std: nn.Parameter | None = None
        if head == "gaussian" and log_std == "parameter":
            self.log_std = nn.Parameter(torch.zeros(actions))

    def forward(self, x: Tensor) -> Tensor:
        return self._distribution(super().forward(x))

    @torch.no_grad()
    def distribution(self, trace: list[Tensor]) -> Tensor:
        """The distribution's parameters [n, P] of a trace."""
        return self._distribution(trace[-1])

    @torch.no_grad()
    def backpropagate(self, trace: list[Tensor], grad: Tensor) -> None:
        """As Perceptron's; `grad` [n, P] is by the distribution's parameters."""
        if self.log_std is not None:
            inside = (self.log_std >= LOG_STD_MIN) & (self.log_std <= LOG_STD_MAX)
            _grad(self.log_std).add_(grad[:, self.actions :].sum(0) * inside)
            grad = grad[:, : self.actions].contiguous()
        elif self.head_kind == "gaussian":
            raw = trace[-1][:, self.actions :]
            grad[:, self.actions :] *= (raw >= LOG_STD_MIN) & (raw <= LOG_STD_MAX)
        super().backpropagate(trace, grad)

    def _distribution(self, output: Tensor) -> Tensor:
        if self.head_kind != "gaussian":
            return output
        log_std = output[:, self.actions :] if self.log_std is None else self.log_std.expand_as(output)
        return torch.cat([output[:, : self.actions], log_std.clamp(LOG_STD_MIN, LOG_STD_MAX)], dim=1)


class ActorCritic(nn.Module):
    """Policy and critic whose parameters and gradients are views of two flat vectors.

    One flat vector makes the optimiser, the gradient's norm and zeroing one operation each.

    Attributes:
        images: whether observations are images [n, height, width(, channels)], not vectors [n, D].
    """

    def __init__(
        self,
        inputs: int | Image,
        hidden: list[int],
        actions: int,
        *,
        convolutions: Sequence[ConvLayer] = (),
        activation: Activation = "tanh",
        head: HeadKind = "gaussian",
        log_std: LogStd = "state",
        orthogonal: bool = False,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        super().__init__()
        self.images = isinstance(inputs, Image)

        def below() -> Convolutions | None:
            return Convolutions(inputs, convolutions, activation) if isinstance(inputs, Image) else None

        size = 0 if isinstance(inputs, Image) else inputs
        self.policy = Policy(size, hidden, actions, activation, head, log_std, below())
        self.critic = Perceptron(size, hidden, 1, activation, below())
        generator = torch.Generator().manual_seed(seed)
        self.policy.reset(generator, orthogonal, head_gain=0.01)
        self.critic.reset(generator, orthogonal, head_gain=1.0)
        self.to(device)
        self.flat = _flatten(self)

    def values(self, observations: Tensor) -> Tensor:
        """V [n] of observations [n, D] or [n, *shape], without a graph."""
        return self.critic.trace(observations)[-1][:, 0]


def chunk_size(network: ActorCritic, device: str) -> int:
    """Rows of one forward and backward pass; a larger minibatch is summed over chunks.

    On a CPU a chunk's activations fit into the processor's cache (with images they never do: there they fit
    into memory). On a GPU a chunk fits into its memory.
    """
    if device == "cpu":
        return 128 if network.images else 1024
    return 2**12 if network.images else 2**16


class _Linear(nn.Linear):
    """A layer that takes nothing from PyTorch's global random numbers: its network's `reset` fills it.

    (`nn.utils.skip_init` does the same by way of the meta device, whose import takes a second.)
    """

    def reset_parameters(self) -> None:
        pass


def _grad(parameter: Tensor) -> Tensor:
    assert parameter.grad is not None, "the parameters of a trained network have been flattened"
    return parameter.grad


def _flatten(module: nn.Module) -> Tensor:
    """Make the parameters views of one vector and their gradients views of its `.grad`; return the vector."""
    parameters = list(module.parameters())
    flat = torch.cat([p.detach().flatten() for p in parameters]).requires_grad_()
    flat.grad = torch.zeros_like(flat)
    sizes = [p.numel() for p in parameters]
    values, grads = torch.split(flat.detach(), sizes), torch.split(flat.grad, sizes)
    for p, value, grad in zip(parameters, values, grads, strict=True):
        p.data, p.grad = value.view_as(p), grad.view_as(p)
    return flat
