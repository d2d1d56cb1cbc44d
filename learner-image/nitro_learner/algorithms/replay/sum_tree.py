"""A sum tree: draws entries in proportion to their weights, and changes weights, both in logarithmic time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_WIDTH = 64
"""Children of a node. NumPy sums 64 numbers as fast as 2, so a wide tree needs fewer steps."""

Indices = NDArray[np.int64]
Weights = NDArray[np.float64]


class SumTree:
    """K trees of equal size, whose entries weigh 0 at first.

    A node is always the sum of its children, computed anew. So equal weights make equal trees, however the
    weights came to be.
    """

    def __init__(self, trees: int, entries: int) -> None:
        """
        Args:
            trees: K.
            entries: of each tree.
        """
        self._entries = entries
        # From the entries to the top, each level padded with zeros to whole nodes.
        self._levels: list[Weights] = []
        size = entries
        while not self._levels or size > 1:
            nodes = -(-size // _WIDTH)
            self._levels.append(np.zeros((trees, nodes * _WIDTH)))
            size = nodes

    @property
    def totals(self) -> Weights:
        """Sum of each tree's weights, f64 [K]."""
        total: Weights = self._levels[-1].sum(1)
        return total

    @property
    def weights(self) -> Weights:
        """Every entry's weight, f64 [K, entries]; a view."""
        return self._levels[0][:, : self._entries]

    def of(self, trees: Indices, entries: Indices) -> Weights:
        """The weights f64 of entries, any shape. `trees` gives the tree of each entry, and is broadcast."""
        return self._levels[0][trees, entries]

    def set(self, trees: Indices, entries: Indices, weights: NDArray[Any]) -> None:
        """Give entries their weights, as `of` takes them. If an entry occurs twice, its last weight counts.

        Raises:
            ValueError: a weight is negative or not finite.
        """
        if not (np.isfinite(weights).all() and (weights >= 0).all()):
            raise ValueError("weights of a sum tree must be finite and not negative")
        self._levels[0][trees, entries] = weights
        for lower, upper in zip(self._levels, self._levels[1:], strict=False):
            entries = entries // _WIDTH
            upper[trees, entries] = self._nodes(lower)[trees, entries].sum(-1)

    def find(self, trees: Indices, shares: Weights) -> Indices:
        """The entries in which the cumulative weights exceed shares of the totals, i64 of the shape of
        `shares`.

        Args:
            trees: the tree of each share; broadcast.
            shares: in [0, 1). Uniform ones draw each entry in proportion to its weight. An entry of weight 0
                is never found.

        Raises:
            ValueError: all weights of a tree are 0.
        """
        totals = self.totals[trees]
        if not (totals > 0).all():
            raise ValueError("a sum tree whose weights are all 0 has nothing to draw")
        rest = shares * totals
        entries = np.zeros(shares.shape, np.int64)
        for level in reversed(self._levels):
            sums = self._nodes(level)[trees, entries].cumsum(-1)
            # Rounding may leave a rest as large as all children. Then the last child with a weight is the
            # one.
            last = (sums < sums[..., -1:]).sum(-1)
            child = np.minimum((sums <= rest[..., None]).sum(-1), last)
            before = np.take_along_axis(sums, np.maximum(child - 1, 0)[..., None], -1)[..., 0]
            rest = rest - np.where(child > 0, before, 0.0)
            entries = entries * _WIDTH + child
        return entries

    def _nodes(self, level: Weights) -> Weights:
        """A level's weights by node, [K, nodes, 64]."""
        return level.reshape(len(level), -1, _WIDTH)
