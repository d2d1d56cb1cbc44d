"""Networks with a recurrent layer of several policies, stacked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn

from nitro_learner.networks import kernels
from nitro_learner.networks.images import Activation
from nitro_learner.networks.stacked import StackedPerceptron, linear

Recurrence = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
"""`gru.scan` or `gru.unroll`."""


class StackedRecurrent:
    """Hidden layers with an activation, a recurrent layer, then linear heads, of P networks of one shape.

    The names are those of `StackedPerceptron`, and gru.weight_ih, gru.weight_hh, gru.bias_ih and gru.bias_hh.

    Attributes:
        size: n, parameters of a network.
        memory: H.
    """

    def __init__(
        self,
        inputs: int,
        hidden: Sequence[int],
        heads: Mapping[str, int],
        activation: Activation,
        *,
        memory: int,
    ) -> None:
        """See `StackedPerceptron`; `memory` is H."""
        *below, last = hidden
        self.memory = memory
        self._activation = activation
        self._hidden = StackedPerceptron(inputs, below, {f"layers.{len(below)}": last}, activation)
        self._heads = StackedPerceptron(memory, [], heads, activation)
        self._shapes = {
            "gru.weight_ih": (3 * memory, last),
            "gru.weight_hh": (3 * memory, memory),
            "gru.bias_ih": (3 * memory,),
            "gru.bias_hh": (3 * memory,),
        }
        recurrent = [torch.Size(shape).numel() for shape in self._shapes.values()]
        self._sizes = [self._hidden.size, *recurrent, self._heads.size]
        self.size = sum(self._sizes)

    def initial(
        self, generator: torch.Generator, *, orthogonal: bool, head_gains: Mapping[str, float]
    ) -> Tensor:
        """Draw the parameters of one network, f32 [n] on the CPU. With `orthogonal` the recurrent layer's
        weights are orthogonal, else it begins as torch.nn.GRU does."""
        hidden = self._hidden.initial(generator, orthogonal=orthogonal, head_gains={})
        drawn = []
        for name, shape in self._shapes.items():
            part = torch.zeros(shape)
            if not orthogonal:
                nn.init.uniform_(part, -(self.memory**-0.5), self.memory**-0.5, generator)
            elif "weight" in name:
                nn.init.orthogonal_(part, 1.0, generator)
            drawn.append(part.flatten())
        heads = self._heads.initial(generator, orthogonal=orthogonal, head_gains=head_gains)
        return torch.cat([hidden, *drawn, heads])

    def views(self, parameters: Tensor) -> dict[str, Tensor]:
        """The parameters by name, each [P, *shape], as views."""
        hidden, *recurrent, heads = torch.split(parameters, self._sizes, 1)
        named = {
            name: part.view(-1, *shape)
            for (name, shape), part in zip(self._shapes.items(), recurrent, strict=True)
        }
        return self._hidden.views(hidden) | named | self._heads.views(heads)

    def seen(self, parameters: Tensor, x: Tensor) -> Tensor:
        """What the gates see of inputs: [P, B, D] to [P, B, 3 H]."""
        hidden, ih, _, bias, *_ = torch.split(parameters, self._sizes, 1)
        z = self._hidden(hidden, x)
        features = kernels.tanh(z) if self._activation == "tanh" else torch.relu(z)
        weight = ih.view(-1, *self._shapes["gru.weight_ih"])
        return linear(features, weight, bias)

    def kept(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """The weight [P, 3 H, H] and the bias [P, 3 H] of what the gates see of the memory."""
        _, _, hh, _, bias, _ = torch.split(parameters, self._sizes, 1)
        return hh.view(-1, *self._shapes["gru.weight_hh"]), bias

    def outputs(self, parameters: Tensor, memory: Tensor) -> Tensor:
        """The heads' outputs for memories after steps: [P, B, H] to [P, B, outputs]."""
        *_, heads = torch.split(parameters, self._sizes, 1)
        return self._heads(heads, memory)


def by_time(rows: Tensor, length: int) -> Tensor:
    """Rows [P, S * L, .] of S sequences of L steps to [L, P, S, .]."""
    policies, _, width = rows.shape
    return rows.view(policies, -1, length, width).permute(2, 0, 1, 3).contiguous()


def by_row(steps: Tensor) -> Tensor:
    """Steps [L, P, S, .] to rows [P, S * L, .]."""
    return steps.permute(1, 2, 0, 3).flatten(1, 2)


def drawn_sequences(weights: Tensor, rows: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """Which transitions are drawn, and which sequences have any of them.

    Args:
        weights: of the transitions, f32 of S * L of them, sequence by sequence; only the shape counts.
        rows: transitions that are drawn, i64 [n].
        length: L.

    Returns:
        1 for the drawn transitions and 0 for the others, in the shape of `weights`; and the numbers of the
        sequences, i64 [s].
    """
    drawn = torch.zeros_like(weights)
    drawn[rows] = 1.0
    return drawn, drawn.view(-1, length).any(1).nonzero()[:, 0]
