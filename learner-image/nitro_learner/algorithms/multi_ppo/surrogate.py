"""A round's objective of one of several policies, for the detector and the noise meter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from nitro_learner.algorithms.multi_ppo.loss import acted_in
from nitro_learner.algorithms.multi_ppo.network import StackedActorCritic
from nitro_learner.algorithms.multi_ppo.samples import TeamSamples
from nitro_learner.algorithms.ppo.loss import Coefficients, Samples, surrogate, terms
from nitro_learner.boosting.surrogate import Function, Objective
from nitro_learner.networks.distributions import Distribution

CHUNK = 1024
"""Transitions of one pass."""


@dataclass(frozen=True, slots=True)
class MultiPpoSurrogate:
    """The counterpart of `PpoSurrogate` for several agents. Means are over transitions of agents that acted.

    Attributes:
        network: shape of policy and critic.
        parameters: f32 [1, n], theta_{k+1}.
        sampled: f32 [1, n], theta_k, which sampled the round.
        samples: of this policy, as the loss sees them.
        standardised: f32 [N], advantages with mean 0 and deviation 1; those of the samples may differ.
        coefficients: of the loss.
        slots: fragments in the samples, all of one length.
        lanes: trajectories of each fragment, whose steps alternate in the samples.
    """

    network: StackedActorCritic
    parameters: Tensor
    sampled: Tensor
    distribution: Distribution
    samples: TeamSamples
    standardised: Tensor
    coefficients: Coefficients
    slots: int
    lanes: int

    @property
    def size(self) -> int:
        return self.samples.size

    def function(self, objective: Objective, rows: Tensor) -> Function:
        index = rows.to(self.samples.weights.device)[None]
        seen = self._seen(objective)
        return self._function(
            self.parameters, objective, [seen.rows(part) for part in torch.split(index, CHUNK, 1)]
        )

    def trajectories(self, objective: Objective) -> Function:
        # Rows are ordered by slot, then step, then lane.
        numbers = torch.arange(self.size, device=self.samples.weights.device).view(self.slots, -1, self.lanes)
        seen = self._seen(objective)
        parts = [
            seen.rows(numbers[slot, :, lane][None])
            for slot in range(self.slots)
            for lane in range(self.lanes)
        ]
        return self._function(self.sampled, objective, parts)

    def _seen(self, objective: Objective) -> TeamSamples:
        return self.samples if objective == "total" else self.samples.with_advantages(self.standardised)

    def _function(self, theta: Tensor, objective: Objective, parts: Sequence[TeamSamples]) -> Function:
        policy, critic = (part.detach().clone().requires_grad_() for part in self.network.split(theta))
        acted = float(acted_in(list(parts)))
        return Function(
            terms=[partial(self._mean, policy, critic, objective, part, acted) for part in parts],
            parameters=[policy, critic] if objective == "total" else [policy],
        )

    def _mean(
        self, policy: Tensor, critic: Tensor, objective: Objective, part: TeamSamples, acted: float
    ) -> Tensor:
        """The part's share of the mean."""
        samples, c = part.samples, self.coefficients
        params = self.network.distribution(policy, part.inputs, part.masked())[0]
        if objective == "total":
            values = self.network.critic(critic, part.stacked(part.critic_inputs))[0, :, 0]
            each = terms(samples, params, values, self.distribution, c).loss(c)
        else:
            each = policy_objective(objective, self.distribution, samples, params, c.clip)
        return (each * part.weights).sum() / acted


def policy_objective(
    objective: Objective, distribution: Distribution, samples: Samples, params: Tensor, clip: float
) -> Tensor:
    """`clip` or `ratio1` of each sample at the new distribution's parameters [n, .]."""
    log_prob = distribution.log_prob(params, samples.actions)
    if objective == "ratio1":
        return torch.exp(log_prob - log_prob.detach()) * samples.advantages
    return surrogate(torch.exp(log_prob - samples.log_probs), samples.advantages, clip)
