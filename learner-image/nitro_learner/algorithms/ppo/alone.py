"""The policy of the one agent of an environment, without a memory: it sees a vector or an image.

Runs of one agent are older than those of several. Their results and their checkpoints stay as they are, to
the bit. So the random numbers, the order of sums and the layout of the state are not those of teams.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nitro_actor.protocol.agents import AgentClass
from nitro_learner.algorithms.base import check_network
from nitro_learner.algorithms.ppo.loss import Coefficients
from nitro_learner.algorithms.ppo.model import Use
from nitro_learner.algorithms.ppo.policy import AgentPolicy
from nitro_learner.algorithms.ppo.rollouts import PolicyRollouts
from nitro_learner.algorithms.ppo.samples import Samples
from nitro_learner.algorithms.ppo.team import FeedForward, FeedForwardPasses
from nitro_learner.algorithms.updates import stream
from nitro_learner.networks.actor_critic import ActorCritic, PoliciesWithCritics, StackedShape, chunk_size
from nitro_learner.networks.architecture import network_of
from nitro_learner.networks.own.actor_critic import OwnActorCritic


class AlonePasses(FeedForwardPasses):
    """See `Passes`."""

    def _parts(self, samples: Samples) -> list[Samples]:
        """Parts of as many samples as one pass takes at most; the last one has the rest."""
        return samples.parts(self._chunk)


class Alone(FeedForward):
    """See `Model`."""

    standardises_twice = True  # as in all runs of one agent

    def network(self, agent_class: AgentClass) -> ActorCritic:
        return self._own or network_of(self._team.network, agent_class, self._team.environment.id)

    def description(self, agent_class: AgentClass) -> dict[str, Any]:
        return self._own.description if self._own else super().description(agent_class)

    @cached_property
    def _own(self) -> OwnActorCritic | None:
        """The networks, where they are modules of the user's own."""
        network, normalised = self._team.network, self.settings.normalise_observations
        if not network.entry_point:
            return None
        return OwnActorCritic(network, self._team.classes[0], normalised=normalised, device=self._device)

    def passes(
        self, network: ActorCritic, parameters: Tensor, c: Coefficients, kl: Sequence[float] | Tensor
    ) -> FeedForwardPasses:
        if isinstance(kl, Tensor):
            return AlonePasses(network, parameters, c, kl)
        # The penalty is one of the loss's coefficients: beside them its gradient is rounded otherwise.
        return AlonePasses(network, parameters, replace(c, kl=kl[0]), None)

    def distributions(
        self, network: ActorCritic, parameters: Tensor, inputs: Tensor, available: Tensor | None
    ) -> Tensor:
        # By the differentiable form, whose last bits the scaling agent's choices come from.
        with torch.no_grad():
            return network.distribution(network.bind(parameters), inputs, available)

    def generator(self, use: Use, round: int, policy: str) -> torch.Generator:  # noqa: ARG002
        seed = self._team.seed
        return torch.Generator().manual_seed(seed if use == "initial" else stream(seed, round))

    def saved(self, groups: Mapping[str, Sequence[str]], policies: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002
        """The state of the only policy, without a level for policies."""
        (state,) = policies.values()
        return {"network": self._described()} | {part: state[part] for part in state if part != "states"}

    def loaded(self, state: Mapping[str, Any]) -> tuple[Mapping[str, Sequence[str]], Mapping[str, Any]]:
        check_network(state["network"], self._described())
        (agent,) = self._team.agents
        return {agent: [agent]}, {agent: state}

    def _described(self) -> dict[str, Any]:
        if self._own:
            return self._own.identity
        (agent_class,) = self._team.classes
        return self.description(agent_class)

    def _values(self, network: ActorCritic, parameters: Tensor, inputs: Tensor) -> Tensor:
        return values_in_chunks(network, parameters, inputs)

    def _begin_critic(
        self,
        policy: AgentPolicy,
        network: PoliciesWithCritics[StackedShape],
        rollouts: PolicyRollouts,
        rewards: Sequence[np.ndarray],
    ) -> None:
        """Let the critic begin at 0, as it did in all runs of one agent."""

    def _take_in(self, policy: AgentPolicy, rollouts: PolicyRollouts) -> None:
        """Merge fragment by fragment, which is another order of sums than that of teams."""
        if policy.observations is not None:
            for observations in rollouts.fields("observations"):
                policy.observations.merge(observations)

    def _acted(self, rollouts: PolicyRollouts) -> None:
        """The one agent acts in every step, so the loss needs no weights."""


def values_in_chunks(network: ActorCritic, parameters: Tensor, inputs: Tensor) -> Tensor:
    """V [n] of the critic's inputs, in chunks as large as those of training: a round of images is too large
    for one pass."""
    theta, rows = network.bind(parameters), chunk_size(network.images, parameters.device.type)
    return torch.cat([network.traced_values(theta, part) for part in torch.split(inputs, rows)])
