"""Q-networks with a recurrent layer, stacked."""

from __future__ import annotations

from collections.abc import Sequence

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
from nitro_learner.algorithms.q_learning.batch import Memories, Steps, Transitions
from nitro_learner.algorithms.q_learning.network import QNetwork, heads


class RecurrentQNetwork(QNetwork):
    """Sequences of observations to a value of each action; steps have a memory."""

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

    def __call__(self, parameters: Tensor, steps: Steps) -> Tensor:
        return self._valued(parameters, self._remembered(parameters, steps, unroll))

    def trace(self, parameters: Tensor, steps: Steps) -> tuple[list[Tensor], Tensor]:
        """The parameters as leaves and the values with their graph; then the values alone."""
        leaves = parameters.detach().requires_grad_()
        with torch.enable_grad():
            values = self._valued(leaves, self._remembered(leaves, steps, scan))
        return [leaves, values], values.detach()

    def backpropagate(
        self,
        parameters: Tensor,  # noqa: ARG002
        trace: Sequence[Tensor],
        by_values: Tensor,
        into: Tensor,
    ) -> None:
        """Backpropagation through time, to the beginning of each sequence."""
        leaves, values = trace
        # The gradient of a number: torch imports for seconds before it takes a gradient's weights.
        with torch.enable_grad():
            total = (values * by_values).sum()
        into += torch.autograd.grad(total, leaves)[0]

    def first_values(self, parameters: Tensor, x: Tensor) -> Tensor:
        raise NotImplementedError(
            "policies with a memory never change their agents: the job's rules refuse it"
        )

    def _following(
        self, transitions: Transitions, parameters: Tensor | None, targets: Tensor
    ) -> tuple[Tensor, Tensor]:
        # Each network goes along the observations with a memory of its own, the target's and the learned
        # one's together. What follows a step is one step more from there. Within a sequence that is the next
        # step, but a truncated episode's last observation is not in the sequence.
        steps, carried = transitions.steps, transitions.carried
        assert steps.memory is not None, "steps have the memory before their sequence"
        assert carried is not None, "transitions say where memories are carried on"
        both = targets if parameters is None else torch.cat([targets, parameters])
        times = len(both) // len(targets)
        seen = Steps(
            steps.policies,
            steps.observations.repeat(times, 1, 1),
            steps.actions,
            steps.acted,
            Memories(steps.memory.before.repeat(times, 1, 1), steps.memory.keep.repeat(1, times, 1, 1)),
        )
        memory = self._remembered(both, seen, scan) * carried.repeat(times, 1, 1)
        x = transitions.following.repeat(times, 1, 1)
        keep = torch.ones((1, *x.shape[:2], 1), dtype=x.dtype, device=x.device)
        (after,) = scan(self._recurrent.seen(both, x)[None], memory, keep, *self._recurrent.kept(both))
        values = self._valued(both, after)
        return values[: len(targets)], values[-len(targets) :]

    def _remembered(self, parameters: Tensor, steps: Steps, recurrence: Recurrence) -> Tensor:
        """The memories after each step, f32 [A, S L, H]; with `unroll` the graph can be differentiated
        twice."""
        assert steps.memory is not None, "steps have the memory before their sequence"
        before, keep = steps.memory.before, steps.memory.keep
        seen = by_time(self._recurrent.seen(parameters, steps.observations), len(keep))
        return by_row(recurrence(seen, before, keep, *self._recurrent.kept(parameters)))

    def _valued(self, parameters: Tensor, memory: Tensor) -> Tensor:
        """Values [A, B, N] by the memories after steps, [A, B, H]."""
        return self._values(self._recurrent.outputs(parameters, memory))
