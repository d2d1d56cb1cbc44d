"""Policies and critics with a recurrent layer, stacked."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from nitro_api.spec.network import Network
from nitro_learner.algorithms.agents.gru import scan, unroll
from nitro_learner.algorithms.agents.stacked_recurrent import (
    Recurrence,
    StackedRecurrent,
    by_row,
    by_time,
)
from nitro_learner.algorithms.ppo.memory.sequences import Sequences
from nitro_learner.networks.actor_critic import PoliciesWithCritics


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
            seen = by_time(shape.seen(parameters, x.flatten(1, 2)), x.shape[2])
            weight, bias = shape.kept(parameters)
            after = scan(seen, memory, keep.permute(2, 0, 1)[..., None], weight, bias)
        return after.permute(1, 2, 0, 3)

    def distributions(self, policies: Tensor, sequences: Sequences) -> Tensor:
        """The action distributions' parameters [P * B, .], with a graph that can be differentiated twice."""
        rows, (outputs, log_std) = sequences.rows, self.parts(policies)
        seen = by_time(self.policy.seen(outputs, rows.stacked(rows.observations)), sequences.length)
        after = unroll(seen, sequences.memory, sequences.keep, *self.policy.kept(outputs))
        output = self.policy.outputs(outputs, by_row(after))
        return self.head(output.flatten(0, 1), log_std, rows.available)

    def __call__(
        self, policies: Tensor, critics: Tensor, sequences: Sequences, recurrence: Recurrence
    ) -> tuple[Tensor, Tensor]:
        """The action distributions' parameters [P * B, .] and values V [P * B], with a graph."""
        rows, count = sequences.rows, len(policies)
        outputs, log_std = self.parts(policies)
        # Both recurrent layers have one size, so they go along the sequences together.
        seen = torch.cat(
            [
                self.policy.seen(outputs, rows.stacked(rows.observations)),
                self.critic.seen(critics, rows.stacked(rows.critic_inputs)),
            ]
        )
        pairs = zip(self.policy.kept(outputs), self.critic.kept(critics), strict=True)
        weight, bias = (torch.cat(pair) for pair in pairs)
        memory = torch.cat([sequences.memory, sequences.critic_memory])
        keep = torch.cat([sequences.keep, sequences.keep], 1)
        after = by_row(recurrence(by_time(seen, sequences.length), memory, keep, weight, bias))
        output = self.policy.outputs(outputs, after[:count])
        values = self.critic.outputs(critics, after[count:])[..., 0]
        return self.head(output.flatten(0, 1), log_std, rows.available), values.flatten()
