"""The epochs of a round: several policies train together, whatever their networks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from torch import Tensor

from nitro_api.algorithms.ppo import PpoHyperparameters
from nitro_learner.algorithms.agents.stacked import clip_rows
from nitro_learner.algorithms.agents.stacked_adam import AdamState, StackedAdam
from nitro_learner.algorithms.epochs import epochs
from nitro_learner.algorithms.gradient import MeanNorm
from nitro_learner.algorithms.multi_ppo.samples import Data
from nitro_learner.algorithms.multi_ppo.update import Trained, Update


def train(
    parameters: Tensor,
    adam: Sequence[AdamState],
    samples: Data,
    update: Update,
    settings: PpoHyperparameters,
    *,
    gradient: Callable[[Tensor, list[Data], Update], Tensor],
    mean_terms: Callable[[Tensor, list[Data], Update], list[dict[str, float]]],
    chunk: int,
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
        gradient: of each policy's mean loss by its parameters, f32 [P, n], over samples in parts.
        mean_terms: means of the loss's terms over each policy's samples in parts.
        chunk: samples of each policy that go through the networks in one pass.
    """
    minibatches = min(math.ceil(samples.size / (settings.minibatch_size or samples.size)), samples.units)
    anywhere = samples.units == samples.size
    each = settings.standardise_advantages == "minibatch" and minibatches > 1 and anywhere
    # What is reported and measured is of the whole batch, so its advantages are too, as in PPO of one agent.
    reported = samples
    if settings.standardise_advantages != "off":
        reported = samples.with_advantages(samples.standardised())
    trained = parameters.clone()
    optimiser = StackedAdam(trained, adam, settings.adam_epsilon)
    whole, norms = reported.parts(chunk), MeanNorm()
    for _ in epochs(settings.epochs):
        epoch = [whole]
        if minibatches > 1:
            shuffled = (samples if each else reported).shuffled(update.generators, minibatches)
            if each:
                shuffled = [one.with_advantages(one.standardised()) for one in shuffled]
            epoch = [one.parts(chunk) for one in shuffled]
        for parts in epoch:
            step = gradient(trained, parts, update)
            norms.add(clip_rows(step, settings.max_grad_norm))
            optimiser.step(step, update.rate)
    terms = mean_terms(trained, whole, update)
    for policy, norm in zip(terms, norms.take(), strict=True):
        policy["gradient_norm"] = norm
    return Trained(trained, optimiser.states(), reported, terms)
