"""IPPO and MAPPO whose policies act on the present observation alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from nitro_actor.protocol.agents import AgentClass
from nitro_learner.algorithms.multi_ppo.batch import PolicyBatch
from nitro_learner.algorithms.multi_ppo.learning import MultiPpoLearner
from nitro_learner.algorithms.multi_ppo.network import StackedActorCritic
from nitro_learner.algorithms.multi_ppo.policy import AgentPolicy
from nitro_learner.algorithms.multi_ppo.samples import TeamSamples
from nitro_learner.algorithms.multi_ppo.surrogate import MultiPpoSurrogate
from nitro_learner.algorithms.multi_ppo.training import train
from nitro_learner.algorithms.multi_ppo.update import LearnedPolicy, Update
from nitro_learner.data.batch import Fragment


class MultiPpo(MultiPpoLearner[StackedActorCritic, PolicyBatch]):
    """IPPO and MAPPO. See `SharingLearner` for the interface."""

    def _network_of(self, one: AgentClass) -> StackedActorCritic:
        return StackedActorCritic(*self._batches.input_sizes(one), self._team.network, one.action)

    def _batch(self, policy: str, fragments: list[Fragment], round: int) -> PolicyBatch:
        rollouts = self._rollouts(policy, fragments)
        return self._batches.make(
            self._policies[policy],
            self._network(policy),
            rollouts,
            self._chosen(policy, rollouts.slots * rollouts.length * rollouts.envs, round),
            gamma=self.settings.gamma,
            gae_lambda=self.settings.gae_lambda,
        )

    def _train(
        self,
        network: StackedActorCritic,
        before: Sequence[AgentPolicy],
        batches: Sequence[PolicyBatch],
        update: Update,
    ) -> list[LearnedPolicy]:
        sampled = torch.stack([policy.parameters for policy in before])
        trained = train(
            network,
            sampled,
            [policy.adam for policy in before],
            TeamSamples.together([batch.samples for batch in batches]),
            update.generators,
            distribution=update.distribution,
            settings=self.settings,
            coefficients=update.coefficients,
            kl=torch.tensor(update.kl, device=self._device),
            rate=update.rate,
        )
        return [
            LearnedPolicy(
                parameters,
                trained.adam[index],
                trained.terms[index],
                MultiPpoSurrogate(
                    network,
                    parameters[None],
                    sampled[index : index + 1],
                    update.distribution,
                    trained.samples.of(index),
                    batch.samples.standardised(),
                    replace(update.coefficients, kl=update.kl[index]),
                    batch.slots,
                    batch.lanes,
                ),
            )
            for index, (parameters, batch) in enumerate(zip(trained.parameters, batches, strict=True))
        ]

    def _distributions(
        self, network: StackedActorCritic, policy: Tensor, inputs: Tensor, available: Tensor | None
    ) -> Tensor:
        return network.distribution(policy, inputs, available)
