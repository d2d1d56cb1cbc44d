"""The sum tree against cumulative sums of its weights."""

import numpy as np
import pytest

from nitro_learner.algorithms.replay.sum_tree import SumTree

SIZES = (1, 63, 64, 65, 5000)


def _tree(weights: np.ndarray) -> SumTree:
    tree = SumTree(*weights.shape)
    columns = np.arange(len(weights))[:, None]
    tree.set(columns, np.broadcast_to(np.arange(weights.shape[1]), weights.shape), weights)
    return tree


@pytest.mark.parametrize("size", SIZES)
def test_an_entry_is_found_where_the_cumulative_weights_exceed_the_share(size: int) -> None:
    rng = np.random.default_rng(size)
    # Whole numbers: their sums are exact in any order.
    weights = rng.integers(0, 5, (3, size)).astype(np.float64)
    weights[:, rng.integers(size)] = 2
    shares = rng.random((3, 400))
    found = _tree(weights).find(np.arange(3)[:, None], shares)
    for row in range(3):
        sums = np.cumsum(weights[row])
        expected = np.searchsorted(sums, shares[row] * sums[-1], side="right")
        assert np.array_equal(found[row], expected)


@pytest.mark.parametrize("size", SIZES)
def test_totals_follow_changes_of_single_entries(size: int) -> None:
    rng = np.random.default_rng(size)
    weights = rng.random((2, size))
    tree = _tree(weights)
    for _ in range(20):
        entries = rng.integers(0, size, (2, 7))
        new = rng.random((2, 7))
        tree.set(np.arange(2)[:, None], entries, new)
        for row in range(2):
            for entry, weight in zip(entries[row], new[row], strict=True):
                weights[row, entry] = weight
        assert np.array_equal(tree.weights, weights)
        assert np.allclose(tree.totals, weights.sum(1), rtol=1e-12, atol=0)


def test_equal_weights_make_equal_trees_however_they_came_to_be() -> None:
    rng = np.random.default_rng(1)
    weights = rng.random((1, 5000))
    changed = _tree(rng.random((1, 5000)))
    for entries in np.split(rng.permutation(5000), 50):
        changed.set(np.zeros((1, 1), np.int64), entries[None], weights[:, entries])
    shares = rng.random((1, 10_000))
    trees = np.zeros((1, 1), np.int64)
    assert np.array_equal(changed.totals, _tree(weights).totals)
    assert np.array_equal(changed.find(trees, shares), _tree(weights).find(trees, shares))


def test_an_entry_without_weight_is_never_found() -> None:
    weights = np.zeros((1, 300))
    weights[0, [0, 70, 140]] = 0.1, 1e-9, 0.7
    shares = np.concatenate([np.random.default_rng(0).random(50_000), [0.0, np.nextafter(1.0, 0.0)]])[None]
    found = _tree(weights).find(np.zeros((1, 1), np.int64), shares)
    assert set(np.unique(found)) <= {0, 70, 140}


def test_uniform_shares_draw_in_proportion_to_the_weights() -> None:
    weights = np.random.default_rng(2).random((1, 200))
    draws = 400_000
    found = _tree(weights).find(np.zeros((1, 1), np.int64), np.random.default_rng(3).random((1, draws)))
    share = np.bincount(found[0], minlength=200) / draws
    expected = weights[0] / weights.sum()
    assert (np.abs(share - expected) < 5 * np.sqrt(expected / draws)).all()


def test_trees_may_be_mixed_in_one_search() -> None:
    weights = np.zeros((2, 10))
    weights[0, 3], weights[1, 8] = 1, 1
    trees = np.array([[0, 1, 1], [1, 0, 1]])
    assert np.array_equal(_tree(weights).find(trees, np.full((2, 3), 0.5)), np.where(trees == 0, 3, 8))


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf])
def test_a_weight_that_is_none_is_refused(weight: float) -> None:
    tree, zero = SumTree(1, 4), np.zeros((1, 1), np.int64)
    with pytest.raises(ValueError, match="must be finite and not negative"):
        tree.set(zero, zero, np.array([[weight]]))


def test_a_tree_without_weights_has_nothing_to_find() -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        SumTree(1, 4).find(np.zeros((1, 1), np.int64), np.array([[0.5]]))
