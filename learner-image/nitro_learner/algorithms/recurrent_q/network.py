"""Q-networks with a recurrent layer, stacked."""

from __future__ import annotations

import torch
from torch import Tensor

from nitro_api.spec.network import Network
from nitro_learner.algorithms.agents.gru import scan
from nitro_learner.algorithms.agents.stacked_recurrent import (
    Recurrence,
    StackedRecurrent,
    by_row,
    by_time,
)
from nitro_learner.algorithms.q_learning.network import ActionValues, heads


class RecurrentQNetwork(ActionValues):
    """Sequences of observations to a value of each action."""

    def __init__(self, inputs: int, actions: int, network: Network, *, dueling: bool) -> None:
        """
        Args:
            inputs: D.
            actions: N.
            network: spec.network, with `recurrent`.
            dueling: whether it has two heads.
        """
        self._recurrent = StackedRecurrent(
            inputs,
            network.hidden_sizes,
            heads(actions, dueling=dueling),
            network.activation,
            memory=network.memory_size,
        )
        super().__init__(self._recurrent, actions, dueling=dueling)

    def remembered(
        self, parameters: Tensor, x: Tensor, memory: Tensor, keep: Tensor, recurrence: Recurrence
    ) -> Tensor:
        """The memories after each step, f32 [A, S * L, H], with a graph.

        Args:
            parameters: f32 [A, n].
            x: observations f32 [A, S * L, D], sequence by sequence.
            memory: before the first steps, f32 [A, S, H].
            keep: f32 [L, A, S, 1], 0 where memories are emptied before the step, 1 elsewhere.
            recurrence: `scan`, or `unroll` for a graph that can be differentiated twice.
        """
        seen = by_time(self._recurrent.seen(parameters, x), len(keep))
        return by_row(recurrence(seen, memory, keep, *self._recurrent.kept(parameters)))

    def valued(self, parameters: Tensor, memory: Tensor) -> Tensor:
        """Values [A, B, N] by the memories after steps, [A, B, H]."""
        return self.values(self._recurrent.outputs(parameters, memory))

    @torch.no_grad()
    def next_values(self, parameters: Tensor, x: Tensor, memory: Tensor) -> Tensor:
        """Values [A, B, N] of single observations [A, B, D] that follow memories [A, B, H]."""
        keep = torch.ones((1, *x.shape[:2], 1), dtype=x.dtype, device=x.device)
        seen = self._recurrent.seen(parameters, x)[None]
        (after,) = scan(seen, memory, keep, *self._recurrent.kept(parameters))
        return self.valued(parameters, after)
