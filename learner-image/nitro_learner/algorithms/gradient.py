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

    def clip_(self, norm: float) -> None:
        """Scale down to a global norm, in place; 0 leaves it as it is."""
        if norm:
            self.values.mul_((norm / (self.values.norm() + 1e-6)).clamp(max=1.0))
