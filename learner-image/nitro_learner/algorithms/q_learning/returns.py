"""Returns of n steps (Hessel et al. 2018): which rewards a target sums, and where it bootstraps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int64]


class LinkedRows(Protocol):
    """Rows, of a round or of a replay buffer. The arguments of its methods have the shape of the result."""

    @property
    def arrays(self) -> Mapping[str, NDArray[Any]]:
        """See `transitions.Rows`."""
        ...

    def following(self, places: Places) -> Places:
        """The places of the rows that follow the given ones."""
        ...

    def are_steps(self, columns: Places, places: Places) -> NDArray[np.bool_]:
        """Whether the columns' agents acted in the rows."""
        ...


@dataclass(frozen=True, slots=True)
class Returns:
    """Sums of discounted rewards from some steps on.

    Attributes:
        last: the places of the last steps that are summed.
        rewards: the sums, f64.
        discounts: of the value of what follows the last steps, f64.
    """

    last: Places
    rewards: NDArray[np.float64]
    discounts: NDArray[np.float64]

    @classmethod
    def of(cls, rows: LinkedRows, columns: Places, places: Places, steps: int, gamma: float) -> Returns:
        """Sum `steps` rewards, or fewer where an episode or a rollout ends.

        Args:
            columns: of the rewards; broadcast to the shape of `places`.
            places: of the first steps.
        """
        columns = np.broadcast_to(columns, places.shape)
        rewards, ends = rows.arrays["rewards"], rows.arrays["ends"]
        last, total = places, rewards[places, columns].astype(np.float64)
        discounts = np.full(places.shape, gamma)
        for _ in range(1, steps):
            after = rows.following(last)
            goes_on = ~ends[last, columns] & rows.are_steps(columns, after)
            if not goes_on.any():
                break
            last = np.where(goes_on, after, last)
            total += np.where(goes_on, discounts * rewards[after, columns], 0.0)
            discounts = np.where(goes_on, discounts * gamma, discounts)
        return cls(last, total, discounts)
