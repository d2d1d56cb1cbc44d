"""The epochs of a round with recurrent layers: backpropagation through time along whole sequences."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from nitro_api.algorithms.ppo import PpoHyperparameters
from nitro_learner.algorithms.agents.stacked import clip_rows
from nitro_learner.algorithms.agents.stacked_adam import AdamState, StackedAdam
from nitro_learner.algorithms.multi_ppo.loss import acted_in, means
from nitro_learner.algorithms.multi_ppo.training import Trained
from nitro_learner.algorithms.multi_ppo.update import Update
from nitro_learner.algorithms.ppo.loss import terms
from nitro_learner.algorithms.recurrent_ppo.gru import scan
from nitro_learner.algorithms.recurrent_ppo.network import RecurrentActorCritic
from nitro_learner.algorithms.recurrent_ppo.sequences import Sequences

CHUNK = 8192
"""Samples of each policy that go through the networks in one pass."""


def train(
    network: RecurrentActorCritic,
    parameters: Tensor,
    adam: Sequence[AdamState],
    sequences: Sequences,
    update: Update,
    settings: PpoHyperparameters,
) -> Trained[Sequences]:
    """Train policies for a round's epochs. Minibatches are of whole sequences.

    Args:
        network: their shape.
        parameters: f32 [P, n]; not changed.
        adam: their optimisers' states; not changed.
        sequences: with advantages that are not standardised.
        update: the settings of this round.
        settings: of the algorithm.
    """
    size = settings.minibatch_size or sequences.rows.size
    minibatches = min(math.ceil(sequences.rows.size / size), sequences.count)
    each = settings.standardise_advantages == "minibatch" and minibatches > 1
    if settings.standardise_advantages != "off" and not each:
        sequences = sequences.standardised()
    trained = parameters.clone()
    optimiser = StackedAdam(trained, adam, settings.adam_epsilon)
    whole = sequences.parts(CHUNK)
    for _ in range(settings.epochs):
        epoch = [whole]
        if minibatches > 1:
            shuffled = sequences.shuffled(update.generators, minibatches)
            epoch = [(one.standardised() if each else one).parts(CHUNK) for one in shuffled]
        for parts in epoch:
            step = gradient(network, trained, parts, update)
            clip_rows(step, settings.max_grad_norm)
            optimiser.step(step, update.rate)
    return Trained(trained, optimiser.states(), sequences, mean_terms(network, trained, whole, update))


def gradient(
    network: RecurrentActorCritic, parameters: Tensor, parts: list[Sequences], update: Update
) -> Tensor:
    """The gradient of each policy's mean loss by its parameters, [P, n]; see `multi_ppo.loss.gradient`."""
    theta = parameters.detach().requires_grad_()
    into = torch.zeros_like(parameters)
    acted = acted_in([part.rows for part in parts])
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
