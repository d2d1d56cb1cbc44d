"""A round's objective of one of several policies, for the detector and the noise meter."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic

import torch
from torch import Tensor

from nitro_learner.algorithms.multi_ppo.network import StackedActorCritic
from nitro_learner.algorithms.multi_ppo.samples import Data, TeamSamples
from nitro_learner.algorithms.multi_ppo.update import Network, PolicyStep
from nitro_learner.algorithms.ppo.loss import terms
from nitro_learner.algorithms.ppo.surrogate import policy_objective
from nitro_learner.boosting.surrogate import Function, Objective, Trajectories

CHUNK = 1024
"""Transitions of one pass."""


@dataclass(frozen=True, slots=True)
class PolicySurrogate(ABC, Generic[Network, Data]):
    """The counterpart of `PpoSurrogate` for one of several policies, whatever its network. Means are over
    transitions of agents that acted.

    Attributes:
        step: of this policy.
        samples: of this policy, as the loss sees them.
        agents: of each environment in the samples.
    """

    step: PolicyStep[Network]
    samples: Data
    agents: int

    @property
    def size(self) -> int:
        return self.samples.size

    @property
    def drawable(self) -> Tensor:
        return self.samples.weights.nonzero()[:, 0].cpu()

    def function(self, objective: Objective, rows: Tensor) -> Function:
        parts = self._drawn(self._seen(objective), rows.to(self.samples.weights.device))
        return self._mean_of(self.step.parameters, objective, parts)[0]

    def trajectories(self, objective: Objective) -> Trajectories:
        parts = self._each(self._seen(objective))
        mean, sizes = self._mean_of(self.step.sampled.clone(), objective, parts)
        return Trajectories(mean, sizes, self.size // self.agents)

    @abstractmethod
    def _drawn(self, seen: Data, rows: Tensor) -> Sequence[Data]:
        """The transitions `rows`, in parts of one pass."""

    @abstractmethod
    def _each(self, seen: Data) -> Sequence[Data]:
        """The trajectories of each environment, with all its agents: they share returns."""

    @abstractmethod
    def _distributions(self, policy: Tensor, part: Data) -> Tensor:
        """The action distributions' parameters [1, n, .], with a graph."""

    @abstractmethod
    def _outputs(self, policy: Tensor, critic: Tensor, part: Data) -> tuple[Tensor, Tensor]:
        """The action distributions' parameters [1, n, .] and values V [1, n], with a graph."""

    def _seen(self, objective: Objective) -> Data:
        return self.samples if objective == "total" else self.samples.with_advantages(self.step.standardised)

    def _mean_of(
        self, theta: Tensor, objective: Objective, parts: Sequence[Data]
    ) -> tuple[Function, list[float]]:
        """The mean over the parts, a term for each of them, and the number of summands in each."""
        policies, critics = self.step.network.split(theta)
        # No copy of the policy: `nitro landscape` moves it, and plays the learner's weights.
        policy, critic = policies.detach().requires_grad_(), critics.detach().clone().requires_grad_()
        sizes = [part.weights.sum().item() for part in parts]
        acted = max(sum(sizes), 1.0)
        mean = Function(
            terms=[partial(self._share, policy, critic, objective, part, acted) for part in parts],
            parameters=[policy, critic] if objective == "total" else [policy],
        )
        return mean, sizes

    def _share(
        self, policy: Tensor, critic: Tensor, objective: Objective, part: Data, acted: float
    ) -> Tensor:
        """The part's share of the mean."""
        distribution, c = self.step.distribution, self.step.coefficients
        if objective == "total":
            params, values = self._outputs(policy, critic, part)
            each = terms(part.samples, params[0], values[0], distribution, c).loss(c)
        else:
            params = self._distributions(policy, part)
            each = policy_objective(objective, distribution, part.samples, params[0], c.clip)
        return (each * part.weights).sum() / acted


@dataclass(frozen=True, slots=True)
class MultiPpoSurrogate(PolicySurrogate[StackedActorCritic, TeamSamples]):
    """Of a policy that acts on the present observation alone.

    Attributes:
        slots: fragments in the samples, all of one length.
        envs: environments of each fragment, whose steps alternate in the samples, agent by agent.
    """

    slots: int
    envs: int

    def _drawn(self, seen: TeamSamples, rows: Tensor) -> list[TeamSamples]:
        return [seen.rows(part) for part in torch.split(rows[None], CHUNK, 1)]

    def _each(self, seen: TeamSamples) -> list[TeamSamples]:
        # Rows are ordered by slot, then step, then environment, then agent.
        shape = (self.slots, -1, self.envs, self.agents)
        numbers = torch.arange(self.size, device=seen.weights.device).view(shape)
        return [
            seen.rows(numbers[slot, :, env].reshape(1, -1))
            for slot in range(self.slots)
            for env in range(self.envs)
        ]

    def _distributions(self, policy: Tensor, part: TeamSamples) -> Tensor:
        return self.step.network.distribution(policy, part.inputs, part.masked())

    def _outputs(self, policy: Tensor, critic: Tensor, part: TeamSamples) -> tuple[Tensor, Tensor]:
        values = self.step.network.critic(critic, part.stacked(part.critic_inputs))[..., 0]
        return self._distributions(policy, part), values
