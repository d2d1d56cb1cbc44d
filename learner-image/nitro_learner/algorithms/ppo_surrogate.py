"""A PPO round's objective, for the detector."""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from nitro_learner.algorithms.ppo_loss import Coefficients, Samples, surrogate, terms
from nitro_learner.boosting.surrogate import Function, Objective
from nitro_learner.distributions import Distribution
from nitro_learner.networks import ActorCritic

_CHUNK = 1024
"""Transitions per term, so that a Hessian-vector product stays in the cache."""


@dataclass(frozen=True, slots=True)
class PpoSurrogate:
    """Round k's data, advantages standardised over the whole batch, at the network's present parameters."""

    network: ActorCritic
    distribution: Distribution
    samples: Samples
    coefficients: Coefficients

    @property
    def size(self) -> int:
        return len(self.samples)

    def function(self, objective: Objective, rows: Tensor) -> Function:
        chunks = self.samples.rows(rows.to(self.samples.observations.device)).slices(_CHUNK)
        module = self.network if objective == "total" else self.network.policy
        return Function(
            terms=[partial(self._mean, objective, chunk, len(rows)) for chunk in chunks],
            parameters=list(module.parameters()),
        )

    def _mean(self, objective: Objective, chunk: Samples, size: int) -> Tensor:
        """The chunk's part of the mean over `size` transitions."""
        params = self.network.policy(chunk.observations)
        log_prob = self.distribution.log_prob(params, chunk.actions)
        if objective == "ratio1":
            each = torch.exp(log_prob - log_prob.detach()) * chunk.advantages
        elif objective == "clip":
            each = surrogate(torch.exp(log_prob - chunk.log_probs), chunk.advantages, self.coefficients.clip)
        else:
            values = self.network.critic(chunk.observations)[:, 0]
            c = self.coefficients
            each = terms(chunk, params, values, self.distribution, c).loss(c)
        return each.sum() / size
