"""One convolution in numpy: gather patches into a matrix, multiply, add the bias, apply the activation."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from nitro_actor.matmul import Floats, Product, divisor, product
from nitro_actor.scratch import Scratch

_CACHED_BYTES = 2**19
"""Bytes of patches that are gathered, converted and multiplied at a time: they stay in a core's cache."""


class Shape(NamedTuple):
    """The shape of one image."""

    height: int
    width: int
    channels: int

    @property
    def size(self) -> int:
        return self.height * self.width * self.channels

    def behind(self, layer: Mapping[str, Any]) -> "Shape":
        """Return the output shape of a layer whose input has this shape."""
        trimmed = layer["kernel"] - 1 if layer["padding"] == "valid" else 0
        height, width = (math.ceil((n - trimmed) / layer["stride"]) for n in (self.height, self.width))
        return Shape(height, width, layer["channels"])


@dataclass(frozen=True, slots=True)
class _Buffers:
    """What a number of images of a dtype is computed in.

    Attributes:
        inside: the view of the padded images that holds the images themselves.
        parts: which patches are gathered together, as views of the padded images, and where their product
            goes.
        patches: where they are gathered.
        matrix: the same as a matrix of pixels.
        floats: the same as a matrix of floats; the same array where the pixels are floats.
        multiply: the product of those with the weight, of pixels with its 255th part.
        product: of all images, one row for each place.
        rows: the same, one row for each row of the output.
    """

    inside: np.ndarray
    parts: list[tuple[np.ndarray, Floats]]
    patches: np.ndarray
    matrix: np.ndarray
    floats: Floats
    multiply: Product
    product: Floats
    rows: Floats


class Convolution:
    """A layer for E images at a time, with buffers that a thread's calls reuse.

    The first layer reads planes, f32 or u8 [E, channels, height, width]: a row of a patch is then one item to
    copy (8 pixels are 8 bytes). Further layers read [E, height, width, channels], as layers return it, where
    a row of a patch is one item for all its channels.

    Args:
        weight: f32 [channels, channels before, kernel, kernel].
        bias: f32 [channels].
        activation: of (array, out=array).
    """

    def __init__(
        self,
        image: Shape,
        layer: Mapping[str, Any],
        weight: Floats,
        bias: Floats,
        activation: Callable[..., Floats],
        *,
        first: bool,
    ) -> None:
        self.output = image.behind(layer)
        self._image = image
        self._kernel, self._stride = layer["kernel"], layer["stride"]
        same = layer["padding"] == "same"
        sides = zip(image[:2], self.output[:2], strict=True)
        self._pad = [_padding(n, m, self._kernel, self._stride) if same else (0, 0) for n, m in sides]
        self._first = first
        order = (1, 2, 3, 0) if first else (2, 3, 1, 0)
        self._weight = np.ascontiguousarray(weight.transpose(order).reshape(-1, self.output.channels))
        # The bias is added to a whole row of the output at once: adding it to a few channels at a time would
        # cost more than the product.
        self._bias = np.tile(bias, self.output.width)
        self._activation = activation
        self._scratch = Scratch()

    def __call__(self, images: np.ndarray) -> Floats:
        """[E, height, width, channels] of the layer's output; the thread's next call overwrites it."""
        scratch, key = self._scratch, (len(images), images.dtype)
        if scratch.key != key:
            scratch.key, scratch.arrays = key, self._buffers(*key)
        buffers: _Buffers = scratch.arrays
        np.copyto(buffers.inside, images)
        matrix, floats, multiply = buffers.matrix, buffers.floats, buffers.multiply
        pixels = matrix.dtype != floats.dtype
        for windows, part in buffers.parts:
            np.copyto(buffers.patches, windows)
            if pixels:
                np.copyto(floats, matrix)
            multiply(floats, part)
        np.add(buffers.rows, self._bias, out=buffers.rows)
        self._activation(buffers.product, out=buffers.product)
        return buffers.product.reshape(len(images), *self.output)

    def _buffers(self, rows: int, dtype: np.dtype[Any]) -> _Buffers:
        """Make the buffers, and the views by which patches are copied."""
        kernel, stride, (height, width, channels) = self._kernel, self._stride, self._image
        (top, bottom), (left, right) = self._pad
        tall, wide = height + top + bottom, width + left + right
        out_height, out_width, out_channels = self.output
        if self._first:
            padded = np.zeros((rows, channels, tall, wide), dtype)
            inside = padded[:, :, top : top + height, left : left + width]
            by_image, by_channel, by_row, by_column = padded.strides
            run = kernel
            shape: tuple[int, ...] = (channels, kernel)
            strides: tuple[int, ...] = (by_channel, by_row)
        else:
            padded = np.zeros((rows, tall, wide, channels), dtype)
            inside = padded[:, top : top + height, left : left + width]
            by_image, by_row, by_column, _ = padded.strides
            run, shape, strides = kernel * channels, (kernel,), (by_row,)
        item = _item(run * dtype.itemsize)
        windows = np.ndarray(
            (rows, out_height, out_width, *shape),
            item,
            padded,
            strides=(by_image, stride * by_row, stride * by_column, *strides),
        )
        places = out_height * out_width
        most = max(1, _CACHED_BYTES // (places * len(self._weight) * 4))
        part = divisor(rows, most)
        matrix = np.empty((part * places, len(self._weight)), dtype)
        patches = matrix.view(item).reshape(part, *windows.shape[1:])
        floats = matrix if dtype == np.float32 else np.empty(matrix.shape, np.float32)
        multiply = product(self._weight if floats is matrix else self._weight / np.float32(255), len(matrix))
        result = np.empty((rows * places, out_channels), np.float32)
        begins = range(0, rows, part)
        parts = [(windows[i : i + part], result[i * places :][: part * places]) for i in begins]
        by_rows = result.reshape(rows * out_height, out_width * out_channels)
        return _Buffers(inside, parts, patches, matrix, floats, multiply, result, by_rows)


def _padding(size: int, parts: int, kernel: int, stride: int) -> tuple[int, int]:
    """Zeros before and after a side: the fewest that give `parts` outputs. An odd zero goes after it."""
    total = max((parts - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


def _item(size: int) -> np.dtype[Any]:
    """A dtype of `size` bytes, which numpy copies as one item."""
    return np.dtype(f"u{size}" if size in (1, 2, 4, 8) else f"V{size}")
