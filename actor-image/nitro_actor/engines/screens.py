"""Screens of a game to frames: smaller, each pixel the mean of the area that it covers."""

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


class Resize:
    """Images [n, height, width] to [n, size, size].

    The mean over areas is a linear map of the columns, then one of the rows. The columns' repeats: 160 become
    84 as 4 times 40 become 21, which makes that product four times smaller.

    Args:
        count: n.
        height, width: of the images.
        size: of the frames.
    """

    def __init__(self, count: int, height: int, width: int, size: int) -> None:
        period = math.gcd(width, size)
        self._columns = areas(width // period, size // period).T.copy()
        self._rows = areas(height, size)
        self._images = np.empty((count, height, width), np.float32)
        self._narrow = np.empty((count, height, size), np.float32)
        self._frames = np.empty((count, size, size), np.float32)

    def __call__(self, images: NDArray[np.uint8], out: NDArray[np.uint8]) -> None:
        """Write the frames of u8 images [n, height, width], rounded, to u8 [n, size, size]."""
        np.copyto(self._images, images)
        wide, narrow = self._columns.shape
        np.matmul(self._images.reshape(-1, wide), self._columns, out=self._narrow.reshape(-1, narrow))
        np.matmul(self._rows, self._narrow, out=self._frames)
        np.rint(self._frames, out=self._frames)
        np.copyto(out, self._frames, casting="unsafe")


def areas(length: int, parts: int) -> Floats:
    """The share of each of `length` cells in each of `parts` equal parts, f32 [parts, length]; rows sum to
    1."""
    edges = np.arange(parts + 1) * length / parts
    cells = np.arange(length)
    overlap = np.minimum(edges[1:, None], cells + 1) - np.maximum(edges[:-1, None], cells)
    return (np.maximum(overlap, 0) * parts / length).astype(np.float32)
