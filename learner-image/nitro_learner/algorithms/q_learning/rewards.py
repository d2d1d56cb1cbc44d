"""The unit of a Q-learner's values: learned values are near 0 for rewards of any level and spread."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nitro_learner.data.gae import level

Array = NDArray[np.float32]
Flags = NDArray[np.bool_]
Places = NDArray[np.int64]

_NO_SPREAD = 1e-8
"""Rewards of a smaller deviation are constant, up to rounding."""


@dataclass(frozen=True, slots=True)
class ValueUnits:
    """A learned value q stands for the return `level + scale * q`. Each of K columns has a unit of its own.

    In this unit a reward r is (r + gamma c - c) / scale, and the last one of an episode (r - c) / scale,
    where c is the level. So the return after the end of an episode is still 0, and the best actions stay the
    best. If only time limits end episodes, a reward in this unit is the standardised reward (r - mean) / std.

    Attributes:
        gamma: discount per step.
        level: f64 [K].
        scale: f64 [K], positive.
    """

    gamma: float
    level: NDArray[np.float64]
    scale: NDArray[np.float64]

    @classmethod
    def of_returns(cls, columns: int, gamma: float) -> ValueUnits:
        """The unit in which values are the returns themselves."""
        return cls(gamma, np.zeros(columns), np.ones(columns))

    @classmethod
    def standard(cls, rewards: Array, ends: Flags, counted: Flags, gamma: float) -> ValueUnits:
        """The unit in which the rewards have the mean 0 and the deviation 1.

        Args:
            rewards: f32 [n, K].
            ends: where nothing follows, bool [n, K].
            counted: the rows that count, bool [n, K].
            gamma: discount per step.
        """
        units = cls.of_returns(rewards.shape[1], gamma)
        for column, counts in enumerate(counted.T):
            own, end = rewards[counts, column].astype(np.float64), ends[counts, column]
            units.level[column] = level(own, end, gamma)
            deviation = units(own, end, np.full(len(own), column)).std()
            if deviation > _NO_SPREAD:
                units.scale[column] = deviation
        return units

    def __call__(
        self,
        rewards: NDArray[np.floating],
        ends: Flags,
        columns: Places,
        discounts: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float64]:
        """Convert rewards to this unit; all arguments have the shape of the result.

        Args:
            rewards: of one step; or discounted sums of n, whose levels but the first and the last cancel out.
            ends: whether nothing follows.
            columns: of the rewards.
            discounts: of what follows, where `rewards` are sums.
        """
        level = self.level[columns]
        after = (self.gamma if discounts is None else discounts) * level * ~ends
        result: NDArray[np.float64] = (rewards + after - level) / self.scale[columns]
        return result
