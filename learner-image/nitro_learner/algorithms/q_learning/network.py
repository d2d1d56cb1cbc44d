"""Q-networks of several policies, stacked."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from nitro_actor import masks
from nitro_api.spec.network import Network
from nitro_learner.algorithms.agents.stacked_recurrent import StackedRecurrent
from nitro_learner.networks.stacked import StackedPerceptron

UNAVAILABLE = float(masks.UNAVAILABLE)
"""The value of an action that is not available, as a number of PyTorch."""


class ActionValues:
    """Networks that give each action a value, for P policies of one shape. Parameters are rows [P, n].

    A dueling network has two heads: Q = V + A - mean A (Wang et al. 2016, equation 9).

    Attributes:
        size: n.
    """

    def __init__(self, layers: StackedPerceptron | StackedRecurrent, actions: int, *, dueling: bool) -> None:
        """
        Args:
            layers: with the heads that `heads` says.
            actions: N.
            dueling: whether they have two heads.
        """
        self._layers, self._actions, self._dueling = layers, actions, dueling
        self.size = layers.size

    def initial(self, generator: torch.Generator) -> Tensor:
        """Draw one policy's parameters as nn.Linear and nn.GRU start, f32 [n]."""
        return self._layers.initial(generator, orthogonal=False, head_gains={})

    def named(self, parameters: Tensor) -> dict[str, Tensor]:
        """The parameters [P, n] by the names that they have in messages, as views."""
        return {f"policy.{name}": value for name, value in self._layers.views(parameters).items()}

    def values(self, outputs: Tensor) -> Tensor:
        """The values [P, B, N] that the heads' outputs stand for."""
        if not self._dueling:
            return outputs
        advantages, value = outputs[..., : self._actions], outputs[..., self._actions :]
        return value + advantages - advantages.mean(-1, keepdim=True)

    def by_outputs(self, by_values: Tensor) -> Tensor:
        """A gradient by the values as one by the heads' outputs."""
        if not self._dueling:
            return by_values
        total = by_values.sum(-1, keepdim=True)
        return torch.cat([by_values - total / self._actions, total], dim=-1)


def heads(actions: int, *, dueling: bool) -> dict[str, int]:
    """Outputs of each head by name."""
    return {"head": actions} | ({"value": 1} if dueling else {})


class QNetwork(ActionValues):
    """Observations to a value of each action."""

    def __init__(self, inputs: int, actions: int, network: Network, *, dueling: bool) -> None:
        """
        Args:
            inputs: D.
            actions: N.
            network: spec.network.
            dueling: whether it has two heads.
        """
        self._perceptron = StackedPerceptron(
            inputs, network.hidden_sizes, heads(actions, dueling=dueling), network.activation
        )
        super().__init__(self._perceptron, actions, dueling=dueling)

    def __call__(self, parameters: Tensor, x: Tensor) -> Tensor:
        """Values [P, B, N] of observations [P, B, D], with a graph that can be differentiated twice."""
        return self.values(self._perceptron(parameters, x))

    @torch.no_grad()
    def trace(self, parameters: Tensor, x: Tensor) -> tuple[list[Tensor], Tensor]:
        """The activations that `backpropagate` needs, and the values [P, B, N]."""
        trace = self._perceptron.trace(parameters, x)
        return trace, self.values(trace[-1])

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
        self._perceptron.backpropagate(parameters, trace, self.by_outputs(by_values), into)
