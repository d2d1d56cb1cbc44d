"""Convolutions: images to features, with gradients by hand for training and by autograd for the detector.

They hold no parameters: every method takes them, the weight and the bias of each layer.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from nitro_api.spec.network import ConvLayer, image_sizes
from nitro_learner.networks import kernels

Activation = Literal["tanh", "relu"]

Weights = Sequence[tuple[Tensor, Tensor]]
"""The weight and the bias of each layer, as views."""

_NHWC = torch.channels_last
"""The fastest layout for oneDNN's convolutions: 1.3 to 4.5 times as fast on a CPU (bench_learner.py)."""


@dataclass(frozen=True, slots=True)
class Image:
    """Shape of an image: [height, width, channels], or [height, width] with one channel."""

    height: int
    width: int
    channels: int


class Convolutions:
    """Layers of convolution and activation: images [n, height, width(, channels)] to features [n, F].

    u8 pixels are divided by 255, floats taken as they are. Features are in the order channel, row, column.

    Attributes:
        features: F.
        layers: their shapes.
    """

    def __init__(self, image: Image, layers: Sequence[ConvLayer], activation: Activation) -> None:
        """Raise ImageTooSmall where a filter does not fit into what reaches it."""
        self.activation = activation
        sizes = [(image.height, image.width), *image_sizes(image.height, image.width, layers)]
        channels = [image.channels, *(layer.channels for layer in layers)]
        self._channels = image.channels
        self.layers = [
            ConvolutionShape.of(before, layer, size)
            for before, layer, size in zip(channels[:-1], layers, sizes[:-1], strict=True)
        ]
        self.features = channels[-1] * math.prod(sizes[-1])

    def __call__(self, weights: Weights, observations: Tensor) -> Tensor:
        """The features, with a graph that can be differentiated twice."""
        x = self._pixels(observations, weights[0][0].dtype)
        for layer, (weight, bias) in zip(self.layers, weights, strict=True):
            x = kernels.convolution(layer.pad(x), weight, bias, layer.stride, layer.padding)
            x = torch.tanh(x) if self.activation == "tanh" else torch.relu(x)
        return x.flatten(1)

    @torch.no_grad()
    def trace(self, weights: Weights, observations: Tensor) -> list[Tensor]:
        """Each layer's input, and the last one's activation, without a graph."""
        x = self._pixels(observations, weights[0][0].dtype)
        trace = []
        for layer, (weight, bias) in zip(self.layers, weights, strict=True):
            trace.append(layer.pad(x))
            z = torch.conv2d(trace[-1], weight, bias, layer.stride, layer.padding)
            x = z.tanh_() if self.activation == "tanh" else z.relu_()
        return [*trace, x]

    @torch.no_grad()
    def backpropagate(self, weights: Weights, trace: Sequence[Tensor], grad: Tensor, into: Weights) -> None:
        """Add the parameters' gradients to `into`, given a trace and the loss's gradient by its features [n,
        F]."""
        layers = self.layers
        grad = grad.reshape(trace[-1].shape).contiguous(memory_format=_NHWC)
        for index in reversed(range(len(layers))):
            layer = layers[index]
            # The layer's output: the next one's input without its padding.
            output = trace[-1] if layer is layers[-1] else layers[index + 1].crop(trace[index + 1])
            if self.activation == "tanh":
                grad = torch.ops.aten.tanh_backward(grad, output)
            else:
                grad = torch.ops.aten.threshold_backward(grad, output, 0)
            by_input, by_weight, by_bias = kernels.convolution_gradients(
                grad,
                trace[index],
                weights[index][0],
                layer.stride,
                layer.padding,
                by_input=index > 0,
                by_weight=True,
                by_bias=True,
            )
            into[index][0].add_(by_weight)
            into[index][1].add_(by_bias)
            if index > 0:
                grad = layer.crop(by_input)

    def _pixels(self, observations: Tensor, dtype: torch.dtype) -> Tensor:
        """[n, height, width(, channels)] to float [n, channels, height, width] in NHWC's layout."""
        x = observations.reshape(*observations.shape[:3], self._channels).permute(0, 3, 1, 2)
        scaled = x.to(dtype).mul_(1 / 255) if x.dtype == torch.uint8 else x.to(dtype)
        return scaled.contiguous(memory_format=_NHWC)


@dataclass(frozen=True, slots=True)
class ConvolutionShape:
    """One layer's shape.

    Attributes:
        weight: shape of its filters, [channels, channels below, kernel, kernel].
        stride: of the filters.
        padding: zeros on both sides of rows and columns. The operator itself pads both sides equally, which
            is fastest. An odd zero is appended before that.
        odd: the odd zeros below and on the right.
    """

    weight: tuple[int, int, int, int]
    stride: int
    padding: list[int]
    odd: tuple[int, int]

    @classmethod
    def of(cls, channels: int, layer: ConvLayer, size: tuple[int, int]) -> "ConvolutionShape":
        """The shape of a layer that sees `channels` of images of a size."""
        below, right = (_padding(n, layer) for n in size)
        weight = (layer.channels, channels, layer.kernel, layer.kernel)
        return cls(weight, layer.stride, [below // 2, right // 2], (below % 2, right % 2))

    def pad(self, x: Tensor) -> Tensor:
        """Append the odd zeros."""
        below, right = self.odd
        return nn.functional.pad(x, (0, right, 0, below)) if below or right else x

    def crop(self, x: Tensor) -> Tensor:
        """Remove the zeros that `pad` appended."""
        below, right = self.odd
        return x[:, :, : x.shape[2] - below, : x.shape[3] - right]


def _padding(size: int, layer: ConvLayer) -> int:
    """The number of zeros around a side; with `same`, the fewest with which the kernels cover the side."""
    if layer.padding == "valid":
        return 0
    return max((math.ceil(size / layer.stride) - 1) * layer.stride + layer.kernel - size, 0)
