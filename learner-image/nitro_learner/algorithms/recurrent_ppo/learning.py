"""IPPO and MAPPO whose policies and critics have a recurrent layer.

A sequence is what one agent did in one environment of a fragment. It is replayed from the memory that the
policy had before its first step, which is part of the fragment. Gradients end there: this is backpropagation
through time, truncated where a fragment begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from torch import Tensor

from nitro_actor.protocol.agents import AgentClass
from nitro_learner.algorithms.agents.stacked_adam import AdamState
from nitro_learner.algorithms.multi_ppo.learning import MultiPpoLearner
from nitro_learner.algorithms.multi_ppo.samples import TeamSamples
from nitro_learner.algorithms.multi_ppo.training import train
from nitro_learner.algorithms.multi_ppo.update import PolicyStep, Trained, Update
from nitro_learner.algorithms.recurrent_ppo.loss import CHUNK, gradient, mean_terms
from nitro_learner.algorithms.recurrent_ppo.network import RecurrentActorCritic
from nitro_learner.algorithms.recurrent_ppo.replay import CriticReplay
from nitro_learner.algorithms.recurrent_ppo.sequences import Sequences
from nitro_learner.algorithms.recurrent_ppo.surrogate import RecurrentSurrogate
from nitro_learner.data.batch import Fragment, on_device


@dataclass(frozen=True, slots=True)
class SequenceBatch:
    """One policy's sequences of a round; see `RoundBatch`.

    Attributes:
        agents: of each environment in the sequences.
    """

    sequences: Sequences
    values: Tensor
    agents: int

    @property
    def samples(self) -> TeamSamples:
        return self.sequences.rows


class RecurrentMultiPpo(MultiPpoLearner[RecurrentActorCritic, SequenceBatch, Sequences]):
    """IPPO and MAPPO with memories. See `SharingLearner` for the interface."""

    def _network_of(self, one: AgentClass) -> RecurrentActorCritic:
        return RecurrentActorCritic(*self._batches.input_sizes(one), self._team.network, one.action)

    def _batch(self, policy: str, fragments: list[Fragment], round: int) -> SequenceBatch:
        own, network = self._policies[policy], self._network(policy)
        assert own.memories is not None, "the policy has a recurrent layer"
        rollouts = self._rollouts(policy, fragments)
        agents, length, lanes = rollouts.agents, rollouts.length, rollouts.envs * rollouts.agents
        before, ends = own.memories.before(fragments, lanes), rollouts.lives_end
        replay = CriticReplay(
            network,
            own.parameters,
            on_device(before, self._device),
            on_device(ends, self._device),
            rollouts.cut,
            agents,
        )
        # Shared policies learn from whole sequences too: one of their agents in each environment.
        chosen = self._chosen(policy, rollouts.slots * rollouts.envs, round)
        lane = np.arange(rollouts.slots * lanes)
        if chosen is not None:
            lane = np.arange(len(chosen)) * agents + chosen
        # Rows of the rollouts are ordered by fragment, step and lane.
        first = lane // lanes * (length * lanes) + lane % lanes
        samples, values = self._batches.samples(
            own,
            network,
            rollouts,
            (first[:, None] + np.arange(length) * lanes).reshape(-1),
            replay,
            gamma=self.settings.gamma,
            gae_lambda=self.settings.gae_lambda,
        )
        own.memories.keep(fragments, replay.after)
        keep = np.ones((length, 1, len(lane), 1), np.float32)
        keep[1:, 0, :, 0] -= ends.reshape(-1, length)[lane, :-1].T
        memory, critic_memory = (
            on_device(each.reshape(len(ends) * lanes, -1)[lane][None], self._device)
            for each in (rollouts.memory, before)
        )
        sequences = Sequences(samples, length, on_device(keep, self._device), memory, critic_memory)
        return SequenceBatch(sequences, values, agents if chosen is None else 1)

    def _train(
        self,
        network: RecurrentActorCritic,
        parameters: Tensor,
        adam: Sequence[AdamState],
        batches: Sequence[SequenceBatch],
        update: Update,
    ) -> Trained[Sequences]:
        return train(
            parameters,
            adam,
            Sequences.together([batch.sequences for batch in batches]),
            update,
            self.settings,
            gradient=partial(gradient, network),
            mean_terms=partial(mean_terms, network),
            chunk=CHUNK,
        )

    def _surrogate(
        self,
        step: PolicyStep[RecurrentActorCritic],
        samples: Sequences,
        batch: SequenceBatch,
    ) -> RecurrentSurrogate:
        return RecurrentSurrogate(step, samples, batch.agents)

    def _distributions(
        self, network: RecurrentActorCritic, policy: Tensor, inputs: Tensor, available: Tensor | None
    ) -> Tensor:
        raise NotImplementedError(
            "policies with a memory never change their agents: the job's rules refuse it"
        )
