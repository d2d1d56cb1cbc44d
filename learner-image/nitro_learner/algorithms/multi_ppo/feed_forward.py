"""Policies and critics that see the present observation alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from torch import Tensor

from nitro_actor.protocol.agents import AgentClass
from nitro_learner.algorithms.agents.stacked_adam import AdamState
from nitro_learner.algorithms.multi_ppo.batch import PolicyBatch
from nitro_learner.algorithms.multi_ppo.loss import CPU_CHUNK, GPU_CHUNK, gradient, mean_terms
from nitro_learner.algorithms.multi_ppo.model import Choose, Model
from nitro_learner.algorithms.multi_ppo.network import StackedActorCritic
from nitro_learner.algorithms.multi_ppo.policy import AgentPolicy
from nitro_learner.algorithms.multi_ppo.rollouts import PolicyRollouts
from nitro_learner.algorithms.multi_ppo.samples import TeamSamples
from nitro_learner.algorithms.multi_ppo.surrogate import MultiPpoSurrogate
from nitro_learner.algorithms.multi_ppo.training import train
from nitro_learner.algorithms.multi_ppo.update import PolicyStep, Trained, Update
from nitro_learner.data.batch import Fragment


class FeedForward(Model[StackedActorCritic, PolicyBatch, TeamSamples]):
    """See `Model`."""

    def network(self, one: AgentClass) -> StackedActorCritic:
        return StackedActorCritic(*self.batches.input_sizes(one), self._team.network, one.action)

    def batch(
        self,
        policy: AgentPolicy,
        network: StackedActorCritic,
        rollouts: PolicyRollouts,
        fragments: Sequence[Fragment],  # noqa: ARG002
        choose: Choose,
    ) -> PolicyBatch:
        chosen = choose(rollouts.slots * rollouts.length * rollouts.envs)
        return self.batches.make(policy, network, rollouts, chosen)

    def train(
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
            self.batches.settings,
            gradient=partial(gradient, network),
            mean_terms=partial(mean_terms, network),
            chunk=CPU_CHUNK if parameters.device.type == "cpu" else GPU_CHUNK,
        )

    def surrogate(
        self, step: PolicyStep[StackedActorCritic], samples: TeamSamples, batch: PolicyBatch
    ) -> MultiPpoSurrogate:
        return MultiPpoSurrogate(step, samples, batch.agents, batch.slots, batch.envs)

    def distributions(
        self, network: StackedActorCritic, policy: Tensor, inputs: Tensor, available: Tensor | None
    ) -> Tensor:
        return network.distribution(policy, inputs, available)
