"""The samples that one policy of a team learns from in a round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic

import numpy as np
from torch import Tensor

from nitro_actor.protocol.agents import AgentClass
from nitro_api.algorithms.ppo import PpoHyperparameters
from nitro_learner.algorithms.agents.policy_network import identity_size, input_size
from nitro_learner.algorithms.agents.team import Team
from nitro_learner.algorithms.ppo.loss import explained_variance
from nitro_learner.algorithms.ppo.policy import AgentPolicy
from nitro_learner.algorithms.ppo.rollouts import PolicyRollouts, When
from nitro_learner.algorithms.ppo.samples import Data, Samples
from nitro_learner.data.batch import Fragment, on_device, vectors
from nitro_learner.data.gae import level
from nitro_learner.networks.actor_critic import ActorCritic, PoliciesWithCritics, StackedShape


@dataclass(frozen=True, slots=True)
class PolicyBatch(Generic[Data]):
    """What one policy learns from in a round.

    Attributes:
        data: samples, or sequences of them, with advantages that are not standardised.
        values: f32 [N], of the critic before the update.
        slots: fragments.
        envs: environments of each fragment, whose steps alternate in the samples, agent by agent.
        agents: of each environment in the samples.
    """

    data: Data
    values: Tensor
    slots: int
    envs: int
    agents: int

    def stats(self) -> dict[str, float]:
        """Statistics over the samples of agents that acted; none where nobody did."""
        samples = self.data.samples
        acted: Any = slice(None)
        if samples.weights is not None:
            acted = samples.weights > 0
            if not acted.any():
                return {}
        advantages = samples.advantages[acted]
        return {
            "explained_variance": explained_variance(self.values[acted], samples.returns[acted]),
            "advantage_std": advantages.std(correction=0).item(),
        }


class BatchMaker:
    """Makes the batches of a team's policies.

    Attributes:
        settings: of the algorithm.
        central: whether critics see the state of all agents.
    """

    def __init__(self, team: Team, *, central: bool, device: str) -> None:
        """Raise TypeError if the team's settings are not PPO's."""
        if not isinstance(team.settings, PpoHyperparameters):
            raise TypeError(f"{team.algorithm} has no settings of PPO")
        self._team, self.settings = team, team.settings
        self.central = central
        self._device = device

    def input_sizes(self, one: AgentClass) -> tuple[int, int]:
        """Inputs of a policy of a class, and of its critic."""
        own = input_size(self._team, one)
        central = self._team.global_state_size + identity_size(self._team, one)
        return own, central if self.central else own

    def inputs(
        self, policy: AgentPolicy, rollouts: PolicyRollouts, when: When
    ) -> tuple[np.ndarray, np.ndarray]:
        """The inputs of a policy and of its critic, f32 [n, D] and [n, S]; one array if both are the same."""
        raw = rollouts.observations(when)
        own = vectors(raw if policy.observations is None else policy.observations(raw))
        identity = [rollouts.identities(len(own))] if self._team.agent_ids else []
        own = _beside(own, *identity)
        if not self.central:
            return own, own
        states = rollouts.states(when)
        seen = rollouts.of_agents(states if policy.states is None else policy.states(states))
        return own, _beside(seen, *identity)

    def samples(
        self,
        policy: AgentPolicy,
        network: PoliciesWithCritics[StackedShape],
        rollouts: PolicyRollouts,
        rows: np.ndarray | slice,
        critic: Callable[[When, Tensor], Tensor],
    ) -> tuple[Samples, Tensor]:
        """Make a policy's samples of a round, and take the round into its statistics.

        A critic of scaled rewards begins at the level of its first round. One that began at 0 would fall to
        that level in many rounds. Meanwhile it would rate states that are typical of an episode's end too
        high, and policies would learn to reach them.

        Args:
            policy: as it sampled the round.
            network: its shape.
            rollouts: what its agents played.
            rows: int64 [N], which rows of the rollouts become samples, in this order; or all.
            critic: its inputs [n, S] of one kind of observations to V [n]. The first call is of the steps'.

        Returns:
            The samples, with advantages that are not standardised, and their values f32 [N].
        """
        inputs, critic_inputs = self.inputs(policy, rollouts, "")
        gamma, gae_lambda = self.settings.gamma, self.settings.gae_lambda

        def values(when: When) -> np.ndarray:
            seen = critic_inputs if when == "" else self.inputs(policy, rollouts, when)[1]
            found: np.ndarray = critic(when, on_device(seen, self._device)).cpu().numpy()
            return found

        lanes = rollouts.lanes()
        rewards = policy.scaled(lanes)
        if policy.rewards is not None and policy.adam.steps == 0 and rollouts.alive.any():
            acted = rollouts.alive
            begin = level(np.stack(rewards).reshape(-1)[acted], rollouts.ended[acted], gamma)
            network.named(policy.parameters[None])["critic.head.bias"] += begin
        estimates = rollouts.estimates(rewards, values, gamma=gamma, gae_lambda=gae_lambda)
        self._take_in(policy, rollouts)
        advantages, before = (
            on_device(each[rows], self._device) for each in (estimates.advantages, estimates.values)
        )
        samples = Samples(
            on_device(inputs[rows], self._device),
            on_device(rollouts.rows("actions")[rows], self._device),
            on_device(rollouts.rows("log_probs")[rows], self._device),
            on_device(rollouts.rows("distribution")[rows], self._device),
            advantages,
            advantages + before,
            on_device(rollouts.rows("available")[rows], self._device) if rollouts.masked else None,
            None if critic_inputs is inputs else on_device(critic_inputs[rows], self._device),
            on_device(rollouts.alive[rows].astype(np.float32), self._device),
        )
        return samples, before

    def make(
        self,
        policy: AgentPolicy,
        network: ActorCritic,
        rollouts: PolicyRollouts,
        chosen: np.ndarray | None,
    ) -> PolicyBatch[Samples]:
        """Make a policy's batch, and take the round into its statistics.

        Args:
            policy: as it sampled the round.
            network: its shape.
            rollouts: what its agents played.
            chosen: int64 [n / k], which of its agents it learns from at each step; None for all.
        """

        def critic(_: When, inputs: Tensor) -> Tensor:
            return network.traced_values(network.bind(policy.parameters[None]), inputs)

        rows = slice(None) if chosen is None else np.arange(len(chosen)) * rollouts.agents + chosen
        samples, values = self.samples(policy, network, rollouts, rows, critic)
        agents = rollouts.agents if chosen is None else 1
        return PolicyBatch(samples, values, rollouts.slots, rollouts.envs, agents)

    def _take_in(self, policy: AgentPolicy, rollouts: PolicyRollouts) -> None:
        """Merge a round's observations and states into the statistics, for the next round."""
        if policy.observations is not None:
            seen = rollouts.observations("")[rollouts.alive]
            policy.observations.merge([Fragment({}, {"observations": seen})])
        if policy.states is not None:
            policy.states.merge([Fragment({}, {"observations": rollouts.states("")})])


def chosen_agents(choices: int, agents: int, seed: Sequence[int]) -> np.ndarray:
    """Choose which of a policy's agents it learns from, int64 [choices], all equally likely: one for each
    environment, or for each of its steps. So the policy learns from as many samples as one agent has."""
    return np.random.default_rng(list(seed)).integers(agents, size=choices)


def _beside(*columns: np.ndarray) -> np.ndarray:
    return columns[0] if len(columns) == 1 else np.concatenate(columns, axis=1)
