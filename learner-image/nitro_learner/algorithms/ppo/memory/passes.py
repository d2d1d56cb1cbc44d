"""PPO's loss of policies with recurrent layers, and its gradient: backpropagation through time along whole
sequences."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nitro_learner.algorithms.agents.gru import scan
from nitro_learner.algorithms.ppo.loss import Coefficients, Terms, means, terms
from nitro_learner.algorithms.ppo.memory.network import RecurrentActorCritic
from nitro_learner.algorithms.ppo.memory.sequences import Sequences
from nitro_learner.algorithms.ppo.samples import acted_in

CHUNK = 8192
"""Samples of each policy that go through the networks in one pass."""


@dataclass(frozen=True, slots=True)
class RecurrentPasses:
    """See `Passes`.

    Attributes:
        network: the policies' shape.
        parameters: f32 [P, n].
        coefficients: of the loss.
        penalties: weights of each policy's KL penalty, f32 [P], beside that of `coefficients`.
    """

    network: RecurrentActorCritic
    parameters: Tensor
    coefficients: Coefficients
    penalties: Tensor | None

    def gradient(self, samples: Sequences) -> Tensor:
        theta, into = self.parameters.detach().requires_grad_(), torch.zeros_like(self.parameters)
        parts = samples.parts(CHUNK)
        acted = acted_in([part.rows for part in parts])
        for part in parts:
            rows = part.rows
            with torch.enable_grad():
                loss_terms = self._terms(theta, part)
                losses = loss_terms.loss(self.coefficients)
                if self.penalties is not None:
                    losses = losses + self.penalties.repeat_interleave(rows.size) * loss_terms.kl
                if rows.weights is not None:
                    losses = losses * rows.weights
                into += torch.autograd.grad((rows.stacked(losses) / acted).sum(), theta)[0]
        return into

    @torch.no_grad()
    def terms(self, samples: Sequences) -> list[dict[str, float]]:
        return means([(part.rows, self._terms(self.parameters, part)) for part in samples.parts(CHUNK)])

    def _terms(self, theta: Tensor, part: Sequences) -> Terms:
        params, values = self.network(*self.network.split(theta), part, scan)
        return terms(part.rows, params, values, self.network.family, self.coefficients)
