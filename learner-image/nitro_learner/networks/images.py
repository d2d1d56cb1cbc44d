"""Convolutions: images to features, with gradients by hand for training and by autograd for the detector."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from nitro_api.spec.network import ConvLayer, image_sizes
from nitro_learner.networks import kernels

Activation = Literal["tanh", "relu"]

_NHWC = torch.channels_last
"""The fastest layout for oneDNN's convolutions: 1.3 to 4.5 times as fast on a CPU (bench_learner.py)."""


@dataclass(frozen=True, slots=True)
class Image:
    """Shape of an image: [height, width, channels], or [height, width] with one channel."""

    height: int
    width: int
    channels: int


class Convolutions(nn.Module):
    """Layers of convolution and activation: images [n, height, width(, channels)] to features [n, F].

    u8 pixels are divided by 255, floats taken as they are. Features are in the order channel, row, column.

    Attributes:
        features: F.
    """

    def __init__(self, image: Image, layers: Sequence[ConvLayer], activation: Activation) -> None:
        """Raise ImageTooSmall where a filter does not fit into what reaches it."""
        super().__init__()
        self.activation = activation
        sizes = [(image.height, image.width), *image_sizes(image.height, image.width, layers)]
        channels = [image.channels, *(layer.channels for layer in layers)]
        self._channels = image.channels
        self.layers = nn.ModuleList(
            _ConvolutionLayer(before, layer, size)
            for before, layer, size in zip(channels[:-1], layers, sizes[:-1], strict=True)
        )
        self.features = channels[-1] * math.prod(sizes[-1])

    def reset(self, generator: torch.Generator, orthogonal: bool) -> None:
        """Initialise as Perceptron's hidden layers."""
        for layer in self._convolutions():
            if orthogonal:
                nn.init.orthogonal_(layer.weight, math.sqrt(2), generator)
                nn.init.zeros_(layer.bias)
            else:
                bound = 1 / math.sqrt(layer.weight[0].numel())
                nn.init.uniform_(layer.weight, -bound, bound, generator)
                nn.init.uniform_(layer.bias, -bound, bound, generator)

    def forward(self, observations: Tensor) -> Tensor:
        x = self._pixels(observations)
        for layer in self._convolutions():
            x = layer(x)
            x = torch.tanh(x) if self.activation == "tanh" else torch.relu(x)
        return x.flatten(1)

    @torch.no_grad()
    def trace(self, observations: Tensor) -> list[Tensor]:
        """Each layer's input, and the last one's activation, without a graph."""
        x = self._pixels(observations)
        trace = []
        for layer in self._convolutions():
            trace.append(layer.pad(x))
            z = torch.conv2d(trace[-1], layer.weight, layer.bias, layer.stride, layer.padding)
            x = z.tanh_() if self.activation == "tanh" else z.relu_()
        return [*trace, x]

    @torch.no_grad()
    def backpropagate(self, trace: list[Tensor], grad: Tensor) -> None:
        """Add the parameters' gradients to `.grad`, given a trace and the loss's gradient by its features [n,
        F]."""
        layers = self._convolutions()
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
                layer.weight,
                layer.stride,
                layer.padding,
                by_input=index > 0,
                by_weight=True,
                by_bias=True,
            )
            assert layer.weight.grad is not None, "the parameters of a trained network have been flattened"
            assert layer.bias.grad is not None
            layer.weight.grad.add_(by_weight)
            layer.bias.grad.add_(by_bias)
            if index > 0:
                grad = layer.crop(by_input)

    def _pixels(self, observations: Tensor) -> Tensor:
        """[n, height, width(, channels)] to float [n, channels, height, width] in NHWC's layout."""
        x = observations.reshape(*observations.shape[:3], self._channels).permute(0, 3, 1, 2)
        dtype = next(self.parameters()).dtype
        scaled = x.to(dtype).mul_(1 / 255) if x.dtype == torch.uint8 else x.to(dtype)
        return scaled.contiguous(memory_format=_NHWC)

    def _convolutions(self) -> list["_ConvolutionLayer"]:
        return list(self.layers)  # type: ignore[arg-type]


class _ConvolutionLayer(nn.Module):
    """One layer's parameters, filled by `Convolutions.reset`, and its padding."""

    def __init__(self, channels: int, layer: ConvLayer, size: tuple[int, int]) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(layer.channels, channels, layer.kernel, layer.kernel))
        self.bias = nn.Parameter(torch.empty(layer.channels))
        self.stride = layer.stride
        totals = [_padding(n, layer) for n in size]
        # The operator itself pads both sides equally, which is fastest. An odd zero is appended before that.
        self.padding = [total // 2 for total in totals]
        self._below, self._right = (total % 2 for total in totals)

    def forward(self, x: Tensor) -> Tensor:
        return kernels.convolution(self.pad(x), self.weight, self.bias, self.stride, self.padding)

    def pad(self, x: Tensor) -> Tensor:
        """Append the odd zeros."""
        odd = (0, self._right, 0, self._below)
        return nn.functional.pad(x, odd) if any(odd) else x

    def crop(self, x: Tensor) -> Tensor:
        """Remove the zeros that `pad` appended."""
        return x[:, :, : x.shape[2] - self._below, : x.shape[3] - self._right]


def _padding(size: int, layer: ConvLayer) -> int:
    """The number of zeros around a side; with `same`, the fewest with which the kernels cover the side."""
    if layer.padding == "valid":
        return 0
    return max((math.ceil(size / layer.stride) - 1) * layer.stride + layer.kernel - size, 0)
