"""Shrink a game's screens to frames: each pixel is the mean of the area that it covers."""

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


class Resize:
    """Shrink an image from [height, width] to [size, size].

    The mean over areas is a linear map of the rows, followed by a linear map of the columns. Each map repeats
    in blocks: 210 rows become 84 in 42 blocks that map 5 rows to 2, and 160 columns become 84 in 4 blocks
    that map 40 columns to 21. So both maps are products with small matrices.
    """

    def __init__(self, height: int, width: int, size: int) -> None:
        blocks, periods = math.gcd(height, size), math.gcd(width, size)
        self._rows = areas(height // blocks, size // blocks)
        self._columns = areas(width // periods, size // periods).T.copy()
        # The first axis of these arrays is the row inside a block, so that one product computes all blocks.
        self._image = np.empty((height // blocks, blocks, width), np.float32)
        self._low = np.empty((size // blocks, blocks, width), np.float32)
        self._frame = np.empty((size // blocks, blocks, size), np.float32)

    def __call__(self, image: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
        """Write the frame of a u8 image [height, width], rounded, to u8 [size, size], contiguous."""
        tall, blocks, _ = self._image.shape
        low, _, size = self._frame.shape
        np.copyto(self._image, image.reshape(blocks, tall, -1).swapaxes(0, 1))
        np.matmul(self._rows, self._image.reshape(tall, -1), out=self._low.reshape(low, -1))
        wide, narrow = self._columns.shape
        np.matmul(self._low.reshape(-1, wide), self._columns, out=self._frame.reshape(-1, narrow))
        np.rint(self._frame, out=self._frame)
        np.copyto(out.reshape(blocks, low, size), self._frame.swapaxes(0, 1), casting="unsafe")


def areas(length: int, parts: int) -> Floats:
    """The share of each of `length` cells in each of `parts` equal parts, f32 [parts, length]; rows sum to
    1."""
    edges = np.arange(parts + 1) * length / parts
    cells = np.arange(length)
    overlap = np.minimum(edges[1:, None], cells + 1) - np.maximum(edges[:-1, None], cells)
    shares: Floats = (np.maximum(overlap, 0) * parts / length).astype(np.float32)
    return shares
