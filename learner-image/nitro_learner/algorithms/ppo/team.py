"""Policies and critics that see the present observation alone, stacked."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from nitro_actor.protocol.agents import AgentClass
from nitro_learner.algorithms.ppo.loss import Coefficients, gradient, loss_terms
from nitro_learner.algorithms.ppo.model import Model, PolicyBatch, penalties
from nitro_learner.algorithms.ppo.policy import AgentPolicy
from nitro_learner.algorithms.ppo.rollouts import PolicyRollouts, When
from nitro_learner.algorithms.ppo.samples import Samples
from nitro_learner.algorithms.ppo.surrogate import PpoSurrogate
from nitro_learner.networks.actor_critic import ActorCritic, chunk_size


class FeedForwardPasses:
    """See `Passes`."""

    def __init__(
        self, network: ActorCritic, parameters: Tensor, c: Coefficients, penalties: Tensor | None
    ) -> None:
        """
        Args:
            network: the policies' shape.
            parameters: f32 [P, n].
            c: of the loss.
            penalties: weights of each policy's KL penalty, f32 [P], beside that of `c`.
        """
        self._network, self._c, self._penalties = network, c, penalties
        self._theta = network.bind(parameters)
        self._gradient = torch.zeros_like(parameters)
        self._into = network.bind(self._gradient)
        self._chunk = chunk_size(network.images, parameters.device.type)

    def gradient(self, samples: Samples) -> Tensor:
        self._gradient.zero_()
        gradient(self._network, self._theta, self._parts(samples), self._c, self._into, self._penalties)
        return self._gradient

    def terms(self, samples: Samples) -> list[dict[str, float]]:
        return loss_terms(self._network, self._theta, self._parts(samples), self._c)

    def _parts(self, samples: Samples) -> list[Samples]:
        """Parts of nearly equal size, of as many samples as one pass takes at most."""
        return samples.parts(math.ceil(samples.size / math.ceil(samples.size / self._chunk)))


class FeedForward(Model[ActorCritic, Samples]):
    """See `Model`."""

    def network(self, agent_class: AgentClass) -> ActorCritic:
        return ActorCritic(*self.input_sizes(agent_class), self._team.network, agent_class.action)

    def batch(
        self,
        policy: AgentPolicy,
        network: ActorCritic,
        rollouts: PolicyRollouts,
        choose: Callable[[int], np.ndarray | None],
    ) -> PolicyBatch[Samples]:
        def critic(_: When, inputs: Tensor) -> Tensor:
            return self._values(network, policy.parameters[None], inputs)

        # A shared policy learns from one of its agents at each step.
        chosen = choose(rollouts.slots * rollouts.length * rollouts.envs)
        rows = slice(None) if chosen is None else np.arange(len(chosen)) * rollouts.agents + chosen
        samples, values = self.samples(policy, network, rollouts, rows, critic)
        agents = rollouts.agents if chosen is None else 1
        return PolicyBatch(samples, values, rollouts.slots, rollouts.envs, agents)

    def passes(
        self, network: ActorCritic, parameters: Tensor, c: Coefficients, kl: Sequence[float] | Tensor
    ) -> FeedForwardPasses:
        return FeedForwardPasses(network, parameters, c, penalties(kl, parameters.device))

    def surrogate(
        self,
        network: ActorCritic,
        batch: PolicyBatch[Samples],
        samples: Samples,
        c: Coefficients,
        parameters: Tensor,
        sampled: Tensor,
    ) -> PpoSurrogate:
        return PpoSurrogate(
            network,
            network.bind(parameters),
            samples,
            c,
            network.bind(sampled),
            batch.data.standardised(),
            batch.agents,
            batch.slots,
            batch.envs,
        )

    def distributions(
        self, network: ActorCritic, parameters: Tensor, inputs: Tensor, available: Tensor | None
    ) -> Tensor:
        return network.traced_distribution(network.bind(parameters), inputs, available)

    def _values(self, network: ActorCritic, parameters: Tensor, inputs: Tensor) -> Tensor:
        """V [n] of a critic's inputs."""
        return network.traced_values(network.bind(parameters), inputs)
