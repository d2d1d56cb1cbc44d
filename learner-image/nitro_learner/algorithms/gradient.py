"""Gradients of a minibatch's loss, apart from the optimiser that applies them.

A gradient follows from the weights and the minibatch alone. So it may be computed in another thread, process
or machine than the step that uses it.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(slots=True)
class Gradient:
    """The gradient of a mean loss by a network's parameters.

    Attributes:
        values: f32 [P], in the order of the network's `parameters()`, which is that of `ActorCritic.flat`.
            Valid until the next gradient of the same network is computed: copy them to keep them longer.
    """

    values: Tensor

    def clip_(self, norm: float) -> Tensor:
        """Scale down to a global norm, in place; 0 leaves it as it is. Return the norm before, f32 []."""
        before: Tensor = self.values.norm()
        if norm:
            self.values.mul_((norm / (before + 1e-6)).clamp(max=1.0))
        return before


class MeanNorm:
    """The mean norm of the gradients of a round, before they are clipped. It is summed where the gradients
    are: a number that the host reads would hold up a GPU at every step.
    """

    def __init__(self) -> None:
        self._sum: Tensor | None = None
        self._steps = 0

    def add(self, norm: Tensor) -> None:
        """Count a gradient step, by its norm, or those of several policies."""
        self._sum = norm.clone() if self._sum is None else self._sum.add_(norm)
        self._steps += 1

    def take(self) -> list[float]:
        """The means since the last call, one of each policy; none where there was no step."""
        means = [] if self._sum is None else (self._sum / self._steps).reshape(-1).tolist()
        self._sum, self._steps = None, 0
        return means
