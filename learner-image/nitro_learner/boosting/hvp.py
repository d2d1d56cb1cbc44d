"""Hessian-vector products by double backpropagation (Pearlmutter 1994)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from nitro_learner.boosting.surrogate import Function
from nitro_learner.networks.steps import CapturedStep, Graphs


@dataclass(frozen=True, slots=True)
class _Vector:
    """The vector of a product; see `nitro_learner.networks.steps.Inputs`."""

    vector: Tensor

    def tensors(self) -> list[Tensor]:
        return [self.vector]

    def with_tensors(self, tensors: Sequence[Tensor]) -> Self:
        return type(self)(*tensors)


class Hessian:
    """The Hessian of a function at its parameters' present values, as a linear operator on flat vectors [n].

    The gradients' graph is built once and kept for all products, until the end of a `with` block. `grad` is
    called, never `backward`: that would write to the parameters' `.grad`, and with create_graph=True make a
    reference cycle that holds the graph for ever.
    """

    def __init__(self, function: Function, graphs: Graphs | None = None) -> None:
        """
        Args:
            function: see the class.
            graphs: captures the product; None to compute each one by itself.
        """
        self._parameters = list(function.parameters)
        self._sizes = [p.numel() for p in self._parameters]
        self._gradients: list[tuple[Tensor, ...]] = []
        self.size = sum(self._sizes)
        self.dtype = self._parameters[0].dtype
        self.device = self._parameters[0].device
        self._captured: CapturedStep[_Vector] | None = None
        if graphs is None or graphs.recorder is None:
            self._differentiate(function)
            return
        # Where products are captured: backpropagation computes a node where its forward pass was computed.
        graphs.recorder.call(lambda: self._differentiate(function))
        self._captured = CapturedStep(self._multiply, graphs)
        self._result = torch.zeros(self.size, dtype=self.dtype, device=self.device)

    def _differentiate(self, function: Function) -> None:
        with torch.enable_grad():
            for term in function.terms:
                self._gradients.append(
                    torch.autograd.grad(term(), self._parameters, create_graph=True, materialize_grads=True)
                )

    def __call__(self, vector: Tensor) -> Tensor:
        """H v, [n]."""
        if self._captured is None:
            return self._product(vector)
        self._captured(_Vector(vector))
        return self._result.clone()

    def _multiply(self, inputs: _Vector) -> None:
        self._result.copy_(self._product(inputs.vector))

    def _product(self, vector: Tensor) -> Tensor:
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
        self._captured = None
