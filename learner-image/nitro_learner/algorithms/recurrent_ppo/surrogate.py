"""A round's objective of a policy with a recurrent layer, for the detector and the noise meter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from nitro_learner.algorithms.multi_ppo.loss import acted_in
from nitro_learner.algorithms.multi_ppo.surrogate import policy_objective
from nitro_learner.algorithms.ppo.loss import Coefficients, terms
from nitro_learner.algorithms.recurrent_ppo.gru import unroll
from nitro_learner.algorithms.recurrent_ppo.network import RecurrentActorCritic
from nitro_learner.algorithms.recurrent_ppo.sequences import Sequences
from nitro_learner.algorithms.recurrent_ppo.training import CHUNK
from nitro_learner.boosting.surrogate import Function, Objective
from nitro_learner.networks.distributions import Distribution


@dataclass(frozen=True, slots=True)
class RecurrentSurrogate:
    """The counterpart of `MultiPpoSurrogate`. A transition depends on the parameters by all steps of its
    sequence up to its own. So the sequences of the drawn transitions are replayed, and only the drawn
    transitions are summed.

    Attributes:
        network: shape of policy and critic.
        parameters: f32 [1, n], theta_{k+1}.
        sampled: f32 [1, n], theta_k, which sampled the round.
        sequences: of this policy, as the loss sees them.
        standardised: f32 [N], advantages with mean 0 and deviation 1; those of the sequences may differ.
        coefficients: of the loss.
    """

    network: RecurrentActorCritic
    parameters: Tensor
    sampled: Tensor
    distribution: Distribution
    sequences: Sequences
    standardised: Tensor
    coefficients: Coefficients

    @property
    def size(self) -> int:
        return self.sequences.rows.size

    def function(self, objective: Objective, rows: Tensor) -> Function:
        seen = self._seen(objective)
        drawn = torch.zeros_like(seen.rows.weights)
        drawn[rows.to(drawn.device)] = 1.0
        only = seen.with_rows(replace(seen.rows, weights=seen.rows.weights * drawn))
        needed = drawn.view(-1, seen.length).any(1).nonzero()[:, 0]
        return self._function(self.parameters, objective, only.take(needed[None]).parts(CHUNK))

    def trajectories(self, objective: Objective) -> Function:
        return self._function(self.sampled, objective, self._seen(objective).parts(1))

    def _seen(self, objective: Objective) -> Sequences:
        rows = self.sequences.rows
        return self.sequences.with_rows(
            rows if objective == "total" else rows.with_advantages(self.standardised)
        )

    def _function(self, theta: Tensor, objective: Objective, parts: Sequence[Sequences]) -> Function:
        policy, critic = (part.detach().clone().requires_grad_() for part in self.network.split(theta))
        acted = float(acted_in([part.rows for part in parts]))
        return Function(
            terms=[partial(self._mean, policy, critic, objective, part, acted) for part in parts],
            parameters=[policy, critic] if objective == "total" else [policy],
        )

    def _mean(
        self, policy: Tensor, critic: Tensor, objective: Objective, part: Sequences, acted: float
    ) -> Tensor:
        """The part's share of the mean."""
        samples, c = part.rows.samples, self.coefficients
        if objective == "total":
            params, values = self.network(policy, critic, part, unroll)
            each = terms(samples, params[0], values[0], self.distribution, c).loss(c)
        else:
            params = self.network.distributions(policy, part)
            each = policy_objective(objective, self.distribution, samples, params[0], c.clip)
        return (each * part.rows.weights).sum() / acted
