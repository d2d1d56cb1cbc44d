"""Gradients of a minibatch's loss, apart from the optimiser that applies them.

A gradient follows from the weights and the minibatch alone. So it may be computed in another thread, process
or machine than the step that uses it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import torch
from torch import Tensor, nn

Network = TypeVar("Network", bound=nn.Module, contravariant=True)
Minibatch = TypeVar("Minibatch", contravariant=True)


@dataclass(slots=True)
class Gradient:
    """The gradient of a mean loss by a network's parameters.

    Attributes:
        values: f32 [P], in the order of the network's `parameters()`, which is that of `ActorCritic.flat`.
            Valid until the next gradient of the same network is computed: copy them to keep them longer.
    """

    values: Tensor

    def clip_(self, norm: float) -> None:
        """Scale down to a global norm, in place; 0 leaves it as it is."""
        if norm:
            self.values.mul_((norm / (self.values.norm() + 1e-6)).clamp(max=1.0))


class GradientFunction(Protocol[Network, Minibatch]):
    """A function of weights and minibatch alone: equal ones give equal gradients, and neither changes."""

    def __call__(self, network: Network, minibatch: Minibatch) -> Gradient:
        """Return the gradient of the minibatch's mean loss at the network's present weights."""
        ...


def by_autograd(loss: Callable[[Network, Minibatch], Tensor]) -> GradientFunction[Network, Minibatch]:
    """Make the gradient function of any loss (a scalar with a graph) of any network.

    A new loss needs no more. A backward pass by hand, such as `ppo.gradient.PpoGradient`, is an optimisation;
    tests/benchmarks/bench_learner.py compares their speeds.
    """

    def gradient(network: Network, minibatch: Minibatch) -> Gradient:
        parameters = list(network.parameters())
        with torch.enable_grad():
            parts = torch.autograd.grad(loss(network, minibatch), parameters, materialize_grads=True)
        return Gradient(torch.cat([part.reshape(-1) for part in parts]))

    return gradient
