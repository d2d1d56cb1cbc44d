"""The epochs of a round: several policies train together, whatever their networks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from nitro_api.algorithms.ppo import PpoHyperparameters
from nitro_learner.algorithms.adam import Adam, AdamState
from nitro_learner.algorithms.epochs import epochs
from nitro_learner.algorithms.gradient import MeanNorm, clip_rows
from nitro_learner.algorithms.ppo.samples import Data
from nitro_learner.algorithms.ppo.update import Passes, Trained, Update


def train(
    parameters: Tensor,
    adam: Sequence[AdamState],
    samples: Data,
    update: Update,
    settings: PpoHyperparameters,
    passes: Callable[[Tensor], Passes[Data]],
) -> Trained[Data]:
    """Train policies of one shape for a round's epochs.

    Advantages are standardised in each minibatch only where samples can be parted anywhere. A minibatch of
    sequences may have a single one, whose steps are alike: its own mean would take away that it went better
    or worse than the others. So sequences are standardised over the whole batch.

    Args:
        parameters: f32 [P, n]; not changed.
        adam: their optimisers' states; not changed.
        samples: with advantages that are not standardised.
        update: the settings of this round.
        settings: of the algorithm.
        passes: those of parameters.
    """
    minibatches = min(math.ceil(samples.size / (settings.minibatch_size or samples.size)), samples.units)
    anywhere = samples.units == samples.size
    each = settings.standardise_advantages == "minibatch" and minibatches > 1 and anywhere
    # What is reported and measured is of the whole batch, so its advantages are too, as in PPO of one agent.
    reported = samples
    if settings.standardise_advantages != "off":
        reported = samples.with_advantages(samples.standardised())
    trained = parameters.clone()
    through, norms = passes(trained), MeanNorm()
    optimiser = Adam(trained, adam, settings.adam_epsilon)
    c, penalties = update.coefficients, None
    if any(coefficient > 0 for coefficient in update.kl):
        penalties = torch.tensor(update.kl, device=parameters.device)
    for _ in epochs(settings.epochs):
        epoch = [reported]
        if minibatches > 1:
            epoch = (samples if each else reported).shuffled(update.generators, minibatches)
        for minibatch in epoch:
            if each:
                minibatch = minibatch.with_advantages(minibatch.standardised())
            step = through.gradient(minibatch, c, penalties)
            norms.add(clip_rows(step, settings.max_grad_norm))
            optimiser.step(step, update.rate)
    terms = through.terms(reported, c)
    for policy, norm in zip(terms, norms.take(), strict=True):
        policy["gradient_norm"] = norm
    return Trained(trained, optimiser.states(), reported, terms)
