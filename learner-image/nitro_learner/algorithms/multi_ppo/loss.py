"""PPO's loss of several policies at once, and its gradient: `ppo.loss`, averaged over agents that acted, with
a KL penalty of each policy's own weight."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from nitro_learner.algorithms.multi_ppo.network import StackedActorCritic
from nitro_learner.algorithms.multi_ppo.samples import StackedSamples, TeamSamples
from nitro_learner.algorithms.multi_ppo.update import Update
from nitro_learner.algorithms.ppo.loss import gradients, terms

CPU_CHUNK, GPU_CHUNK = 1024, 2**16
"""Samples of each policy that go through the networks in one pass."""


@torch.no_grad()
def gradient(
    network: StackedActorCritic, parameters: Tensor, parts: list[TeamSamples], update: Update
) -> Tensor:
    """The gradient of each policy's mean loss by its parameters, [P, n].

    Args:
        network: the policies' shape.
        parameters: f32 [P, n].
        parts: the samples, in parts that are passed through the networks one after another.
        update: the settings of this round.
    """
    distribution, c = update.distribution, update.coefficients
    into = torch.zeros_like(parameters)
    acted = acted_in(parts)
    kl = torch.tensor(update.kl, device=parameters.device)
    penalised = any(coefficient > 0 for coefficient in update.kl)
    for part in parts:
        trace = network.trace(parameters, part.inputs, part.stacked(part.critic_inputs), part.masked())
        rows = trace.distribution.flatten(0, 1)
        by_rows, by_values = gradients(part.samples, rows, trace.values.flatten(), distribution, c, scale=1.0)
        if penalised:
            by_kl = distribution.grad_kl(part.samples.distribution, rows)
            by_rows += by_kl * kl.repeat_interleave(part.size)[:, None]
        scale = part.stacked(part.weights) / acted
        by_distribution = part.stacked(by_rows) * scale[..., None]
        network.backpropagate(parameters, trace, by_distribution, part.stacked(by_values) * scale, into)
    return into


@torch.no_grad()
def mean_terms(
    network: StackedActorCritic, parameters: Tensor, parts: list[TeamSamples], update: Update
) -> list[dict[str, float]]:
    """Means of the loss's terms over each policy's samples of agents that acted: policy_loss, value_loss,
    entropy, kl, clip_fraction."""

    def terms_of(part: TeamSamples) -> list[Tensor]:
        trace = network.trace(parameters, part.inputs, part.stacked(part.critic_inputs), part.masked())
        rows, values = trace.distribution.flatten(0, 1), trace.values.flatten()
        t = terms(part.samples, rows, values, update.distribution, update.coefficients)
        return [-t.surrogate, t.value_error, t.entropy, t.kl, t.clipped]

    return means([(part, terms_of(part)) for part in parts])


def means(parts: list[tuple[TeamSamples, list[Tensor]]]) -> list[dict[str, float]]:
    """Means of the loss's terms over each policy's samples of agents that acted.

    Args:
        parts: samples, and of each a value [P * B] of every term in the order of the names.
    """
    sums = torch.zeros(5, parts[0][0].policies, dtype=torch.float64)
    for part, columns in parts:
        each = [part.stacked(column * part.weights).sum(1, dtype=torch.float64) for column in columns]
        sums += torch.stack(each).cpu()
    found = sums / acted_in([part for part, _ in parts])[:, 0].cpu()
    names = ("policy_loss", "value_loss", "entropy", "kl", "clip_fraction")
    return [dict(zip(names, column.tolist(), strict=True)) for column in found.T]


def acted_in(parts: Sequence[StackedSamples]) -> Tensor:
    """How many samples of agents that acted each policy has, f32 [P, 1]; 1 where it has none."""
    return torch.stack([part.acted() for part in parts]).sum(0).clamp(min=1.0)
