"""Policies and critics with a recurrent layer.

A sequence is what one agent did in one environment of a fragment. It is replayed from the memory that the
policy had before its first step, which is part of the fragment. Gradients end there: this is backpropagation
through time, truncated where a fragment begins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from torch import Tensor

from nitro_actor.protocol.agents import AgentClass
from nitro_learner.algorithms.ppo.loss import Coefficients
from nitro_learner.algorithms.ppo.memory.network import RecurrentActorCritic
from nitro_learner.algorithms.ppo.memory.passes import RecurrentPasses
from nitro_learner.algorithms.ppo.memory.replay import CriticReplay
from nitro_learner.algorithms.ppo.memory.sequences import Sequences
from nitro_learner.algorithms.ppo.memory.surrogate import RecurrentSurrogate
from nitro_learner.algorithms.ppo.model import Model, PolicyBatch, penalties
from nitro_learner.algorithms.ppo.policy import AgentPolicy
from nitro_learner.algorithms.ppo.rollouts import PolicyRollouts
from nitro_learner.data.batch import on_device


class RecurrentModel(Model[RecurrentActorCritic, Sequences]):
    """See `Model`."""

    def network(self, agent_class: AgentClass) -> RecurrentActorCritic:
        return RecurrentActorCritic(*self.input_sizes(agent_class), self._team.network, agent_class.action)

    def batch(
        self,
        policy: AgentPolicy,
        network: RecurrentActorCritic,
        rollouts: PolicyRollouts,
        choose: Callable[[int], np.ndarray | None],
    ) -> PolicyBatch[Sequences]:
        assert policy.memories is not None, "the policy has a recurrent layer"
        agents, length, lanes = rollouts.agents, rollouts.length, rollouts.envs * rollouts.agents
        before, ends = policy.memories.before(rollouts.fragments, lanes), rollouts.lives_end
        replay = CriticReplay(
            network,
            policy.parameters,
            on_device(before, self._device),
            on_device(ends, self._device),
            rollouts.cut,
            agents,
        )
        # Shared policies learn from whole sequences too: one of their agents in each environment.
        chosen = choose(rollouts.slots * rollouts.envs)
        lane = np.arange(rollouts.slots * lanes)
        if chosen is not None:
            lane = np.arange(len(chosen)) * agents + chosen
        # Rows of the rollouts are ordered by fragment, step and lane.
        first = lane // lanes * (length * lanes) + lane % lanes
        samples, values = self.samples(
            policy,
            network,
            rollouts,
            (first[:, None] + np.arange(length) * lanes).reshape(-1),
            replay,
        )
        policy.memories.keep(rollouts.fragments, replay.after)
        keep = np.ones((length, 1, len(lane), 1), np.float32)
        keep[1:, 0, :, 0] -= ends.reshape(-1, length)[lane, :-1].T
        memory, critic_memory = (
            on_device(array.reshape(len(ends) * lanes, -1)[lane][None], self._device)
            for array in (rollouts.memory, before)
        )
        sequences = Sequences(samples, length, on_device(keep, self._device), memory, critic_memory)
        return PolicyBatch(sequences, values, rollouts.slots, rollouts.envs, agents if chosen is None else 1)

    def passes(
        self, network: RecurrentActorCritic, parameters: Tensor, c: Coefficients, kl: Sequence[float] | Tensor
    ) -> RecurrentPasses:
        return RecurrentPasses(network, parameters, c, penalties(kl, parameters.device))

    def surrogate(
        self,
        network: RecurrentActorCritic,
        batch: PolicyBatch[Sequences],
        samples: Sequences,
        c: Coefficients,
        parameters: Tensor,
        sampled: Tensor,
    ) -> RecurrentSurrogate:
        return RecurrentSurrogate(
            network,
            network.split(parameters),
            samples,
            c,
            network.split(sampled),
            batch.data.standardised(),
            batch.agents,
        )

    def distributions(
        self, network: RecurrentActorCritic, parameters: Tensor, inputs: Tensor, available: Tensor | None
    ) -> Tensor:
        raise NotImplementedError(
            "policies with a memory never change their agents: the job's rules refuse it"
        )
