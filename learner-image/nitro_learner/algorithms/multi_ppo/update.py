"""What a round's update of several policies takes and gives, whatever their networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor

from nitro_learner.algorithms.actor_critic import explained_variance
from nitro_learner.algorithms.agents.stacked_adam import AdamState
from nitro_learner.algorithms.multi_ppo.network import PoliciesWithCritics
from nitro_learner.algorithms.multi_ppo.samples import Data, TeamSamples
from nitro_learner.algorithms.ppo.loss import Coefficients
from nitro_learner.networks.distributions import Distribution

Network = TypeVar("Network", bound=PoliciesWithCritics[Any])


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


Batch = TypeVar("Batch", bound=RoundBatch)


@dataclass(frozen=True, slots=True)
class Trained(Generic[Data]):
    """The result of a round for policies that trained together.

    Attributes:
        parameters: f32 [P, n].
        adam: each policy's.
        samples: as the loss saw them, but where it saw advantages standardised in each minibatch, these are
            standardised over the whole batch.
        terms: means of the loss's terms at these parameters, and of the gradients' norms, by policy.
    """

    parameters: Tensor
    adam: list[AdamState]
    samples: Data
    terms: list[dict[str, float]]


@dataclass(frozen=True, slots=True)
class PolicyStep(Generic[Network]):
    """One policy's step of a round, for its surrogate.

    Attributes:
        network: shape of policy and critic.
        parameters: f32 [1, n], theta_{k+1}, the learner's own until its next update.
        sampled: f32 [1, n], theta_k, which sampled the round.
        distribution: of the actions.
        standardised: f32 [N], advantages with mean 0 and deviation 1; those that the loss sees may differ.
        coefficients: of the loss.
    """

    network: Network
    parameters: Tensor
    sampled: Tensor
    distribution: Distribution
    standardised: Tensor
    coefficients: Coefficients


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


def batch_stats(batch: RoundBatch) -> dict[str, float]:
    """Statistics of a policy's batch, over the samples of agents that acted. There must be such samples."""
    acted = batch.samples.weights > 0
    returns, advantages = batch.samples.samples.returns[acted], batch.samples.samples.advantages[acted]
    return {
        "explained_variance": explained_variance(batch.values[acted], returns),
        "advantage_std": advantages.std(correction=0).item(),
    }
