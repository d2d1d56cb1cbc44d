"""Sequences of transitions of networks that remember."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from nitro_learner.algorithms.agents.gru import scan
from nitro_learner.algorithms.q_learning.batch import LaneBatch
from nitro_learner.algorithms.q_learning.network import ActionValues
from nitro_learner.algorithms.recurrent_q.network import RecurrentQNetwork
from nitro_learner.algorithms.recurrent_q.surrogate import PlayedSequences


@dataclass(frozen=True, slots=True)
class LaneSequences(LaneBatch):
    """Transitions in sequences of L steps, B = S L of each lane: sequence by sequence, then step by step.

    Attributes:
        memory: of the policies before the first steps, f32 [A, S, H].
        keep: f32 [L, A, S, 1], 0 where memories are emptied before the step, 1 elsewhere.
        goes_on: f32 [A, B, 1], 1 where what follows a step is seen with the memory after it.
    """

    memory: Tensor
    keep: Tensor
    goes_on: Tensor

    @classmethod
    def of(cls, batch: LaneBatch, memory: Tensor, keep: Tensor, goes_on: Tensor) -> LaneSequences:
        """Add to transitions what makes them sequences."""
        own = {field.name: getattr(batch, field.name) for field in fields(LaneBatch)}
        return cls(**own, memory=memory, keep=keep, goes_on=goes_on)

    def trace(self, network: ActionValues, parameters: Tensor) -> tuple[list[Tensor], Tensor]:
        """The parameters as leaves and the values with their graph; then the values alone."""
        remembers = _remembers(network)
        leaves = parameters.detach().requires_grad_()
        with torch.enable_grad():
            after = remembers.remembered(leaves, self.observations, self.memory, self.keep, scan)
            values = remembers.valued(leaves, after)
        return [leaves, values], values.detach()

    def backpropagate(
        self,
        network: ActionValues,  # noqa: ARG002
        parameters: Tensor,  # noqa: ARG002
        trace: Sequence[Tensor],
        by_values: Tensor,
        into: Tensor,
    ) -> None:
        """See `LaneBatch`: backpropagation through time, to the beginning of each sequence."""
        leaves, values = trace
        # The gradient of a number: torch imports for seconds before it takes a gradient's weights.
        with torch.enable_grad():
            total = (values * by_values).sum()
        into += torch.autograd.grad(total, leaves)[0]

    def played(self, network: ActionValues, parameters: Tensor) -> PlayedSequences:
        """See `LaneBatch`."""
        return PlayedSequences(
            parameters,
            self.policies,
            self.observations,
            self.actions,
            self.acted,
            _remembers(network),
            self.memory,
            self.keep,
        )

    def _rated(
        self, network: ActionValues, parameters: Tensor | None, targets: Tensor
    ) -> tuple[Tensor, Tensor]:
        # Each network goes along the observations with a memory of its own, the target's and the learned
        # one's together. What follows a step is one step more from there. Within a sequence that is the next
        # step, but a truncated episode's last observation is not in the sequence.
        remembers = _remembers(network)
        both = targets if parameters is None else torch.cat([targets, parameters])
        times = len(both) // len(targets)
        after = remembers.remembered(
            both,
            self.observations.repeat(times, 1, 1),
            self.memory.repeat(times, 1, 1),
            self.keep.repeat(1, times, 1, 1),
            scan,
        )
        memory = after * self.goes_on.repeat(times, 1, 1)
        values = remembers.next_values(both, self.following.repeat(times, 1, 1), memory)
        return values[: len(targets)], values[-len(targets) :]


def _remembers(network: ActionValues) -> RecurrentQNetwork:
    assert isinstance(network, RecurrentQNetwork), "sequences are for networks with a memory"
    return network
