"""Networks of several policies that compute together: one batched product for a layer of all of them.

Parameters are rows of one tensor [P, n], a row for each policy. So a policy is selected, copied and inserted
as a row, and policies that train together are stacked when needed:

    network = StackedPerceptron(inputs, hidden, {"head": actions}, "tanh")
    parameters = torch.stack([network.initial(generator, ...) for each policy])       # [P, n]
    outputs = network(parameters, x)                                # [P, B, inputs] -> [P, B, outputs]

The names are the wire's without `policy.`: layers.0.weight, layers.0.bias, ..., head.weight, head.bias.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import torch
from torch import Tensor, nn

from nitro_learner.networks import kernels
from nitro_learner.networks.images import Activation


@dataclass(frozen=True)
class _Layer:
    """Where one linear layer of a policy lies in its row: the weight [outputs, inputs], then the bias.

    Attributes:
        parts: name and outputs. Several heads are one layer: their weights lie together, and their biases.
    """

    begin: int
    inputs: int
    parts: tuple[tuple[str, int], ...]

    @cached_property
    def outputs(self) -> int:
        return sum(outputs for _, outputs in self.parts)

    @cached_property
    def bias(self) -> int:
        return self.begin + self.inputs * self.outputs

    @cached_property
    def end(self) -> int:
        return self.bias + self.outputs

    def of(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Weights [P, outputs, inputs] and biases [P, outputs], as views."""
        weight = parameters[:, self.begin : self.bias].view(-1, self.outputs, self.inputs)
        return weight, parameters[:, self.bias : self.end]


class StackedPerceptron:
    """Hidden layers with an activation, then linear heads, of P policies of one shape.

    It holds no parameters: every method takes them, f32 [P, n].

    Attributes:
        size: n, parameters of a policy.
        outputs: number of outputs of all heads together.
    """

    def __init__(
        self,
        inputs: int,
        hidden: Sequence[int],
        heads: Mapping[str, int],
        activation: Activation,
        free: Mapping[str, int] | None = None,
    ) -> None:
        """
        Args:
            inputs: D.
            hidden: units of each hidden layer.
            heads: outputs of each head by name. They stand one after the other in the output.
            activation: of the hidden layers.
            free: sizes of further vectors of parameters by name, such as a log-std. They start at zero, and
                no method here reads them but `views`.
        """
        self.activation = activation
        self._layers: list[_Layer] = []
        begin = 0
        for index, (i, o) in enumerate(pairwise([inputs, *hidden])):
            self._layers.append(_Layer(begin, i, ((f"layers.{index}", o),)))
            begin = self._layers[-1].end
        self._layers.append(_Layer(begin, [inputs, *hidden][-1], tuple(heads.items())))
        self._free = dict(free or {})
        self.size = self._layers[-1].end + sum(self._free.values())
        self.outputs = self._layers[-1].outputs

    def initial(
        self, generator: torch.Generator, *, orthogonal: bool, head_gains: Mapping[str, float]
    ) -> Tensor:
        """Draw the parameters of one policy, f32 [n] on the CPU, as `ActorCritic` does.

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
                    bound = 1 / math.sqrt(layer.inputs)
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
        begin = self._layers[-1].end
        for name, size in self._free.items():
            named[name] = parameters[:, begin : begin + size]
            begin += size
        return named

    def __call__(self, parameters: Tensor, x: Tensor) -> Tensor:
        """[P, B, D] to [P, B, outputs], with a graph that can be differentiated twice."""
        *hidden, heads = self._layers
        for layer in hidden:
            z = linear(x, *layer.of(parameters))
            x = kernels.tanh(z) if self.activation == "tanh" else torch.relu(z)
        return linear(x, *heads.of(parameters))

    @torch.no_grad()
    def trace(self, parameters: Tensor, x: Tensor) -> list[Tensor]:
        """The input, every hidden layer's activation and the output, each [P, B, *], without a graph."""
        *hidden, heads = self._layers
        trace = [x]
        for layer in hidden:
            z = linear(trace[-1], *layer.of(parameters))
            trace.append(kernels.tanh_(z) if self.activation == "tanh" else z.relu_())
        trace.append(linear(trace[-1], *heads.of(parameters)))
        return trace

    @torch.no_grad()
    def backpropagate(self, parameters: Tensor, trace: Sequence[Tensor], grad: Tensor, into: Tensor) -> None:
        """Add the parameters' gradients to `into`, as `Perceptron.backpropagate`.

        Args:
            parameters: [P, n], those of the trace.
            trace: of these parameters.
            grad: the loss's gradient by the output, [P, B, outputs].
            into: [P, n].
        """
        for index in reversed(range(len(self._layers))):
            weight, _ = self._layers[index].of(parameters)
            h = trace[index]
            grad = _add_gradients(self._layers[index].of(into), weight, grad, h, below=index > 0)
            if index > 0:
                if self.activation == "tanh":
                    torch.ops.aten.tanh_backward.grad_input(grad, h, grad_input=grad)
                else:
                    torch.ops.aten.threshold_backward.grad_input(grad, h, 0, grad_input=grad)


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """x W^T + b of each policy: [P, B, i], [P, o, i] and [P, o] to [P, B, o]."""
    if _alone(weight):
        policies = zip(*(torch.split(of_all, 1) for of_all in (x, weight, bias)), strict=True)
        return torch.cat([linear(*policy) for policy in policies])
    return torch.baddbmm(bias[:, None], x, weight.transpose(1, 2))


def _alone(weight: Tensor) -> bool:
    """Whether a layer is computed policy by policy. One output or one input makes a product of a vector,
    which rounds otherwise within a batch of products than alone. Policies that train together shall learn
    the same, to the bit, as each alone."""
    return len(weight) > 1 and 1 in weight.shape[1:]


def _add_gradients(
    into: tuple[Tensor, Tensor], weight: Tensor, grad: Tensor, h: Tensor, *, below: bool
) -> Tensor:
    """Add a layer's gradients by its weights and biases to `into`, and return the one by its input, where
    there is a layer `below`."""
    if _alone(weight):
        policies = zip(*(torch.split(of_all, 1) for of_all in (*into, weight, grad, h)), strict=True)
        return torch.cat([_add_gradients((w_, b_), *policy, below=below) for w_, b_, *policy in policies])
    into[0].baddbmm_(grad.transpose(1, 2), h)
    into[1].add_(grad.sum(1))
    return torch.bmm(grad, weight) if below else grad


@torch.no_grad()
def clip_rows(gradient: Tensor, norm: float) -> Tensor:
    """Scale each policy's gradient, a row of [P, n], down to a norm, in place; 0 leaves them as they are.
    Return the norms before, f32 [P]."""
    norms: Tensor = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
    if norm:
        gradient.mul_((norm / (norms + 1e-6)).clamp(max=1.0))
    return norms.squeeze(1)
