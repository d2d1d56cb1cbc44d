"""What a round's update of several policies takes and gives, whatever their networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from nitro_learner.algorithms.agents.stacked_adam import AdamState
from nitro_learner.algorithms.multi_ppo.samples import TeamSamples
from nitro_learner.algorithms.ppo.loss import Coefficients
from nitro_learner.boosting.surrogate import Surrogate
from nitro_learner.networks.distributions import Distribution


class RoundBatch(Protocol):
    """What a policy learns from in a round.

    Attributes:
        samples: with advantages that are not standardised.
        values: f32 [N], of the critic before the update.
    """

    @property
    def samples(self) -> TeamSamples: ...

    @property
    def values(self) -> Tensor: ...


@dataclass(frozen=True, slots=True)
class LearnedPolicy:
    """The result of a round for one policy.

    Attributes:
        parameters: f32 [n].
        adam: its optimiser's state.
        terms: means of the loss's terms at these parameters.
        surrogate: of the round.
    """

    parameters: Tensor
    adam: AdamState
    terms: dict[str, float]
    surrogate: Surrogate


@dataclass(frozen=True, slots=True)
class Update:
    """The settings of a round's update.

    Attributes:
        generators: each gives the order of one policy's samples.
        distribution: of the actions.
        coefficients: of the loss, without the KL penalty's.
        kl: the policies' coefficients of the KL penalty.
        rate: the learning rate.
    """

    generators: list[torch.Generator]
    distribution: Distribution
    coefficients: Coefficients
    kl: list[float]
    rate: float
