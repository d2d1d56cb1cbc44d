"""Proximal policy optimisation for the agents of a team.

Each policy learns by PPO from its own agents' data. Policies of one shape that have equally many samples
train together, in batched products. `ippo` and `mappo` differ in what the critic sees: the agent's
observation (de Witt et al. 2020), or the state of all agents (Yu et al. 2022).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nitro_actor.actions import action_space
from nitro_actor.protocol.agents import AgentClass
from nitro_actor.protocol.weights import PolicyWeights
from nitro_learner.algorithms.actor_critic import adapted, annealed, stream
from nitro_learner.algorithms.adam import Adam, AdamState
from nitro_learner.algorithms.agents.groups import Groups
from nitro_learner.algorithms.agents.policy_network import description, inputs
from nitro_learner.algorithms.agents.team import Team
from nitro_learner.algorithms.base import UpdateResult, check_network
from nitro_learner.algorithms.epochs import epochs
from nitro_learner.algorithms.gradient import MeanNorm, clip_rows
from nitro_learner.algorithms.ppo.batch import PolicyBatch, chosen_agents
from nitro_learner.algorithms.ppo.loss import Coefficients
from nitro_learner.algorithms.ppo.memories import CriticMemories
from nitro_learner.algorithms.ppo.memory.model import RecurrentModel
from nitro_learner.algorithms.ppo.model import Model
from nitro_learner.algorithms.ppo.policy import AgentPolicy
from nitro_learner.algorithms.ppo.rollouts import PolicyRollouts
from nitro_learner.algorithms.ppo.team import FeedForward
from nitro_learner.data.batch import Fragment, check_round
from nitro_learner.networks.actor_critic import PoliciesWithCritics, StackedShape
from nitro_learner.networks.distributions import distribution_of
from nitro_learner.networks.normalise import OBSERVATION_CLIP, ObservationNormaliser, RewardNormaliser

_INITIAL, _ORDER, _CHOICE = range(3)
"""Uses of random numbers: first parameters, the order of samples, the agents that are learned from."""

Minibatched = Callable[[Sequence[torch.Generator]], Iterator[Any]]
"""An epoch's minibatches, in an order that each policy's generator draws."""


class MultiPpo:
    """IPPO and MAPPO, whatever the networks. See `SharingLearner` for the interface.

    Attributes:
        settings: of the algorithm.
    """

    def __init__(self, team: Team, device: str = "cpu") -> None:
        """
        Args:
            team: its algorithm is ippo or mappo.
            device: a torch device.

        Raises:
            TypeError: the settings are not PPO's.
        """
        model: type[Model[Any, Any]] = RecurrentModel if team.network.recurrent else FeedForward
        self._model = model(team, device)
        self._team, self.settings, self._device = team, self._model.batches.settings, device
        self._networks: dict[str, PoliciesWithCritics[StackedShape]] = {
            one.name: self._model.network(one) for one in team.classes
        }
        self._groups = Groups.initial(team)
        self._policies = {policy: self._fresh(policy) for policy in self._groups.policies}

    @property
    def policies(self) -> tuple[str, ...]:
        """See `Learner`."""
        return self._groups.policies

    @property
    def agents(self) -> Mapping[str, str]:
        """See `Learner`."""
        return self._groups.agents

    def weights(self) -> dict[str, PolicyWeights]:
        """See `Learner`."""
        published = {}
        for name, policy in self._policies.items():
            named = self._network(name).named(policy.parameters[None])
            tensors = {
                tensor: value[0].detach().cpu().numpy().copy()
                for tensor, value in named.items()
                if tensor.startswith("policy.")
            }
            clip = None
            if policy.observations is not None:
                tensors |= policy.observations.tensors()
                clip = OBSERVATION_CLIP
            published[name] = PolicyWeights(self._description(self._groups.class_of(name)), tensors, clip)
        return published

    def begin_round(self, round: int, rounds: int) -> None:  # noqa: ARG002
        """See `Learner`."""
        self._team = replace(self._team, rounds=rounds)

    def update(self, fragments: list[Fragment], round: int) -> dict[str, UpdateResult]:
        """See `OnPolicyLearner`."""
        check_round(fragments)
        batches = {policy: self._batch(policy, fragments, round) for policy in self._groups.policies}

        def shape(policy: str) -> tuple[str, int]:
            return self._groups.class_of(policy).name, batches[policy].data.size

        results: dict[str, UpdateResult] = {}
        for _, alike in groupby(sorted(batches, key=shape), key=shape):
            together = {policy: batches[policy] for policy in alike}
            results |= self._learn(together, round)
        return {policy: results[policy] for policy in batches}

    def _batch(self, name: str, fragments: list[Fragment], round: int) -> PolicyBatch[Any]:
        """A policy's samples of a round, with advantages that are not standardised."""
        one, positions = self._groups.class_of(name), self._groups.positions(name)
        rollouts = PolicyRollouts(self._team, one, positions, fragments)
        choose = partial(self._chosen, name, round)
        policy, network = self._policies[name], self._network(name)
        batch: PolicyBatch[Any] = self._model.batch(policy, network, rollouts, fragments, choose)
        return batch

    def _learn(self, batches: Mapping[str, PolicyBatch[Any]], round: int) -> dict[str, UpdateResult]:
        """Train policies of one shape that have equally many samples, stacked: epochs of minibatches, a
        gradient step on each."""
        settings, names = self.settings, list(batches)
        network, before = self._network(names[0]), [self._policies[name] for name in names]
        rate = annealed(settings, round, self._team.rounds)
        c = Coefficients(
            clip=settings.clip,
            kl=0.0,
            entropy=settings.entropy_coefficient,
            value=settings.value_coefficient,
            value_clip=settings.value_clip or math.inf,
        )
        samples, minibatches = self._samples([batch.data for batch in batches.values()])
        sampled = torch.stack([policy.parameters for policy in before])
        parameters = sampled.clone()
        optimiser = Adam(parameters, [policy.adam for policy in before], settings.adam_epsilon)
        passes = self._model.passes(network, parameters, c, [policy.kl_coefficient for policy in before])
        generators = [self._generator(_ORDER, round, self._team.index(name)) for name in names]
        norms = MeanNorm()
        for _ in epochs(settings.epochs):
            for minibatch in minibatches(generators):
                gradient = passes.gradient(minibatch)
                norms.add(clip_rows(gradient, settings.max_grad_norm))
                optimiser.step(gradient, rate)
        terms, norm, adam = passes.terms(samples), norms.take(), optimiser.states()
        results = {}
        for index, (name, batch) in enumerate(batches.items()):
            policy, kl = before[index], before[index].kl_coefficient
            if not torch.isfinite(parameters[index]).all():
                raise FloatingPointError(
                    f"round {round}: the weights of the policy {name} became infinite or NaN; "
                    "lower hyperparameters.learningRate or set hyperparameters.maxGradNorm"
                )
            stats = {"learning_rate": rate, "kl_coefficient": kl}
            if of_batch := batch.stats():  # else nobody acted, and only Adam's momentum would move it
                stats |= terms[index] | {"gradient_norm": norm[index]} | of_batch
                kl_after = adapted(kl, stats["kl"], settings.kl_target)
                policy = policy.trained(parameters[index].clone(), adam[index], kl_after)
            self._policies[name] = policy
            surrogate = self._model.surrogate(
                network,
                batch,
                samples.of(index),
                replace(c, kl=kl),
                policy.parameters[None],
                sampled[index : index + 1],
            )
            results[name] = UpdateResult(stats, surrogate)
        return results

    def _samples(self, data: Sequence[Any]) -> tuple[Any, Minibatched]:
        """Stack policies' samples, and part them for epochs. What is reported and measured is of the whole
        batch, so its advantages are standardised over the whole batch.

        Advantages are standardised in each minibatch only where samples can be parted anywhere. A minibatch
        of sequences may have a single one, whose steps are alike: its own mean would take away that it went
        better or worse than the others. So sequences are standardised over the whole batch.
        """
        settings, raw = self.settings, data[0].together(data)
        count = min(math.ceil(raw.size / (settings.minibatch_size or raw.size)), raw.units)
        each = settings.standardise_advantages == "minibatch" and count > 1 and raw.units == raw.size
        whole = raw
        if settings.standardise_advantages != "off":
            whole = raw.with_advantages(raw.standardised())

        def minibatches(generators: Sequence[torch.Generator]) -> Iterator[Any]:
            for minibatch in (raw if each else whole).shuffled(generators, count) if count > 1 else [whole]:
                yield minibatch.with_advantages(minibatch.standardised()) if each else minibatch

        return whole, minibatches

    def regroup(self, groups: Mapping[str, Sequence[str]]) -> None:
        """See `SharingLearner`."""
        before, after = self._groups, Groups(self._team, groups)
        policies = {}
        for name in after.policies:
            goes_on = name in self._policies
            policy = self._policies[name] if goes_on else self._policies[before.agents[name]].copy()
            if policy.rewards is not None and not (goes_on and before.of(name) == after.of(name)):
                policy.rewards.forget_episodes()
            policies[name] = policy
        self._groups, self._policies = after, policies

    @torch.no_grad()
    def distances(
        self, agents: Sequence[str], observations: np.ndarray, available: np.ndarray | None
    ) -> np.ndarray:
        """See `SharingLearner`."""
        mask = None if available is None else torch.from_numpy(available).to(self._device)
        seen = [self._distribution_of(agent, observations, mask) for agent in agents]
        family = distribution_of(self._groups.class_of(self._groups.agents[agents[0]]).action)
        return np.array([[family.kl(one, other).mean().item() for other in seen] for one in seen])

    def state_dict(self) -> dict[str, Any]:
        """See `Learner`."""
        return {
            "networks": {one.name: self._description(one) for one in self._team.classes},
            "groups": self._groups.to_dict(),
            "policies": {
                name: policy.state_dict(self._network(name)) for name, policy in self._policies.items()
            },
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See `Learner`."""
        self.adopt(state)
        self._policies = {name: one.resumed(state["policies"][name]) for name, one in self._policies.items()}

    def adopt(self, state: dict[str, Any]) -> None:
        """See `Learner`."""
        check_network(state["networks"], {one.name: self._description(one) for one in self._team.classes})
        groups = Groups(self._team, state["groups"])
        self._policies = {
            name: self._fresh(name).adopting(state["policies"][name], self._network(name))
            for name in groups.policies
        }
        self._groups = groups

    def copy_slots(self, sources: Mapping[int, int]) -> None:
        """See `Learner`."""
        for policy in self._policies.values():
            if policy.rewards:
                policy.rewards.copy_slots(sources)
            if policy.memories:
                policy.memories.copy_slots(sources)

    def _chosen(self, policy: str, round: int, choices: int) -> np.ndarray | None:
        """Choose which of a policy's agents it learns from, int64 [choices]; None for all of them."""
        agents = len(self._groups.positions(policy))
        if agents == 1 or self._team.group_batch != "equal":
            return None
        seed = (self._team.seed, _CHOICE, round, self._team.index(policy))
        return chosen_agents(choices, agents, seed)

    def _distribution_of(self, agent: str, observations: np.ndarray, available: Tensor | None) -> Tensor:
        """The action distributions' parameters [m, .] of the policy that an agent plays."""
        name = self._groups.agents[agent]
        policy, one = self._policies[name], self._groups.class_of(name)
        seen = observations if policy.observations is None else policy.observations(observations)
        rows = torch.from_numpy(inputs(self._team, one, agent, seen)).to(self._device)
        parameters = policy.parameters[None]
        found: Tensor = self._model.distributions(self._network(name), parameters, rows, available)
        return found

    def _network(self, policy: str) -> PoliciesWithCritics[StackedShape]:
        return self._networks[self._groups.class_of(policy).name]

    def _description(self, one: AgentClass) -> dict[str, Any]:
        """The weights container's `network` of a class."""
        described = action_space(one.action).network()
        return description(self._team, one, **described, logStd=self._team.network.log_std)

    def _fresh(self, name: str) -> AgentPolicy:
        """A policy as a run begins with it."""
        settings, one = self.settings, next(c for c in self._team.classes if name in c.agents)
        network = self._networks[one.name]
        generator = self._generator(_INITIAL, 0, self._team.index(name))
        parameters = network.initial(generator, orthogonal=settings.orthogonal_init).to(self._device)
        normalises = settings.normalise_observations
        return AgentPolicy(
            parameters,
            AdamState.fresh(network.size, self._device),
            settings.kl_coefficient,
            observations=ObservationNormaliser(tuple(one.observation["shape"])) if normalises else None,
            states=(
                ObservationNormaliser((self._team.global_state_size,))
                if normalises and self._model.batches.central
                else None
            ),
            rewards=RewardNormaliser(settings.gamma) if settings.normalise_rewards else None,
            memories=CriticMemories(self._team.network.memory_size) if self._team.network.recurrent else None,
        )

    def _generator(self, purpose: int, round: int, policy: int) -> torch.Generator:
        return torch.Generator().manual_seed(stream(self._team.seed, purpose, round, policy))
