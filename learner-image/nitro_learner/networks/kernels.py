"""Dense products, convolutions and tanh at the speed of the machine, for the hand-written passes and for
autograd alike.

On a CPU, PyTorch computes float32 products with MKL. On AMD, MKL has half of oneDNN's speed; on Intel, oneDNN
takes twice MKL's time for a weight's gradient. On AMD, PyTorch's tanh takes ten times as long as NumPy's. So
this module uses oneDNN, which comes with PyTorch, except on Intel, and NumPy's tanh. Cases that these do not
cover (other dtypes, CUDA, small products, a PyTorch without oneDNN) use PyTorch's own operators. PyTorch
computes the second derivative of a convolution by dilated convolutions, which are slow. Here it is made of
the same three operators as the first derivative. tests/benchmarks/bench_learner.py has figures.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from nitro_actor.processor import INTEL

_ONEDNN_ABOVE = 2**20
"""From this number of multiply-adds on oneDNN is faster, in spite of its 14 us per call."""

_TAKES_ONEDNN = not INTEL and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def matmul(x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor:
    """x w^T + bias: [n, i], [o, i], [o] -> [n, o]. Without a graph."""
    if (
        _TAKES_ONEDNN
        and x.dtype == torch.float32
        and not x.is_cuda
        and x.shape[0] * w.numel() > _ONEDNN_ABOVE
    ):
        return torch.ops.mkldnn._linear_pointwise(x, w, bias, "none", [], "")  # type: ignore[no-any-return]
    return x @ w.t() if bias is None else torch.addmm(bias, x, w.t())


def tanh_(x: Tensor) -> Tensor:
    """tanh in place. Without a graph. On a CPU it is the actors' own, so the two agree to the last bits."""
    if x.is_cuda:
        return x.tanh_()
    array = x.numpy()
    np.tanh(array, out=array)
    return x


class _MatMul(Function):
    """x w^T, differentiable any number of times; its gradients are products again."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
        ctx.save_for_backward(x, w)
        return matmul(x, w)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, w = ctx.saved_tensors
        needs_x, needs_w = ctx.needs_input_grad
        return (
            _MatMul.apply(grad, w.t()) if needs_x else None,
            _OuterProduct.apply(grad, x) if needs_w else None,
        )


class _OuterProduct(Function):
    """g^T x: [n, o], [n, i] -> [o, i]. Its own class, because the transposed result of a product would make
    every operation after it strided."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, x: Tensor) -> Tensor:
        ctx.save_for_backward(g, x)
        return matmul(g.t(), x.t())

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        g, x = ctx.saved_tensors
        needs_g, needs_x = ctx.needs_input_grad
        return (
            _MatMul.apply(x, grad) if needs_g else None,
            _MatMul.apply(g, grad.t()) if needs_x else None,
        )


class _Convolution(Function):
    """x * w, differentiable twice. Its gradients are bilinear too; theirs are the same three operators."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, stride: int, padding: list[int]) -> Tensor:
        ctx.save_for_backward(x, w)
        ctx.where = stride, padding
        return torch.conv2d(x, w, None, stride, padding)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        x, w = ctx.saved_tensors
        needs_x, needs_w = ctx.needs_input_grad[:2]
        return (
            _ConvolutionByInput.apply(grad, w, x, *ctx.where) if needs_x else None,
            _ConvolutionByWeight.apply(grad, x, w, *ctx.where) if needs_w else None,
            None,
            None,
        )


class _ConvolutionByInput(Function):
    """The gradient by x, of which only the shape matters."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, w: Tensor, x: Tensor, stride: int, padding: list[int]) -> Tensor:
        ctx.save_for_backward(g, w)
        ctx.where = stride, padding
        return convolution_gradients(g, x, w, stride, padding, by_input=True)[0]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None, None, None]:
        g, w = ctx.saved_tensors
        needs_g, needs_w = ctx.needs_input_grad[:2]
        by_g = torch.conv2d(grad, w, None, *ctx.where) if needs_g else None
        by_w = convolution_gradients(g, grad, w, *ctx.where, by_weight=True)[1] if needs_w else None
        return by_g, by_w, None, None, None


class _ConvolutionByWeight(Function):
    """The gradient by w, of which only the shape matters."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, x: Tensor, w: Tensor, stride: int, padding: list[int]) -> Tensor:
        ctx.save_for_backward(g, x)
        ctx.where = stride, padding
        return convolution_gradients(g, x, w, stride, padding, by_weight=True)[1]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None, None, None, None]:
        g, x = ctx.saved_tensors
        needs_g, needs_x = ctx.needs_input_grad[:2]
        by_g = torch.conv2d(x, grad, None, *ctx.where) if needs_g else None
        by_x = convolution_gradients(g, x, grad, *ctx.where, by_input=True)[0] if needs_x else None
        return by_g, by_x, None, None, None


def convolution_gradients(
    g: Tensor,
    x: Tensor,
    w: Tensor,
    stride: int,
    padding: list[int],
    *,
    by_input: bool = False,
    by_weight: bool = False,
    by_bias: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of conv2d(x, w, bias), given the gradient g by its output. Those that are not wanted are
    undefined. Without a graph."""
    gradients: tuple[Tensor, Tensor, Tensor] = torch.ops.aten.convolution_backward(
        g,
        x,
        w,
        [w.shape[0]],
        [stride] * 2,
        padding,
        [1, 1],
        False,
        [0, 0],
        1,
        [by_input, by_weight, by_bias],
    )
    return gradients


class _Tanh(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = tanh_(x.clone())
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        result: Tensor = _TanhGradient.apply(grad, *ctx.saved_tensors)
        return result


class _TanhGradient(Function):
    """g (1 - y^2). One factor of its gradient is the same in all Hessian-vector products: computed once."""

    @staticmethod
    def forward(ctx: Any, g: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(y, -2 * g * y)
        result: Tensor = torch.ops.aten.tanh_backward(g, y)
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        y, by_y = ctx.saved_tensors
        return torch.ops.aten.tanh_backward(grad, y), grad * by_y


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """torch.nn.functional.linear, with a graph, twice differentiable."""
    return _MatMul.apply(x, weight) + bias  # type: ignore[no-any-return]


def tanh(x: Tensor) -> Tensor:
    """torch.tanh, with a graph, twice differentiable."""
    return _Tanh.apply(x)  # type: ignore[no-any-return]


def convolution(x: Tensor, weight: Tensor, bias: Tensor, stride: int, padding: list[int]) -> Tensor:
    """torch.conv2d, with a graph, twice differentiable."""
    return _Convolution.apply(x, weight, stride, padding) + bias[:, None, None]  # type: ignore[no-any-return]
