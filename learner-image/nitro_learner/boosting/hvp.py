"""Hessian-vector products by double backpropagation (Pearlmutter 1994)."""

from typing import Self

import torch
from torch import Tensor

from nitro_learner.boosting.surrogate import Function


class Hessian:
    """The Hessian of a function at its parameters' present values, as a linear operator on flat vectors [n].

    The gradients' graph is built once and kept for all products, until the end of a `with` block. `grad` is
    called, never `backward`: that would write to the parameters' `.grad`, and with create_graph=True make a
    reference cycle that holds the graph for ever.
    """

    def __init__(self, function: Function) -> None:
        self._parameters = list(function.parameters)
        self._sizes = [p.numel() for p in self._parameters]
        self._gradients: list[tuple[Tensor, ...]] = []
        with torch.enable_grad():
            for term in function.terms:
                self._gradients.append(
                    torch.autograd.grad(term(), self._parameters, create_graph=True, materialize_grads=True)
                )
        self.size = sum(self._sizes)
        self.dtype = self._parameters[0].dtype
        self.device = self._parameters[0].device

    def __call__(self, vector: Tensor) -> Tensor:
        """H v, [n]."""
        parts = [
            part.view_as(p)
            for part, p in zip(torch.split(vector, self._sizes), self._parameters, strict=True)
        ]
        result = torch.zeros_like(vector)
        for gradient in self._gradients:
            # A function that is linear in a parameter has no graph there: its row of the Hessian is zero.
            curved = [(g, v) for g, v in zip(gradient, parts, strict=True) if g.requires_grad]
            if not curved:
                continue
            # The gradient of g.v, not a product with `grad_outputs`: those make PyTorch import its symbolic
            # shapes and sympy, seconds within the first round.
            with torch.enable_grad():
                along = torch.stack([torch.dot(g.flatten(), v.flatten()) for g, v in curved]).sum()
            products = torch.autograd.grad(along, self._parameters, retain_graph=True, materialize_grads=True)
            result += torch.cat([p.flatten() for p in products])
        return result

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._gradients.clear()
