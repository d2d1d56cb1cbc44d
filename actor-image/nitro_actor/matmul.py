"""Matrix products of a few rows with a layer's weight, in blocks that OpenBLAS multiplies without copying.

OpenBLAS first copies ("packs") large matrices into another order. That pays if each number is used many
times, but a policy for a few observations multiplies by few columns or few rows, and waits for the copies.
For AVX-512, OpenBLAS has kernels that read small matrices where they are
(sgemm_small_kernel_permit_skylakex.c): with these the networks for images take half of the time
(bench_actor.py).
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from nitro_actor.processor import AVX512

Floats = NDArray[np.float32]

_SMALL = 700_000
"""Multiplications of a block: well below OpenBLAS' own limit of 100^3."""
_FEWEST_ROWS = 8
"""Fewest rows of a block: with fewer, reading the weight takes longer than multiplying."""
_FEW_ROWS = 16
"""With more of them a copy of the weight pays."""


Product = Callable[[Floats, Floats], None]
"""Writes x @ weight to an array: of (x [M, K], out [M, N]), both contiguous; for one thread."""


def product(weight: Floats, rows: int) -> Product:
    """The fastest product of x [M, K] with a weight [K, N], f32, for this M; or of p weights at once, of x
    [p, M, K] with weights [p, K, N]."""
    depth, width = weight.shape[-2:]
    if weight.ndim == 2 and AVX512 and rows * depth * width > _SMALL:
        block = divisor(rows, _SMALL // (depth * width))
        if block >= _FEWEST_ROWS:
            return _by_rows(weight, block)
        part = divisor(depth, _SMALL // (rows * width))
        if rows <= _FEW_ROWS and part > 1:
            return _by_depth(weight, rows, part)

    def multiply(x: Floats, out: Floats) -> None:
        np.matmul(x, weight, out=out)

    return multiply


def _by_rows(weight: Floats, block: int) -> Product:
    depth, width = weight.shape

    def blocks(x: Floats, out: Floats) -> None:
        np.matmul(x.reshape(-1, block, depth), weight, out=out.reshape(-1, block, width))

    return blocks


def _by_depth(weight: Floats, rows: int, part: int) -> Product:
    depth, width = weight.shape
    weights, sums = weight.reshape(-1, part, width), np.empty((depth // part, rows, width), np.float32)

    def parts(x: Floats, out: Floats) -> None:
        np.matmul(x.reshape(rows, -1, part).swapaxes(0, 1), weights, out=sums)
        np.add.reduce(sums, axis=0, out=out)

    return parts


def divisor(number: int, most: int) -> int:
    """The largest divisor that is at most `most`; 0 if there is none."""
    return next((divisor for divisor in range(min(number, most), 0, -1) if number % divisor == 0), 0)
