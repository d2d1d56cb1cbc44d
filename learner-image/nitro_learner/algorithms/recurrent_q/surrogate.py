"""The objective of a round in sequences, for the detector: the negative temporal-difference loss through the
recurrent layer, with its targets fixed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from nitro_learner.algorithms.agents.gru import unroll
from nitro_learner.algorithms.q_learning.surrogate import TdSurrogate
from nitro_learner.algorithms.recurrent_q.network import RecurrentQNetwork
from nitro_learner.boosting.surrogate import Function, Objective

CHUNK = 1024
"""Rows of one term."""


@dataclass(frozen=True, slots=True)
class PlayedSequences:
    """What was played by networks with a memory; see `PlayedLanes`. Rows are those of whole sequences.

    Attributes:
        network: their shape.
        parameters, policies: see `PlayedLanes`.
        observations: f32 [A, M, D], sequence by sequence, then step by step.
        actions: i64 [A, M].
        acted: f32 [A, M], 1 where the agent acted.
        memory: of the policies before the first steps, f32 [A, S, H].
        keep: f32 [L, A, S, 1], 0 where memories are emptied before the step, 1 elsewhere.
    """

    network: RecurrentQNetwork
    parameters: Tensor
    policies: Tensor
    observations: Tensor
    actions: Tensor
    acted: Tensor
    memory: Tensor
    keep: Tensor

    def chosen(self, rows: Tensor) -> Tensor:
        """See `PlayedLanes`."""
        length, parameters = len(self.keep), self.parameters[self.policies]
        sequences = rows[::length] // length
        after = self.network.remembered(
            parameters,
            self.observations[:, rows],
            self.memory[:, sequences],
            self.keep[:, :, sequences],
            unroll,
        )
        values = self.network.valued(parameters, after)
        taken = values.gather(-1, self.actions[:, rows, None])[..., 0]
        return taken * self.acted[:, rows]

    def of(self, policy: int, lanes: Tensor) -> PlayedSequences:
        """See `PlayedLanes`."""
        return PlayedSequences(
            self.network,
            self.parameters[policy : policy + 1].detach().clone().requires_grad_(),
            torch.zeros_like(lanes),
            self.observations[lanes],
            self.actions[lanes],
            self.acted[lanes],
            self.memory[lanes],
            self.keep[:, lanes],
        )


@dataclass(frozen=True, slots=True)
class SequenceSurrogate(TdSurrogate):
    """Of policies that remember. A transition depends on the parameters by all steps of its sequence up to
    its own. So the sequences of the drawn transitions are replayed, and only the drawn transitions count."""

    def function(self, objective: Objective, rows: Tensor) -> Function:
        """See `TdSurrogate`."""
        length = len(self.lanes[0])
        drawn = torch.zeros_like(self.weights[0])
        drawn[rows.to(drawn.device)] = 1.0
        needed = drawn.view(-1, length).any(1).nonzero()
        steps = torch.arange(length, device=drawn.device)
        parts = [(part * length + steps).flatten() for part in torch.split(needed, max(1, CHUNK // length))]
        return replace(self, weights=self.weights * drawn)._function(objective, parts)
