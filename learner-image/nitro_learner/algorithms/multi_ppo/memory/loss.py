"""PPO's loss of policies with recurrent layers, and its gradient: backpropagation through time along whole
sequences."""

from __future__ import annotations

import torch
from torch import Tensor

from nitro_learner.algorithms.agents.gru import scan
from nitro_learner.algorithms.multi_ppo.loss import acted_in, means
from nitro_learner.algorithms.multi_ppo.memory.network import RecurrentActorCritic
from nitro_learner.algorithms.multi_ppo.memory.sequences import Sequences
from nitro_learner.algorithms.multi_ppo.update import Update
from nitro_learner.algorithms.ppo.loss import terms

CHUNK = 8192
"""Samples of each policy that go through the networks in one pass."""


def gradient(
    network: RecurrentActorCritic, parameters: Tensor, parts: list[Sequences], update: Update
) -> Tensor:
    """The gradient of each policy's mean loss by its parameters, [P, n]; see `multi_ppo.loss.gradient`."""
    theta = parameters.detach().requires_grad_()
    into = torch.zeros_like(parameters)
    acted = acted_in(parts)
    kl = torch.tensor(update.kl, device=parameters.device)
    for part in parts:
        rows = part.rows
        with torch.enable_grad():
            params, values = network(*network.split(theta), part, scan)
            found = terms(
                rows.samples, params.flatten(0, 1), values.flatten(), update.distribution, update.coefficients
            )
            each = found.loss(update.coefficients) + kl.repeat_interleave(rows.size) * found.kl
            mean = (rows.stacked(each * rows.weights) / acted).sum()
            into += torch.autograd.grad(mean, theta)[0]
    return into


@torch.no_grad()
def mean_terms(
    network: RecurrentActorCritic, parameters: Tensor, parts: list[Sequences], update: Update
) -> list[dict[str, float]]:
    """Means of the loss's terms over each policy's samples; see `multi_ppo.loss.mean_terms`."""

    def terms_of(part: Sequences) -> list[Tensor]:
        params, values = network(*network.split(parameters), part, scan)
        t = terms(
            part.rows.samples,
            params.flatten(0, 1),
            values.flatten(),
            update.distribution,
            update.coefficients,
        )
        return [-t.surrogate, t.value_error, t.entropy, t.kl, t.clipped]

    return means([(part.rows, terms_of(part)) for part in parts])
