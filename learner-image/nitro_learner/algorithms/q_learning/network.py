"""Q-networks of several policies, stacked."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from nitro_api.spec.network import Network
from nitro_learner.algorithms.agents.stacked import StackedPerceptron

UNAVAILABLE = -1e9
"""The value of an action that is not available, in the actor as in the learner."""


class QNetwork:
    """Observations to a value of each action, for P policies of one shape. Parameters are rows [P, n].

    A dueling network has two heads: Q = V + A - mean A (Wang et al. 2016, equation 9).

    Attributes:
        size: n.
    """

    def __init__(self, inputs: int, actions: int, network: Network, *, dueling: bool) -> None:
        """
        Args:
            inputs: D.
            actions: N.
            network: spec.network.
            dueling: whether it has two heads.
        """
        self._actions, self._dueling = actions, dueling
        heads = {"head": actions} | ({"value": 1} if dueling else {})
        self._perceptron = StackedPerceptron(inputs, network.hidden_sizes, heads, network.activation)
        self.size = self._perceptron.size

    def initial(self, generator: torch.Generator) -> Tensor:
        """Draw one policy's parameters as nn.Linear starts, f32 [n]."""
        return self._perceptron.initial(generator, orthogonal=False, head_gains={})

    def named(self, parameters: Tensor) -> dict[str, Tensor]:
        """The parameters [P, n] by the names that they have in messages, as views."""
        return {f"policy.{name}": value for name, value in self._perceptron.views(parameters).items()}

    def __call__(self, parameters: Tensor, x: Tensor) -> Tensor:
        """Values [P, B, N] of observations [P, B, D], with a graph that can be differentiated twice."""
        return self._values(self._perceptron(parameters, x))

    @torch.no_grad()
    def trace(self, parameters: Tensor, x: Tensor) -> tuple[list[Tensor], Tensor]:
        """The activations that `backpropagate` needs, and the values [P, B, N]."""
        trace = self._perceptron.trace(parameters, x)
        return trace, self._values(trace[-1])

    @torch.no_grad()
    def backpropagate(
        self, parameters: Tensor, trace: Sequence[Tensor], by_values: Tensor, into: Tensor
    ) -> None:
        """Add the parameters' gradients to `into` [P, n].

        Args:
            parameters: those of the trace.
            trace: of `trace`.
            by_values: the loss's gradient by the values, [P, B, N].
            into: [P, n].
        """
        if self._dueling:
            total = by_values.sum(-1, keepdim=True)
            by_values = torch.cat([by_values - total / self._actions, total], dim=-1)
        self._perceptron.backpropagate(parameters, trace, by_values, into)

    def _values(self, outputs: Tensor) -> Tensor:
        if not self._dueling:
            return outputs
        advantages, value = outputs[..., : self._actions], outputs[..., self._actions :]
        return value + advantages - advantages.mean(-1, keepdim=True)
