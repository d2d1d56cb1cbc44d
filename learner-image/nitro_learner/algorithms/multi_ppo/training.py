"""The epochs of a round: several policies train together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor

from nitro_api.algorithms.ppo import PpoHyperparameters
from nitro_learner.algorithms.agents.stacked import clip_rows
from nitro_learner.algorithms.agents.stacked_adam import AdamState, StackedAdam
from nitro_learner.algorithms.multi_ppo.loss import gradient, mean_terms
from nitro_learner.algorithms.multi_ppo.network import StackedActorCritic
from nitro_learner.algorithms.multi_ppo.samples import TeamSamples
from nitro_learner.algorithms.ppo.loss import Coefficients
from nitro_learner.networks.distributions import Distribution

CPU_CHUNK, GPU_CHUNK = 1024, 2**16
"""Samples of each policy that go through the networks in one pass."""


Data = TypeVar("Data")


@dataclass(frozen=True)
class Trained(Generic[Data]):
    """The result of a round for policies that trained together.

    Attributes:
        parameters: f32 [P, n].
        adam: each policy's.
        samples: as the loss saw them, except that advantages may be standardised in each minibatch.
        terms: means of the loss's terms at these parameters, by policy.
    """

    parameters: Tensor
    adam: list[AdamState]
    samples: Data
    terms: list[dict[str, float]]


def train(
    network: StackedActorCritic,
    parameters: Tensor,
    adam: Sequence[AdamState],
    samples: TeamSamples,
    generators: Sequence[torch.Generator],
    *,
    distribution: Distribution,
    settings: PpoHyperparameters,
    coefficients: Coefficients,
    kl: Tensor,
    rate: float,
) -> Trained[TeamSamples]:
    """Train policies for a round's epochs.

    Args:
        network: their shape.
        parameters: f32 [P, n]; not changed.
        adam: their optimisers' states; not changed.
        samples: with advantages that are not standardised.
        generators: each shuffles one policy's samples.
        distribution: of the actions.
        settings: of the algorithm.
        coefficients: of the loss; its KL penalty is not read.
        kl: f32 [P], coefficients of the policies' KL penalties.
        rate: of this round.
    """
    chunk = CPU_CHUNK if parameters.device.type == "cpu" else GPU_CHUNK
    minibatches = math.ceil(samples.size / (settings.minibatch_size or samples.size))
    if settings.standardise_advantages == "batch" or (
        settings.standardise_advantages == "minibatch" and minibatches == 1
    ):
        samples = samples.with_advantages(samples.standardised())
    trained = parameters.clone()
    optimiser = StackedAdam(trained, adam, settings.adam_epsilon)
    whole = samples.parts(math.ceil(samples.size / chunk))
    for _ in range(settings.epochs):
        if minibatches == 1:
            epoch = [whole]
        else:
            shuffled = samples.shuffled(generators, minibatches)
            if settings.standardise_advantages == "minibatch":
                shuffled = [one.with_advantages(one.standardised()) for one in shuffled]
            epoch = [one.parts(math.ceil(one.size / chunk)) for one in shuffled]
        for parts in epoch:
            step = gradient(network, trained, parts, distribution, coefficients, kl)
            clip_rows(step, settings.max_grad_norm)
            optimiser.step(step, rate)
    terms = mean_terms(network, trained, whole, distribution, coefficients)
    return Trained(trained, optimiser.states(), samples, terms)
