"""Products in blocks: what the whole product gives, whichever way a shape and a processor are multiplied."""

import numpy as np
import pytest

from nitro_actor import matmul
from nitro_actor.matmul import product

# As of the networks: few columns, few rows, both at once, neither, and a prime number of rows.
SHAPES = [(441, 256, 16), (8, 3872, 256), (1, 3136, 512), (8, 256, 256), (100, 512, 512), (443, 256, 64)]


@pytest.mark.parametrize("blocks", [True, False])
@pytest.mark.parametrize(("rows", "depth", "width"), SHAPES)
def test_blocks_make_the_whole_product(
    monkeypatch: pytest.MonkeyPatch, rows: int, depth: int, width: int, blocks: bool
) -> None:
    monkeypatch.setattr(matmul, "AVX512", blocks)
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((depth, width), np.float32)
    multiply = product(weight, rows)
    for _ in range(2):  # its buffers are used again
        x = rng.standard_normal((rows, depth), np.float32)
        out = np.full((rows, width), np.nan, np.float32)
        multiply(x, out)
        np.testing.assert_allclose(out, x.astype(np.float64) @ weight, rtol=0, atol=2e-6 * depth**0.5 * 10)


def test_narrow_and_flat_products_are_split_where_small_kernels_exist(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(matmul, "AVX512", True)

    def blocks(rows: int, depth: int, width: int) -> list[tuple[int, ...]]:
        seen: list[tuple[int, ...]] = []
        multiply = product(np.zeros((depth, width), np.float32), rows)
        matmul = np.matmul
        monkeypatch.setattr(np, "matmul", lambda *a, **k: (seen.append(a[0].shape), matmul(*a, **k))[1])
        multiply(np.zeros((rows, depth), np.float32), np.empty((rows, width), np.float32))
        monkeypatch.setattr(np, "matmul", matmul)
        return seen

    assert blocks(441, 256, 16) == [(3, 147, 256)]
    assert blocks(8, 3872, 256) == [(16, 8, 242)]
    assert blocks(8, 256, 256) == [(8, 256)]
