"""Norms of gradients."""

from __future__ import annotations

import torch
from torch import Tensor


@torch.no_grad()
def clip_rows(gradient: Tensor, norm: float) -> Tensor:
    """Scale each policy's gradient, a row of [P, n], down to a norm, in place; 0 leaves them as they are.
    Return the norms before, f32 [P]."""
    norms: Tensor = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
    if norm:
        gradient.mul_((norm / (norms + 1e-6)).clamp(max=1.0))
    return norms.squeeze(1)


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
