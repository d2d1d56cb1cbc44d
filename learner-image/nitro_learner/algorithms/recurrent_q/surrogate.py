"""The objective of a round in sequences, for the detector: the negative temporal-difference loss through the
recurrent layer, with its targets fixed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from nitro_learner.algorithms.agents.gru import unroll
from nitro_learner.algorithms.agents.stacked_recurrent import drawn_sequences
from nitro_learner.algorithms.q_learning.surrogate import CHUNK, PlayedLanes, TdSurrogate
from nitro_learner.algorithms.recurrent_q.network import RecurrentQNetwork
from nitro_learner.boosting.surrogate import Function, Objective


@dataclass(frozen=True, slots=True)
class PlayedSequences(PlayedLanes):
    """What was played by networks with a memory; see `PlayedLanes`. Rows are those of whole sequences,
    sequence by sequence, then step by step.

    Attributes:
        network: their shape.
        memory: of the policies before the first steps, f32 [A, S, H].
        keep: f32 [L, A, S, 1], 0 where memories are emptied before the step, 1 elsewhere.
    """

    network: RecurrentQNetwork
    memory: Tensor
    keep: Tensor

    def values(self, rows: Tensor) -> Tensor:
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
        return self.network.valued(parameters, after)

    def _lanes(self, lanes: Tensor) -> dict[str, Tensor]:
        own = {"memory": self.memory[lanes], "keep": self.keep[:, lanes]}
        # A bare super() fails here: `slots=True` makes the class anew.
        return PlayedLanes._lanes(self, lanes) | own


@dataclass(frozen=True, slots=True)
class SequenceSurrogate(TdSurrogate):
    """Of policies that remember. A transition depends on the parameters by all steps of its sequence up to
    its own. So the sequences of the drawn transitions are replayed, and only the drawn transitions count."""

    def function(self, objective: Objective, rows: Tensor) -> Function:
        """See `TdSurrogate`."""
        length = len(self.lanes[0])
        drawn, needed = drawn_sequences(self.weights[0], rows.to(self.weights.device), length)
        steps = torch.arange(length, device=drawn.device)
        parts = [
            (part * length + steps).flatten()
            for part in torch.split(needed[:, None], max(1, CHUNK // length))
        ]
        return replace(self, weights=self.weights * drawn)._mean_of(objective, parts)[0]
