"""What a round's update of several policies takes and gives, whatever their networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor

from nitro_learner.algorithms.adam import AdamState
from nitro_learner.algorithms.ppo.loss import Coefficients
from nitro_learner.algorithms.ppo.samples import Data
from nitro_learner.networks.actor_critic import PoliciesWithCritics

Network = TypeVar("Network", bound=PoliciesWithCritics[Any])
In = TypeVar("In", contravariant=True)


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
class PolicyStep(Generic[Network, Data]):
    """One policy's step of a round, for its surrogate.

    Attributes:
        network: shape of policy and critic.
        parameters: f32 [1, n], theta_{k+1}, the learner's own until its next update.
        sampled: f32 [1, n], theta_k, which sampled the round.
        samples: as the loss saw them.
        standardised: f32 [N], advantages with mean 0 and deviation 1; those that the loss sees may differ.
        coefficients: of the loss.
    """

    network: Network
    parameters: Tensor
    sampled: Tensor
    samples: Data
    standardised: Tensor
    coefficients: Coefficients


class Passes(Protocol[In]):
    """Passes through the networks of policies that train together. They see changes of the parameters."""

    def gradient(self, samples: In, c: Coefficients, penalties: Tensor | None) -> Tensor:
        """The gradient of each policy's mean loss by its parameters, f32 [P, n], valid until the next one.

        Args:
            samples: of all policies.
            c: of the loss.
            penalties: weights of each policy's KL penalty, f32 [P], beside that of `c`.
        """
        ...

    def terms(self, samples: In, c: Coefficients) -> list[dict[str, float]]:
        """Means of the loss's terms over each policy's samples; see `ppo.loss.loss_terms`."""
        ...


@dataclass(frozen=True, slots=True)
class Update:
    """The settings of a round's update.

    Attributes:
        generators: each gives the order of one policy's samples.
        coefficients: of the loss, without the KL penalty's.
        kl: the policies' coefficients of the KL penalty.
        rate: the learning rate.
    """

    generators: list[torch.Generator]
    coefficients: Coefficients
    kl: list[float]
    rate: float
