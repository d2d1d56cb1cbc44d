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
from nitro_actor.scratch import Scratch

Floats = NDArray[np.float32]

_SMALL = 700_000
"""Multiplications of a block: well below OpenBLAS' own limit of 100^3."""
_FEWEST_ROWS = 8
"""Fewest rows of a block: with fewer, reading the weight takes longer than multiplying."""
_FEW_ROWS = 16
"""With more of them a copy of the weight pays."""


class MatMul:
    """x @ weight for x [M, K] and a weight [K, N], f32; or of p weights at once, [p, M, K] and [p, K, N]."""

    def __init__(self, weight: Floats) -> None:
        self._weight = weight
        self._plans: dict[int, Callable[[Floats, Floats], None]] = {}

    def __call__(self, x: Floats, out: Floats) -> None:
        """Write the product to `out` [M, N]. Both contiguous."""
        rows = len(x)
        plan = self._plans.get(rows)
        if plan is None:
            plan = self._plans[rows] = self._plan(rows)
        plan(x, out)

    def _plan(self, rows: int) -> Callable[[Floats, Floats], None]:
        """Choose the multiplication for this number of rows."""
        depth, width = self._weight.shape[-2:]
        if self._weight.ndim > 2 or not AVX512 or rows * depth * width <= _SMALL:
            return self._whole
        block = divisor(rows, _SMALL // (depth * width))
        if block >= _FEWEST_ROWS:
            return self._by_rows(block)
        part = divisor(depth, _SMALL // (rows * width))
        return self._by_depth(rows, part) if rows <= _FEW_ROWS and part > 1 else self._whole

    def _whole(self, x: Floats, out: Floats) -> None:
        np.matmul(x, self._weight, out=out)

    def _by_rows(self, block: int) -> Callable[[Floats, Floats], None]:
        depth, width = self._weight.shape

        def product(x: Floats, out: Floats) -> None:
            np.matmul(x.reshape(-1, block, depth), self._weight, out=out.reshape(-1, block, width))

        return product

    def _by_depth(self, rows: int, part: int) -> Callable[[Floats, Floats], None]:
        depth, width = self._weight.shape
        weights = self._weight.reshape(-1, part, width)
        scratch = Scratch()

        def product(x: Floats, out: Floats) -> None:
            if scratch.arrays is None:
                scratch.arrays = np.empty((depth // part, rows, width), np.float32)
            sums = scratch.arrays
            np.matmul(x.reshape(rows, -1, part).swapaxes(0, 1), weights, out=sums)
            np.add.reduce(sums, axis=0, out=out)

        return product


def divisor(number: int, most: int) -> int:
    """The largest divisor that is at most `most`; 0 if there is none."""
    return next((divisor for divisor in range(min(number, most), 0, -1) if number % divisor == 0), 0)
