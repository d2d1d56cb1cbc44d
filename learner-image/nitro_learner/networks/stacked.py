"""Networks of several policies that compute together: one batched product for a layer of all of them.

Parameters are rows of one tensor [P, n], a row for each policy. So a policy is selected, copied and inserted
as a row, and policies that train together are stacked when needed:

    network = StackedPerceptron(inputs, hidden, {"head": actions}, "tanh")
    parameters = torch.stack([network.initial(generator, ...) for each policy])       # [P, n]
    outputs = network(parameters, x)                                # [P, B, inputs] -> [P, B, outputs]

The names are the wire's without `policy.`: convolutions.layers.0.weight, ..., layers.0.weight, layers.0.bias,
..., head.weight, head.bias.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import torch
from torch import Tensor, nn

from nitro_api.spec.network import ConvLayer
from nitro_learner.networks import kernels
from nitro_learner.networks.images import Activation, Convolutions, Image, Weights


@dataclass(frozen=True)
class _Layer:
    """Where one layer of a policy lies in its row: the weight [outputs, *inputs], then the bias.

    Attributes:
        inputs: shape of what one output sees.
        parts: name and outputs. Several heads are one layer: their weights lie together, and their biases.
    """

    begin: int
    inputs: tuple[int, ...]
    parts: tuple[tuple[str, int], ...]

    @cached_property
    def outputs(self) -> int:
        return sum(outputs for _, outputs in self.parts)

    @cached_property
    def bias(self) -> int:
        return self.begin + math.prod(self.inputs) * self.outputs

    @cached_property
    def end(self) -> int:
        return self.bias + self.outputs

    def of(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Weights [P, outputs, *inputs] and biases [P, outputs], as views."""
        weight = parameters[:, self.begin : self.bias].view(-1, self.outputs, *self.inputs)
        return weight, parameters[:, self.bias : self.end]


class StackedPerceptron:
    """Hidden layers with an activation, then linear heads, of P policies of one shape.

    It holds no parameters: every method takes them, f32 [P, n], or as `layers` has made them, which spares
    time where they are used often.

    A policy alone, P = 1, may have convolutions below. Its inputs and outputs have no axis of policies:
    [B, D] or images [B, *shape], and [B, outputs].

    Attributes:
        size: n, parameters of a policy.
        outputs: number of outputs of all heads together.
    """

    def __init__(
        self,
        inputs: int | Image,
        hidden: Sequence[int],
        heads: Mapping[str, int],
        activation: Activation,
        *,
        convolutions: Sequence[ConvLayer] = (),
        alone: bool = False,
    ) -> None:
        """
        Args:
            inputs: D, or the image below which there are convolutions.
            hidden: units of each hidden layer.
            heads: outputs of each head by name. They stand one after the other in the output.
            activation: of the hidden layers.
            convolutions: their layers.
            alone: see above.
        """
        self.activation = activation
        self.alone = alone
        self._convolutions: Convolutions | None = None
        if isinstance(inputs, Image):
            self._convolutions = Convolutions(inputs, convolutions, activation)
        shapes = self._convolutions.layers if self._convolutions else []
        self._below = len(shapes)
        self._layers: list[_Layer] = []
        for index, shape in enumerate(shapes):
            self._add(shape.weight[1:], {f"convolutions.layers.{index}": shape.weight[0]})
        width = self._convolutions.features if self._convolutions else inputs
        assert isinstance(width, int)
        for index, (i, o) in enumerate(pairwise([width, *hidden])):
            self._add((i,), {f"layers.{index}": o})
        self._add(([width, *hidden][-1],), heads)
        self.size = self._layers[-1].end
        self.outputs = self._layers[-1].outputs

    def _add(self, inputs: tuple[int, ...], parts: Mapping[str, int]) -> None:
        begin = self._layers[-1].end if self._layers else 0
        self._layers.append(_Layer(begin, inputs, tuple(parts.items())))

    def initial(
        self, generator: torch.Generator, *, orthogonal: bool, head_gains: Mapping[str, float]
    ) -> Tensor:
        """Draw the parameters of one policy, f32 [n] on the CPU.

        Args:
            generator: gives all random numbers.
            orthogonal: orthogonal weights with gain sqrt 2 and zero biases; else as nn.Linear starts.
            head_gains: gain of each head with orthogonal weights.
        """
        row = torch.zeros(1, self.size)
        named = self.views(row)
        for layer in self._layers:
            for name, _ in layer.parts:
                weight, bias = named[f"{name}.weight"][0], named[f"{name}.bias"][0]
                if orthogonal:
                    nn.init.orthogonal_(weight, head_gains.get(name, math.sqrt(2)), generator)
                else:
                    bound = 1 / math.sqrt(math.prod(layer.inputs))
                    nn.init.uniform_(weight, -bound, bound, generator)
                    nn.init.uniform_(bias, -bound, bound, generator)
        return row[0]

    def views(self, parameters: Tensor) -> dict[str, Tensor]:
        """The parameters by name, each [P, *shape], as views."""
        named: dict[str, Tensor] = {}
        for layer in self._layers:
            weight, bias = layer.of(parameters)
            sizes = [outputs for _, outputs in layer.parts]
            parts = torch.split(weight, sizes, 1), torch.split(bias, sizes, 1)
            for (name, _), w, b in zip(layer.parts, *parts, strict=True):
                named |= {f"{name}.weight": w, f"{name}.bias": b}
        return named

    def layers(self, parameters: Tensor | Weights) -> Weights:
        """The weights and biases of each layer, as views; without the axis of policies for a policy alone."""
        if not isinstance(parameters, Tensor):
            return parameters
        views = [layer.of(parameters) for layer in self._layers]
        return [(weight[0], bias[0]) for weight, bias in views] if self.alone else views

    def __call__(self, parameters: Tensor | Weights, x: Tensor) -> Tensor:
        """[P, B, D] to [P, B, outputs], with a graph that can be differentiated twice."""
        weights = self.layers(parameters)
        if self._convolutions:
            x = self._convolutions(weights[: self._below], x)
        product = kernels.linear if self.alone else linear
        *hidden, heads = weights[self._below :]
        for weight, bias in hidden:
            z = product(x, weight, bias)
            x = kernels.tanh(z) if self.activation == "tanh" else torch.relu(z)
        return product(x, *heads)

    @torch.no_grad()
    def trace(self, parameters: Tensor | Weights, x: Tensor) -> list[Tensor]:
        """The trace of the convolutions, the first layer's input, every hidden layer's activation and the
        output, each [P, B, *], without a graph."""
        weights = self.layers(parameters)
        trace: list[Tensor] = []
        if self._convolutions:
            trace = self._convolutions.trace(weights[: self._below], x)
            x = trace[-1].flatten(1)
        trace.append(x)
        product = kernels.matmul if self.alone else linear
        *hidden, heads = weights[self._below :]
        for weight, bias in hidden:
            z = product(trace[-1], weight, bias)
            trace.append(kernels.tanh_(z) if self.activation == "tanh" else z.relu_())
        trace.append(product(trace[-1], *heads))
        return trace

    @torch.no_grad()
    def backpropagate(
        self, parameters: Tensor | Weights, trace: Sequence[Tensor], grad: Tensor, into: Tensor | Weights
    ) -> None:
        """Add the parameters' gradients to `into`.

        With z = W h + b and h' = f(z): dW += dz^T h, db += sum dz, dh = dz W, and dz = dh f'(z) one layer
        down.

        Args:
            parameters: [P, n], those of the trace.
            trace: of these parameters.
            grad: the loss's gradient by the output, [P, B, outputs].
            into: [P, n].
        """
        weights, sums, below = self.layers(parameters), self.layers(into), self._below
        first = below + 1 if below else 0  # where the first layer's input is in the trace
        add = _add_gradients_alone if self.alone else _add_gradients
        for index in reversed(range(len(weights) - below)):
            h = trace[first + index]
            goes_on = index > 0 or below > 0
            grad = add(sums[below + index], weights[below + index][0], grad, h, below=goes_on)
            if index > 0:
                if self.activation == "tanh":
                    torch.ops.aten.tanh_backward.grad_input(grad, h, grad_input=grad)
                else:
                    torch.ops.aten.threshold_backward.grad_input(grad, h, 0, grad_input=grad)
        if self._convolutions:
            self._convolutions.backpropagate(weights[:below], trace[:first], grad, sums[:below])


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x W^T + b of each policy: [P, B, i], [P, o, i] and [P, o] to [P, B, o]."""
    if _by_policy(weight):
        policies = zip(*(torch.split(of_all, 1) for of_all in (x, weight, bias)), strict=True)
        return torch.cat([linear(*policy) for policy in policies])
    return torch.baddbmm(bias[:, None], x, weight.transpose(1, 2))


def _by_policy(weight: Tensor) -> bool:
    """Whether a layer is computed policy by policy. One output or one input makes a product of a vector,
    which rounds otherwise within a batch of products than alone. Policies that train together shall learn
    the same, to the bit, as each alone."""
    return len(weight) > 1 and 1 in weight.shape[1:]


def _add_gradients(
    into: tuple[Tensor, Tensor], weight: Tensor, grad: Tensor, h: Tensor, *, below: bool
) -> Tensor:
    """Add a layer's gradients by its weights and biases to `into`, and return the one by its input, where
    there is a layer `below`."""
    if _by_policy(weight):
        policies = zip(*(torch.split(of_all, 1) for of_all in (*into, weight, grad, h)), strict=True)
        return torch.cat([_add_gradients((w_, b_), *policy, below=below) for w_, b_, *policy in policies])
    into[0].baddbmm_(grad.transpose(1, 2), h)
    into[1].add_(grad.sum(1))
    return torch.bmm(grad, weight) if below else grad


def _add_gradients_alone(
    into: tuple[Tensor, Tensor], weight: Tensor, grad: Tensor, h: Tensor, *, below: bool
) -> Tensor:
    """`_add_gradients` of a policy alone."""
    into[0].add_(kernels.matmul(grad.t(), h.t()))
    into[1].add_(grad.sum(0))
    return kernels.matmul(grad, weight.t()) if below else grad
