"""IPPO and MAPPO whose policies act on the present observation alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from torch import Tensor

from nitro_actor.protocol.agents import AgentClass
from nitro_learner.algorithms.agents.stacked_adam import AdamState
from nitro_learner.algorithms.multi_ppo.batch import PolicyBatch
from nitro_learner.algorithms.multi_ppo.learning import MultiPpoLearner
from nitro_learner.algorithms.multi_ppo.loss import CPU_CHUNK, GPU_CHUNK, gradient, mean_terms
from nitro_learner.algorithms.multi_ppo.network import StackedActorCritic
from nitro_learner.algorithms.multi_ppo.samples import TeamSamples
from nitro_learner.algorithms.multi_ppo.surrogate import MultiPpoSurrogate
from nitro_learner.algorithms.multi_ppo.training import train
from nitro_learner.algorithms.multi_ppo.update import PolicyStep, Trained, Update
from nitro_learner.data.batch import Fragment


class MultiPpo(MultiPpoLearner[StackedActorCritic, PolicyBatch, TeamSamples]):
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
        parameters: Tensor,
        adam: Sequence[AdamState],
        batches: Sequence[PolicyBatch],
        update: Update,
    ) -> Trained[TeamSamples]:
        return train(
            parameters,
            adam,
            TeamSamples.together([batch.samples for batch in batches]),
            update,
            self.settings,
            gradient=partial(gradient, network),
            mean_terms=partial(mean_terms, network),
            chunk=CPU_CHUNK if parameters.device.type == "cpu" else GPU_CHUNK,
        )

    def _surrogate(
        self, step: PolicyStep[StackedActorCritic], samples: TeamSamples, batch: PolicyBatch
    ) -> MultiPpoSurrogate:
        return MultiPpoSurrogate(step, samples, batch.agents, batch.slots, batch.envs)

    def _distributions(
        self, network: StackedActorCritic, policy: Tensor, inputs: Tensor, available: Tensor | None
    ) -> Tensor:
        return network.distribution(policy, inputs, available)
