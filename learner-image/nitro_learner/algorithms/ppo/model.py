"""The model of policies: what PPO asks of their networks, whether these remember or not."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from nitro_actor.protocol.agents import AgentClass
from nitro_learner.algorithms.agents.team import Team
from nitro_learner.algorithms.ppo.batch import BatchMaker, PolicyBatch
from nitro_learner.algorithms.ppo.loss import Coefficients
from nitro_learner.algorithms.ppo.policy import AgentPolicy
from nitro_learner.algorithms.ppo.rollouts import PolicyRollouts
from nitro_learner.algorithms.ppo.samples import Data
from nitro_learner.boosting.surrogate import Surrogate
from nitro_learner.data.batch import Fragment
from nitro_learner.networks.actor_critic import PoliciesWithCritics

Network = TypeVar("Network", bound=PoliciesWithCritics[Any])
In = TypeVar("In", contravariant=True)

Choose = Callable[[int], np.ndarray | None]
"""Chooses which of a policy's agents it learns from, int64 [n] for n choices; None for all of them."""


class Passes(Protocol[In]):
    """Passes through the networks of policies that train together. They see changes of the parameters."""

    def gradient(self, samples: In) -> Tensor:
        """The gradient of each policy's mean loss by its parameters, f32 [P, n], valid until the next one."""
        ...

    def terms(self, samples: In) -> list[dict[str, float]]:
        """Means of the loss's terms over each policy's samples; see `ppo.loss.loss_terms`."""
        ...


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
    def passes(
        self, network: Network, parameters: Tensor, c: Coefficients, kl: Sequence[float]
    ) -> Passes[Data]:
        """The passes of policies of one shape that train together.

        Args:
            network: their shape.
            parameters: f32 [P, n].
            c: of the loss, without the KL penalty's.
            kl: the policies' coefficients of the KL penalty.
        """

    @abstractmethod
    def surrogate(
        self,
        network: Network,
        batch: PolicyBatch[Data],
        samples: Data,
        c: Coefficients,
        parameters: Tensor,
        sampled: Tensor,
    ) -> Surrogate:
        """A policy's objective of the round.

        Args:
            network: its shape.
            batch: its round.
            samples: of the batch, as the loss sees them.
            c: of the loss.
            parameters: f32 [1, n], theta_{k+1}, the learner's own until its next update.
            sampled: f32 [1, n], theta_k, which sampled the round.
        """

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


def penalties(kl: Sequence[float], device: torch.device) -> Tensor | None:
    """Weights of the policies' KL penalties, f32 [P]; None where all are 0."""
    return torch.tensor(kl, device=device) if any(one > 0 for one in kl) else None
