"""The model of a team's policies: what PPO asks of their networks, whether these remember or not."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic

import numpy as np
from torch import Tensor

from nitro_actor.protocol.agents import AgentClass
from nitro_learner.algorithms.agents.team import Team
from nitro_learner.algorithms.ppo.batch import BatchMaker, PolicyBatch
from nitro_learner.algorithms.ppo.policy import AgentPolicy
from nitro_learner.algorithms.ppo.rollouts import PolicyRollouts
from nitro_learner.algorithms.ppo.samples import Data
from nitro_learner.algorithms.ppo.update import Network, Passes, PolicyStep
from nitro_learner.boosting.surrogate import Surrogate
from nitro_learner.data.batch import Fragment

Choose = Callable[[int], np.ndarray | None]
"""Chooses which of a policy's agents it learns from, int64 [n] for n choices; None for all of them."""


class Model(ABC, Generic[Network, Data]):
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
    ) -> PolicyBatch[Data]:
        """A policy's samples of a round; the round is taken into its statistics.

        Args:
            policy: as it sampled the round.
            network: its shape.
            rollouts: what its agents played.
            fragments: in which they played it.
            choose: the agents that it learns from.
        """

    @abstractmethod
    def passes(self, network: Network, parameters: Tensor) -> Passes[Data]:
        """The passes of policies of one shape that train together, f32 [P, n]."""

    @abstractmethod
    def surrogate(self, step: PolicyStep[Network, Data], batch: PolicyBatch[Data]) -> Surrogate:
        """A policy's objective of the round."""

    @abstractmethod
    def distributions(
        self, network: Network, parameters: Tensor, inputs: Tensor, available: Tensor | None
    ) -> Tensor:
        """The parameters of a policy's action distributions, [m, .].

        Args:
            network: its shape.
            parameters: f32 [1, n], its own and its critic's.
            inputs: f32 [m, D], each an episode's first.
            available: bool [m, C]; None where all actions are.
        """
