"""The model of policies: what PPO asks of their networks and of what these learn from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from nitro_actor.protocol.agents import AgentClass
from nitro_api.algorithms.ppo import PpoHyperparameters
from nitro_learner.algorithms.agents.policy_network import actor_critic_description, identity_size, input_size
from nitro_learner.algorithms.agents.team import Team
from nitro_learner.algorithms.base import check_network
from nitro_learner.algorithms.ppo.loss import Coefficients, explained_variance
from nitro_learner.algorithms.ppo.policy import AgentPolicy
from nitro_learner.algorithms.ppo.rollouts import PolicyRollouts, When
from nitro_learner.algorithms.ppo.samples import Data, Samples
from nitro_learner.algorithms.updates import stream
from nitro_learner.boosting.surrogate import Surrogate
from nitro_learner.data.batch import on_device, vectors
from nitro_learner.data.gae import level
from nitro_learner.networks.actor_critic import PoliciesWithCritics, StackedShape

Network = TypeVar("Network", bound=PoliciesWithCritics[Any])
In = TypeVar("In", contravariant=True)

Use = Literal["initial", "order", "choice"]
"""Uses of random numbers: first parameters, the order of samples, the agents that are learned from."""

_USES: Sequence[Use] = ("initial", "order", "choice")


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


class Passes(Protocol[In]):
    """Passes through the networks of policies that train together. They see changes of the parameters."""

    def gradient(self, samples: In) -> Tensor:
        """The gradient of each policy's mean loss by its parameters, f32 [P, n], valid until the next one."""
        ...

    def terms(self, samples: In) -> list[dict[str, float]]:
        """Means of the loss's terms over each policy's samples; see `ppo.loss.loss_terms`."""
        ...


class Model(ABC, Generic[Network, Data]):
    """Networks of one kind, and the samples that they learn from.

    Attributes:
        settings: of the algorithm.
        central: whether critics see the state of all agents.
        standardises_twice: whether minibatches of a standardised batch are standardised again.
    """

    standardises_twice = False

    def __init__(self, team: Team, device: str) -> None:
        """Raise TypeError if the team's settings are not PPO's."""
        if not isinstance(team.settings, PpoHyperparameters):
            raise TypeError(f"{team.algorithm} has no settings of PPO")
        self._team, self._device = team, device
        self.settings = team.settings
        self.central = team.algorithm == "mappo"

    @abstractmethod
    def network(self, agent_class: AgentClass) -> Network:
        """The shape of a class's policies and critics."""

    @abstractmethod
    def batch(
        self,
        policy: AgentPolicy,
        network: Network,
        rollouts: PolicyRollouts,
        choose: Callable[[int], np.ndarray | None],
    ) -> PolicyBatch[Data]:
        """A policy's samples of a round; the round is taken into its statistics.

        Args:
            policy: as it sampled the round.
            network: its shape.
            rollouts: what its agents played.
            choose: chooses which of the agents it learns from, int64 [n] for n choices; None for all of them.
        """

    @abstractmethod
    def passes(
        self, network: Network, parameters: Tensor, c: Coefficients, kl: Sequence[float] | Tensor
    ) -> Passes[Data]:
        """The passes of policies of one shape that train together.

        Args:
            network: their shape.
            parameters: f32 [P, n].
            c: of the loss, without the KL penalty's.
            kl: the policies' coefficients of the KL penalty; f32 [P] where they change between two steps.
        """

    @abstractmethod
    def surrogate(
        self,
        network: Network,
        batch: PolicyBatch[Data],
        samples: Data,
        c: Coefficients,
        parameters: Tensor,
        sampled: Tensor,
    ) -> Surrogate:
        """A policy's objective of the round.

        Args:
            network: its shape.
            batch: its round.
            samples: of the batch, as the loss sees them.
            c: of the loss.
            parameters: f32 [1, n], theta_{k+1}, the learner's own until its next update.
            sampled: f32 [1, n], theta_k, which sampled the round.
        """

    @abstractmethod
    def distributions(
        self, network: Network, parameters: Tensor, inputs: Tensor, available: Tensor | None
    ) -> Tensor:
        """The parameters of a policy's action distributions, [m, .], without a graph.

        Args:
            network: its shape.
            parameters: f32 [1, n], its own and its critic's.
            inputs: f32 [m, D], each an episode's first.
            available: bool [m, C]; None where all actions are.
        """

    def generator(self, use: Use, round: int, policy: str) -> torch.Generator:
        """Random numbers of a policy in a round; 0 is before the first one."""
        keys = (_USES.index(use), round, self._team.index(policy))
        return torch.Generator().manual_seed(stream(self._team.seed, *keys))

    def choice(self, choices: int, agents: int, round: int, policy: str) -> np.ndarray:
        """See `chosen_agents`."""
        seed = (self._team.seed, _USES.index("choice"), round, self._team.index(policy))
        return chosen_agents(choices, agents, seed)

    def description(self, agent_class: AgentClass) -> dict[str, Any]:
        """The weights container's `network` of a class."""
        return actor_critic_description(self._team, agent_class)

    def saved(self, groups: Mapping[str, Sequence[str]], policies: Mapping[str, Any]) -> dict[str, Any]:
        """The learner's part of a checkpoint, of the agents and the state of each policy."""
        networks = {agent_class.name: self.description(agent_class) for agent_class in self._team.classes}
        return {"networks": networks, "groups": groups, "policies": policies}

    def loaded(self, state: Mapping[str, Any]) -> tuple[Mapping[str, Sequence[str]], Mapping[str, Any]]:
        """The agents and the state of each policy in the learner's part of a checkpoint.

        Raises:
            StateMisfit: it is of another network.
        """
        check_network(
            state["networks"],
            {agent_class.name: self.description(agent_class) for agent_class in self._team.classes},
        )
        return state["groups"], state["policies"]

    def input_sizes(self, agent_class: AgentClass) -> tuple[int, int]:
        """Inputs of a policy of a class, and of its critic."""
        own = input_size(self._team, agent_class)
        central = self._team.global_state_size + identity_size(self._team, agent_class)
        return own, central if self.central else own

    def samples(
        self,
        policy: AgentPolicy,
        network: PoliciesWithCritics[StackedShape],
        rollouts: PolicyRollouts,
        rows: np.ndarray | slice,
        critic: Callable[[When, Tensor], Tensor],
    ) -> tuple[Samples, Tensor]:
        """Make a policy's samples of a round, and take the round into its statistics.

        Args:
            policy: as it sampled the round.
            network: its shape.
            rollouts: what its agents played.
            rows: int64 [N], which rows of the rollouts become samples, in this order; or all.
            critic: its inputs [n, S] of one kind of observations to V [n]. The first call is of the steps'.

        Returns:
            The samples, with advantages that are not standardised, and their values f32 [N].
        """
        inputs, critic_inputs = self._inputs(policy, rollouts, "")

        def values(when: When) -> np.ndarray:
            seen = critic_inputs if when == "" else self._inputs(policy, rollouts, when)[1]
            found: np.ndarray = critic(when, on_device(seen, self._device)).cpu().numpy()
            return found

        def of_rows(array: np.ndarray) -> Tensor:
            return on_device(array[rows], self._device)

        rewards = policy.scaled(rollouts.lanes())
        self._begin_critic(policy, network, rollouts, rewards)
        estimates = rollouts.estimates(
            rewards, values, gamma=self.settings.gamma, gae_lambda=self.settings.gae_lambda
        )
        self._take_in(policy, rollouts)
        advantages, before = of_rows(estimates.advantages), of_rows(estimates.values)
        acted = self._acted(rollouts)
        samples = Samples(
            of_rows(inputs),
            of_rows(rollouts.rows("actions")),
            of_rows(rollouts.rows("log_probs")),
            of_rows(rollouts.rows("distribution")),
            advantages,
            advantages + before,
            of_rows(rollouts.rows("available")) if rollouts.masked else None,
            None if critic_inputs is inputs else of_rows(critic_inputs),
            None if acted is None else of_rows(acted),
        )
        return samples, before

    def _inputs(
        self, policy: AgentPolicy, rollouts: PolicyRollouts, when: When
    ) -> tuple[np.ndarray, np.ndarray]:
        """The inputs of a policy and of its critic, f32 [n, D] and [n, S], or images; one array if both are
        the same."""
        raw = rollouts.observations(when)
        own = raw if policy.observations is None else policy.observations(raw)
        if self._team.network.type == "mlp":
            own = vectors(own)
        identity = [rollouts.identities(len(own))] if self._team.agent_ids else []
        own = _beside(own, *identity)
        if not self.central:
            return own, own
        states = rollouts.states(when)
        seen = rollouts.of_agents(states if policy.states is None else policy.states(states))
        return own, _beside(seen, *identity)

    def _begin_critic(
        self,
        policy: AgentPolicy,
        network: PoliciesWithCritics[StackedShape],
        rollouts: PolicyRollouts,
        rewards: Sequence[np.ndarray],
    ) -> None:
        """Let a critic of scaled rewards begin at the level of its first round. One that began at 0 would
        fall to that level in many rounds. Meanwhile it would rate states that are typical of an episode's end
        too high, and policies would learn to reach them."""
        acted = rollouts.alive
        if policy.rewards is not None and policy.adam.steps == 0 and acted.any():
            begin = level(np.stack(rewards).reshape(-1)[acted], rollouts.ended[acted], self.settings.gamma)
            network.named(policy.parameters[None])["critic.head.bias"] += begin

    def _take_in(self, policy: AgentPolicy, rollouts: PolicyRollouts) -> None:
        """Merge a round's observations and states into the statistics, for the next round."""
        if policy.observations is not None:
            seen = rollouts.observations("")[rollouts.alive]
            policy.observations.merge(seen)
        if policy.states is not None:
            policy.states.merge(rollouts.states(""))

    def _acted(self, rollouts: PolicyRollouts) -> np.ndarray | None:
        """Weights of the rollouts' rows; see `Samples.weights`."""
        return rollouts.alive.astype(np.float32)


def penalties(kl: Sequence[float] | Tensor, device: torch.device) -> Tensor | None:
    """Weights of the policies' KL penalties, f32 [P]; None where all are 0, and stay 0."""
    if isinstance(kl, Tensor):
        return kl
    return torch.tensor(kl, device=device) if any(weight > 0 for weight in kl) else None


def chosen_agents(choices: int, agents: int, seed: Sequence[int]) -> np.ndarray:
    """Choose which of a policy's agents it learns from, int64 [choices], all equally likely: one for each
    environment, or for each of its steps. So the policy learns from as many samples as one agent has."""
    return np.random.default_rng(list(seed)).integers(agents, size=choices)


def _beside(*columns: np.ndarray) -> np.ndarray:
    return columns[0] if len(columns) == 1 else np.concatenate(columns, axis=1)
