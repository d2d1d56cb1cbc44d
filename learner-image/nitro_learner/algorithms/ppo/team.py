"""Policies and critics that see the present observation alone."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from nitro_actor.protocol.agents import AgentClass
from nitro_learner.algorithms.ppo.batch import PolicyBatch
from nitro_learner.algorithms.ppo.loss import Coefficients, gradient, loss_terms
from nitro_learner.algorithms.ppo.model import Choose, Model
from nitro_learner.algorithms.ppo.policy import AgentPolicy
from nitro_learner.algorithms.ppo.rollouts import PolicyRollouts
from nitro_learner.algorithms.ppo.samples import Samples
from nitro_learner.algorithms.ppo.surrogate import PpoSurrogate
from nitro_learner.algorithms.ppo.update import PolicyStep
from nitro_learner.data.batch import Fragment
from nitro_learner.networks.actor_critic import ActorCritic, chunk_size


class FeedForwardPasses:
    """See `Passes`."""

    def __init__(self, network: ActorCritic, parameters: Tensor) -> None:
        self._network = network
        self._theta = network.bind(parameters)
        self._gradient = torch.zeros_like(parameters)
        self._into = network.bind(self._gradient)
        self._chunk = chunk_size(network.images, parameters.device.type)

    def gradient(self, samples: Samples, c: Coefficients, penalties: Tensor | None) -> Tensor:
        self._gradient.zero_()
        gradient(self._network, self._theta, self._parts(samples), c, self._into, penalties)
        return self._gradient

    def terms(self, samples: Samples, c: Coefficients) -> list[dict[str, float]]:
        return loss_terms(self._network, self._theta, self._parts(samples), c)

    def _parts(self, samples: Samples) -> list[Samples]:
        """Parts of nearly equal size, of as many samples as one pass takes at most."""
        return samples.parts(math.ceil(samples.size / math.ceil(samples.size / self._chunk)))


class FeedForward(Model[ActorCritic, Samples]):
    """See `Model`."""

    def network(self, one: AgentClass) -> ActorCritic:
        return ActorCritic(*self.batches.input_sizes(one), self._team.network, one.action)

    def batch(
        self,
        policy: AgentPolicy,
        network: ActorCritic,
        rollouts: PolicyRollouts,
        fragments: Sequence[Fragment],  # noqa: ARG002
        choose: Choose,
    ) -> PolicyBatch[Samples]:
        chosen = choose(rollouts.slots * rollouts.length * rollouts.envs)
        return self.batches.make(policy, network, rollouts, chosen)

    def passes(self, network: ActorCritic, parameters: Tensor) -> FeedForwardPasses:
        return FeedForwardPasses(network, parameters)

    def surrogate(self, step: PolicyStep[ActorCritic, Samples], batch: PolicyBatch[Samples]) -> PpoSurrogate:
        network = step.network
        theta, sampled = network.bind(step.parameters), network.bind(step.sampled)
        return PpoSurrogate(
            network,
            theta,
            step.samples,
            step.coefficients,
            sampled,
            step.standardised,
            batch.agents,
            batch.slots,
            batch.envs,
        )

    def distributions(
        self, network: ActorCritic, parameters: Tensor, inputs: Tensor, available: Tensor | None
    ) -> Tensor:
        return network.traced_distribution(network.bind(parameters), inputs, available)
