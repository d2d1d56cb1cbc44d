"""Policies and critics with a recurrent layer, stacked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from nitro_api.spec.network import Network
from nitro_learner.algorithms.agents.stacked import StackedPerceptron
from nitro_learner.algorithms.multi_ppo.network import PoliciesWithCritics
from nitro_learner.algorithms.recurrent_ppo.gru import scan, unroll
from nitro_learner.algorithms.recurrent_ppo.sequences import Sequences
from nitro_learner.networks import kernels
from nitro_learner.networks.images import Activation

Recurrence = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
"""`scan` or `unroll`."""


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
        free: Mapping[str, int],
        *,
        memory: int,
    ) -> None:
        """See `StackedPerceptron`; `memory` is H."""
        *below, last = hidden
        self.memory = memory
        self._activation = activation
        self._hidden = StackedPerceptron(inputs, below, {f"layers.{len(below)}": last}, activation)
        self._heads = StackedPerceptron(memory, [], heads, activation, free)
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
        return torch.baddbmm(bias[:, None], features, weight.transpose(1, 2))

    def kept(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """The weight [P, 3 H, H] and the bias [P, 3 H] of what the gates see of the memory."""
        _, _, hh, _, bias, _ = torch.split(parameters, self._sizes, 1)
        return hh.view(-1, *self._shapes["gru.weight_hh"]), bias

    def outputs(self, parameters: Tensor, memory: Tensor) -> Tensor:
        """The heads' outputs for memories after steps: [P, B, H] to [P, B, outputs]."""
        *_, heads = torch.split(parameters, self._sizes, 1)
        return self._heads(heads, memory)


class RecurrentActorCritic(PoliciesWithCritics[StackedRecurrent]):
    """Policies and critics, each with a recurrent layer of its own."""

    def __init__(self, inputs: int, critic_inputs: int, network: Network, action: Mapping[str, Any]) -> None:
        """See `PoliciesWithCritics`."""
        make = partial(StackedRecurrent, memory=network.memory_size)
        super().__init__(inputs, critic_inputs, network, action, make)

    def remembered(
        self, shape: StackedRecurrent, parameters: Tensor, x: Tensor, memory: Tensor, keep: Tensor
    ) -> Tensor:
        """The memories after each step, [P, S, L, H], without a graph.

        Args:
            shape: of the networks, the policies' or the critics'.
            parameters: their part of the parameters.
            x: inputs [P, S, L, D].
            memory: before the first step, [P, S, H].
            keep: [P, S, L], as `Sequences.keep`.
        """
        with torch.no_grad():
            seen = _by_time(shape.seen(parameters, x.flatten(1, 2)), x.shape[2])
            weight, bias = shape.kept(parameters)
            after = scan(seen, memory, keep.permute(2, 0, 1)[..., None], weight, bias)
        return after.permute(1, 2, 0, 3)

    def distributions(self, policies: Tensor, sequences: Sequences) -> Tensor:
        """The action distributions' parameters [P, B, .], with a graph that can be differentiated twice."""
        seen = _by_time(self.policy.seen(policies, sequences.rows.inputs), sequences.length)
        after = unroll(seen, sequences.memory, sequences.keep, *self.policy.kept(policies))
        output = self.policy.outputs(policies, _by_row(after))
        return self._head(policies, output, sequences.rows.masked())

    def __call__(
        self, policies: Tensor, critics: Tensor, sequences: Sequences, recurrence: Recurrence
    ) -> tuple[Tensor, Tensor]:
        """The action distributions' parameters [P, B, .] and values V [P, B], with a graph."""
        rows, count = sequences.rows, len(policies)
        # Both recurrent layers have one size, so they go along the sequences together.
        seen = torch.cat(
            [
                self.policy.seen(policies, rows.inputs),
                self.critic.seen(critics, rows.stacked(rows.critic_inputs)),
            ]
        )
        pairs = zip(self.policy.kept(policies), self.critic.kept(critics), strict=True)
        weight, bias = (torch.cat(pair) for pair in pairs)
        memory = torch.cat([sequences.memory, sequences.critic_memory])
        keep = torch.cat([sequences.keep, sequences.keep], 1)
        after = _by_row(recurrence(_by_time(seen, sequences.length), memory, keep, weight, bias))
        output = self.policy.outputs(policies, after[:count])
        values = self.critic.outputs(critics, after[count:])[..., 0]
        return self._head(policies, output, rows.masked()), values


def _by_time(rows: Tensor, length: int) -> Tensor:
    """[P, S * L, .] to [L, P, S, .]."""
    policies, _, width = rows.shape
    return rows.view(policies, -1, length, width).permute(2, 0, 1, 3).contiguous()


def _by_row(steps: Tensor) -> Tensor:
    """[L, P, S, .] to [P, S * L, .]."""
    return steps.permute(1, 2, 0, 3).flatten(1, 2)
