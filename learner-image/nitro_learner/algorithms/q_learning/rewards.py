"""The scale of rewards: each column of the replay buffer has its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nitro_api.algorithms.q_learning import QLearningHyperparameters
from nitro_learner.algorithms.q_learning.transitions import Rows
from nitro_learner.data.batch import Fragment
from nitro_learner.networks.normalise import RewardNormaliser


class RewardScales:
    """The running deviation of each column's discounted return.

    The replay buffer holds rewards as they came; they are scaled when they are drawn.
    """

    def __init__(self, columns: int, settings: QLearningHyperparameters) -> None:
        """
        Args:
            columns: K.
            settings: say whether rewards are scaled at all.
        """
        self._columns = columns
        self._normalisers = [
            RewardNormaliser(settings.gamma) for _ in range(columns if settings.normalise_rewards else 0)
        ]

    @property
    def scales(self) -> NDArray[np.float32]:
        """What each column's rewards are multiplied by, f32 [K]."""
        if not self._normalisers:
            return np.ones(self._columns, np.float32)
        return np.array([one.scale for one in self._normalisers], np.float32)

    def merge(self, fragments: Sequence[Fragment], rows: Rows) -> None:
        """Take in a round, whose rewards are in `rows`."""
        begin, parts = 0, []
        for fragment in fragments:
            length, envs = fragment.tensors["terminated"].shape
            own = [np.stack([rows.arrays["rewards"][lane] for lane in rows.lanes[begin : begin + envs]], 1)]
            parts.append(own[0].reshape(length, envs, self._columns))
            begin += envs
        for column, normaliser in enumerate(self._normalisers):
            normaliser(
                [
                    Fragment(
                        fragment.meta,
                        {
                            "rewards": rewards[..., column],
                            "terminated": fragment.tensors["terminated"],
                            "truncated": fragment.tensors["truncated"],
                        },
                    )
                    for fragment, rewards in zip(fragments, parts, strict=True)
                ]
            )

    def state_dict(self) -> dict[str, Any]:
        """Of each column."""
        return {"columns": [one.state_dict() for one in self._normalisers]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict()`."""
        for one, saved in zip(self._normalisers, state["columns"], strict=True):
            one.load_state_dict(saved)
