"""The model of a team's policies: what a Q-learner asks of their networks, whether these remember or not."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nitro_api.algorithms.q_learning import QLearningHyperparameters
from nitro_learner.algorithms.agents.team import Team
from nitro_learner.algorithms.q_learning.batch import Picked, Places, Transitions
from nitro_learner.algorithms.q_learning.network import FeedForwardQNetwork, QNetwork
from nitro_learner.algorithms.replay.buffer import ReplayBuffer, corrections
from nitro_learner.algorithms.replay.transitions import Rows, Shape
from nitro_learner.data.batch import Fragment


class QModel(ABC):
    """Networks of one kind, and how the replay buffer's rows are drawn for them.

    Rows are drawn in sequences of `length` steps, which is 1 for networks without a memory.

    Attributes:
        team: of the policies.
        settings: the team's.
    """

    def __init__(self, team: Team) -> None:
        """Raise TypeError if the settings are not a Q-learner's."""
        if not isinstance(team.settings, QLearningHyperparameters):
            raise TypeError(f"{team.algorithm} has no settings of a Q-learner")
        self.team, self.settings = team, team.settings

    @abstractmethod
    def network(self, inputs: int, actions: int) -> QNetwork:
        """The shape of a class's networks.

        Args:
            inputs: D.
            actions: N.
        """

    @abstractmethod
    def prepared(self, rows: Rows, fragments: Sequence[Fragment]) -> Rows:
        """A round's rows with what the networks need of the fragments, and with the rows that are drawn."""

    @abstractmethod
    def length(self, shape: Shape) -> int:
        """How many steps are drawn together."""

    @abstractmethod
    def trained_on(self, replay: ReplayBuffer, shape: Shape) -> NDArray[np.bool_]:
        """The buffer's rows that gradient steps learn from, bool [size, K]."""

    @abstractmethod
    def draw(
        self, replay: ReplayBuffer, shape: Shape, columns: Places, rng: np.random.Generator
    ) -> tuple[Places, NDArray[np.float32]]:
        """Draw rows of columns i64 [A, B]. Returns their places, and their weights in the loss's sum."""

    @abstractmethod
    def rate(
        self,
        replay: ReplayBuffer,
        shape: Shape,
        columns: Places,
        places: Places,
        errors: NDArray[np.float32],
    ) -> None:
        """Change the priorities of drawn rows by their temporal-difference errors; all [A, B]."""

    @abstractmethod
    def remembered(self, transitions: Transitions, picked: Picked, length: int) -> Transitions:
        """Transitions of a class with the networks' memories."""


class FeedForwardQModel(QModel):
    """See `QModel`."""

    def network(self, inputs: int, actions: int) -> FeedForwardQNetwork:
        return FeedForwardQNetwork(inputs, actions, self.team.network, dueling=self.settings.dueling)

    def prepared(self, rows: Rows, fragments: Sequence[Fragment]) -> Rows:  # noqa: ARG002
        return rows

    def length(self, shape: Shape) -> int:  # noqa: ARG002
        return 1

    def trained_on(self, replay: ReplayBuffer, shape: Shape) -> NDArray[np.bool_]:  # noqa: ARG002
        return replay.drawable

    def draw(
        self,
        replay: ReplayBuffer,
        shape: Shape,  # noqa: ARG002
        columns: Places,
        rng: np.random.Generator,
    ) -> tuple[Places, NDArray[np.float32]]:
        places, probabilities = replay.draw(columns, rng.random(columns.shape))
        weights = corrections(replay.counts[columns], probabilities, self.settings.priority_beta)
        return places, weights / np.float32(columns.shape[1])

    def rate(
        self,
        replay: ReplayBuffer,
        shape: Shape,  # noqa: ARG002
        columns: Places,
        places: Places,
        errors: NDArray[np.float32],
    ) -> None:
        replay.rate(columns, places, errors)

    def remembered(self, transitions: Transitions, picked: Picked, length: int) -> Transitions:  # noqa: ARG002
        return transitions
