"""The model of a team's policies: what PPO asks of their networks, whether these remember or not."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic

import numpy as np
from torch import Tensor

from nitro_actor.protocol.agents import AgentClass
from nitro_learner.algorithms.agents.stacked_adam import AdamState
from nitro_learner.algorithms.agents.team import Team
from nitro_learner.algorithms.multi_ppo.batch import BatchMaker
from nitro_learner.algorithms.multi_ppo.policy import AgentPolicy
from nitro_learner.algorithms.multi_ppo.rollouts import PolicyRollouts
from nitro_learner.algorithms.multi_ppo.samples import Data
from nitro_learner.algorithms.multi_ppo.update import Batch, Network, PolicyStep, Trained, Update
from nitro_learner.boosting.surrogate import Surrogate
from nitro_learner.data.batch import Fragment

Choose = Callable[[int], np.ndarray | None]
"""Chooses which of a policy's agents it learns from, int64 [n] for n choices; None for all of them."""


class Model(ABC, Generic[Network, Batch, Data]):
    """Networks of one kind, and the samples that they learn from.

    Attributes:
        batches: makes the samples.
    """

    def __init__(self, team: Team, device: str) -> None:
        self._team, self._device = team, device
        self.batches = BatchMaker(team, central=team.algorithm == "mappo", device=device)

    @abstractmethod
    def network(self, one: AgentClass) -> Network:
        """The shape of a class's policies and critics."""

    @abstractmethod
    def batch(
        self,
        policy: AgentPolicy,
        network: Network,
        rollouts: PolicyRollouts,
        fragments: Sequence[Fragment],
        choose: Choose,
    ) -> Batch:
        """A policy's samples of a round; the round is taken into its statistics.

        Args:
            policy: as it sampled the round.
            network: its shape.
            rollouts: what its agents played.
            fragments: in which they played it.
            choose: the agents that it learns from.
        """

    @abstractmethod
    def train(
        self,
        network: Network,
        parameters: Tensor,
        adam: Sequence[AdamState],
        batches: Sequence[Batch],
        update: Update,
    ) -> Trained[Data]:
        """Train policies of one shape together; the arguments are those of `training.train`."""

    @abstractmethod
    def surrogate(self, step: PolicyStep[Network], samples: Data, batch: Batch) -> Surrogate:
        """A policy's objective of the round; `samples` are of the batch, as the loss saw them."""

    @abstractmethod
    def distributions(
        self, network: Network, policy: Tensor, inputs: Tensor, available: Tensor | None
    ) -> Tensor:
        """The parameters of a policy's action distributions, [1, m, .].

        Args:
            network: its shape.
            policy: its parameters, f32 [1, .].
            inputs: f32 [1, m, D], each an episode's first.
            available: bool [1, m, C]; None where all actions are.
        """
