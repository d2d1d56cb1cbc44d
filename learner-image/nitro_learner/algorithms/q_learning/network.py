"""Q-networks of several policies, stacked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from nitro_api.spec.network import Network
from nitro_learner.algorithms.agents.stacked_recurrent import StackedRecurrent
from nitro_learner.algorithms.q_learning.batch import Steps, Transitions
from nitro_learner.networks.distributions import UNAVAILABLE
from nitro_learner.networks.stacked import StackedPerceptron


class QNetwork(ABC):
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

    @abstractmethod
    def __call__(self, parameters: Tensor, steps: Steps) -> Tensor:
        """Values [A, B, N] in steps, with a graph that can be differentiated twice.

        Args:
            parameters: of each lane's policy, [A, n].
            steps: A lanes of B.
        """

    @abstractmethod
    def trace(self, parameters: Tensor, steps: Steps) -> tuple[list[Tensor], Tensor]:
        """What `backpropagate` needs, and the values [A, B, N] without a graph. Arguments as `__call__`."""

    @abstractmethod
    def backpropagate(
        self, parameters: Tensor, trace: Sequence[Tensor], by_values: Tensor, into: Tensor
    ) -> None:
        """Add the parameters' gradients to `into` [A, n].

        Args:
            parameters: those of the trace.
            trace: of `trace`.
            by_values: the loss's gradient by the values, [A, B, N].
            into: [A, n].
        """

    @abstractmethod
    def first_values(self, parameters: Tensor, x: Tensor) -> Tensor:
        """Values [A, B, N] of single observations [A, B, D], each an episode's first."""

    @abstractmethod
    def _following(
        self, transitions: Transitions, parameters: Tensor | None, targets: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The values [A, B, N] of what follows: by the target networks, and by the learned ones, or by the
        target networks again where there are no parameters of the learned ones."""

    @torch.no_grad()
    def next_values(
        self, transitions: Transitions, parameters: Tensor, targets: Tensor, *, double: bool
    ) -> Tensor:
        """The target networks' values [A, B] of the best actions that follow, 0 where none counts.

        Args:
            transitions: A lanes of B.
            parameters, targets: of the learned networks and of the target networks, [A, n].
            double: whether the learned network says which action is best (van Hasselt et al. 2016).
        """
        rated, judged = self._following(transitions, parameters if double else None, targets)
        if transitions.available is not None:
            judged = torch.where(transitions.available, judged, UNAVAILABLE)
        best = judged.argmax(-1, keepdim=True)
        return rated.gather(-1, best)[..., 0] * transitions.bootstraps

    def initial(self, generator: torch.Generator) -> Tensor:
        """Draw one policy's parameters as nn.Linear and nn.GRU start, f32 [n]."""
        return self._layers.initial(generator, orthogonal=False, head_gains={})

    def named(self, parameters: Tensor) -> dict[str, Tensor]:
        """The parameters [P, n] by the names that they have in messages, as views."""
        return {f"policy.{name}": value for name, value in self._layers.views(parameters).items()}

    def _values(self, outputs: Tensor) -> Tensor:
        """The values [A, B, N] that the heads' outputs stand for."""
        if not self._dueling:
            return outputs
        advantages, value = outputs[..., : self._actions], outputs[..., self._actions :]
        return value + advantages - advantages.mean(-1, keepdim=True)


def heads(actions: int, *, dueling: bool) -> dict[str, int]:
    """Outputs of each head by name."""
    return {"head": actions} | ({"value": 1} if dueling else {})


class FeedForwardQNetwork(QNetwork):
    """An observation to a value of each action."""

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

    def __call__(self, parameters: Tensor, steps: Steps) -> Tensor:
        return self.first_values(parameters, steps.observations)

    def trace(self, parameters: Tensor, steps: Steps) -> tuple[list[Tensor], Tensor]:
        return self._trace(parameters, steps.observations)

    @torch.no_grad()
    def backpropagate(
        self, parameters: Tensor, trace: Sequence[Tensor], by_values: Tensor, into: Tensor
    ) -> None:
        if self._dueling:  # the gradient by the heads' outputs
            total = by_values.sum(-1, keepdim=True)
            by_values = torch.cat([by_values - total / self._actions, total], dim=-1)
        self._perceptron.backpropagate(parameters, trace, by_values, into)

    def first_values(self, parameters: Tensor, x: Tensor) -> Tensor:
        return self._values(self._perceptron(parameters, x))

    def _following(
        self, transitions: Transitions, parameters: Tensor | None, targets: Tensor
    ) -> tuple[Tensor, Tensor]:
        rated = self._trace(targets, transitions.following)[1]
        return rated, rated if parameters is None else self._trace(parameters, transitions.following)[1]

    @torch.no_grad()
    def _trace(self, parameters: Tensor, x: Tensor) -> tuple[list[Tensor], Tensor]:
        trace = self._perceptron.trace(parameters, x)
        return trace, self._values(trace[-1])
