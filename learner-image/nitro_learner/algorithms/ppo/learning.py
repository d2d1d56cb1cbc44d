"""Proximal policy optimisation (Schulman et al. 2017) for the agents of a team: ppo, ippo and mappo.

Each policy learns from its own agents' data. Policies of one shape that have equally many samples train
together, in batched products. One agent is a team of one policy; its preset `paper` is like RLlib, `tuned`
like CleanRL. In `ippo` the critic sees the observation of the agent (de Witt et al. 2020), in `mappo` the
state of all agents (Yu et al. 2022).

`Ppo.update` is the algorithm. What depends on the networks is in a `Model`: `alone.py`, `team.py`, `memory/`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nitro_actor.protocol.weights import PolicyWeights
from nitro_api.algorithms.actor_critic import ActorCriticHyperparameters
from nitro_learner.algorithms.agents.groups import Groups
from nitro_learner.algorithms.agents.policy_network import inputs
from nitro_learner.algorithms.agents.team import Team
from nitro_learner.algorithms.base import UpdateResult
from nitro_learner.algorithms.epochs import epochs
from nitro_learner.algorithms.ppo.alone import Alone
from nitro_learner.algorithms.ppo.loss import Coefficients
from nitro_learner.algorithms.ppo.memories import CriticMemories
from nitro_learner.algorithms.ppo.memory.model import RecurrentModel
from nitro_learner.algorithms.ppo.model import Model, PolicyBatch
from nitro_learner.algorithms.ppo.policy import AgentPolicy
from nitro_learner.algorithms.ppo.rollouts import PolicyRollouts
from nitro_learner.algorithms.ppo.samples import Data
from nitro_learner.algorithms.ppo.team import FeedForward
from nitro_learner.algorithms.ppo.training import Training
from nitro_learner.algorithms.updates import adapted, annealed, check_finite
from nitro_learner.data.batch import Fragment, check_round
from nitro_learner.networks.actor_critic import PoliciesWithCritics
from nitro_learner.networks.distributions import distribution_of
from nitro_learner.networks.normalise import ObservationNormaliser
from nitro_learner.networks.steps import Recent, graphs_on

_MOST_TRAININGS = 8
"""Trainings that are kept where steps are captured: of classes of agents, and of numbers of policies."""


class Ppo:
    """PPO, IPPO and MAPPO, whatever the networks. See `SharingLearner` for the interface.

    Attributes:
        settings: of the algorithm.
        learned: the policies, by the names of their first agents.
        captured: whether its steps are captured on a GPU. Those of a network or a loss of the user's own are
            not: a graph would not repeat what these compute outside of PyTorch.
    """

    captured = True

    def __init__(self, team: Team, device: str = "cpu") -> None:
        """
        Args:
            team: its algorithm is ppo, ippo or mappo.
            device: a torch device.

        Raises:
            TypeError: the settings are not PPO's.
            NetworkMisfit: the network does not fit the observations of a single agent.
        """
        self._model = self._model_of(team, device)
        self._team, self.settings, self._device = team, self._model.settings, device
        captured = self.captured and not team.network.entry_point
        self._graphs = graphs_on(device, "A gradient step") if captured else None
        self._trainings: Recent[Training[Any]] = Recent(_MOST_TRAININGS)
        self._networks = {agent_class.name: self._model.network(agent_class) for agent_class in team.classes}
        self._groups = Groups.initial(team)
        self.learned = {name: self._fresh(name) for name in self._groups.policies}

    def update(self, fragments: list[Fragment], round: int) -> dict[str, UpdateResult]:
        """See `OnPolicyLearner`."""
        check_round(fragments)
        batches = {name: self.batch(name, fragments, round) for name in self._groups.policies}

        def shape(name: str) -> tuple[str, int]:
            return self._groups.class_of(name).name, batches[name].data.size

        results: dict[str, UpdateResult] = {}
        for _, alike in groupby(sorted(batches, key=shape), key=shape):
            results |= self._learn({name: batches[name] for name in alike}, round)
        return {self._team.published(name): results[name] for name in batches}

    def batch(self, name: str, fragments: list[Fragment], round: int) -> PolicyBatch[Any]:
        """A policy's samples of a round, with advantages that are not standardised. The round is taken into
        the policy's statistics."""
        agent_class, positions = self._groups.class_of(name), self._groups.positions(name)
        rollouts = PolicyRollouts(self._team, agent_class, positions, fragments)

        def choose(choices: int) -> np.ndarray | None:
            if rollouts.agents == 1 or self._team.group_batch != "equal":
                return None
            return self._model.choice(choices, rollouts.agents, round, name)

        return self._model.batch(self.learned[name], self.network(name), rollouts, choose)

    def _learn(self, batches: Mapping[str, PolicyBatch[Any]], round: int) -> dict[str, UpdateResult]:
        """Train policies of one shape that have equally many samples, stacked: epochs of minibatches, a
        gradient step on each."""
        settings, names = self.settings, list(batches)
        network, before = self.network(names[0]), [self.learned[name] for name in names]
        rate = annealed(settings, round, self._team.rounds)
        c = Coefficients(
            clip=settings.clip,
            kl=0.0,
            entropy=settings.entropy_coefficient,
            value=settings.value_coefficient,
            value_clip=settings.value_clip or math.inf,
        )
        data = [batch.data for batch in batches.values()]
        samples, minibatches = parted(data[0].together(data), settings, twice=self._model.standardises_twice)
        sampled = torch.stack([policy.parameters for policy in before])
        training = self._training(names[0], before, c, rate)
        generators = [self._model.generator("order", round, name) for name in names]
        for _ in epochs(settings.epochs):
            for minibatch in minibatches(generators):
                training.step(minibatch)
        parameters = training.parameters
        check_finite(parameters, [""] if self._team.single else names, round)
        terms, norm, adam = training.terms(samples), training.norms(), training.states()
        results = {}
        for index, (name, batch) in enumerate(batches.items()):
            policy, kl = before[index], before[index].kl_coefficient
            stats = {"learning_rate": rate, "kl_coefficient": kl}
            if of_batch := batch.stats():  # else nobody acted, and only Adam's momentum would move it
                stats |= terms[index] | {"gradient_norm": norm[index]} | of_batch
                kl_after = adapted(kl, stats["kl"], settings.kl_target)
                policy = policy.trained(parameters[index].clone(), adam[index], kl_after)
            self.learned[name] = policy
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

    def _training(
        self, name: str, policies: Sequence[AgentPolicy], c: Coefficients, rate: float
    ) -> Training[Any]:
        """The training of policies of one shape, that of the first one's `name`."""

        def made() -> Training[Any]:
            return Training(self._model, self.network(name), c, policies, rate, self._graphs)

        if self._graphs is None:
            return made()
        penalised = any(policy.kl_coefficient for policy in policies)
        key = self._groups.class_of(name).name, len(policies), penalised
        training = self._trainings.get(key, made)
        training.begin(policies, rate)
        return training

    @property
    def policies(self) -> tuple[str, ...]:
        """See `Learner`."""
        return tuple(self._team.published(name) for name in self._groups.policies)

    @property
    def agents(self) -> Mapping[str, str]:
        """See `Learner`."""
        return {agent: self._team.published(name) for agent, name in self._groups.agents.items()}

    def weights(self) -> dict[str, PolicyWeights]:
        """See `Learner`."""
        return {
            self._team.published(name): policy.weights(
                self.network(name), self._model.description(self._groups.class_of(name))
            )
            for name, policy in self.learned.items()
        }

    def begin_round(self, round: int, rounds: int) -> None:  # noqa: ARG002
        """See `Learner`."""
        self._team = replace(self._team, rounds=rounds)

    def regroup(self, groups: Mapping[str, Sequence[str]]) -> None:
        """See `SharingLearner`."""
        before, after = self._groups, Groups(self._team, groups)
        policies = {}
        for name in after.policies:
            goes_on = name in self.learned
            policy = self.learned[name] if goes_on else self.learned[before.agents[name]].copy()
            if policy.rewards is not None and not (goes_on and before.of(name) == after.of(name)):
                policy.rewards.forget_episodes()
            policies[name] = policy
        self._groups, self.learned = after, policies

    @torch.no_grad()
    def distances(
        self, agents: Sequence[str], observations: np.ndarray, available: np.ndarray | None
    ) -> np.ndarray:
        """See `SharingLearner`."""
        mask = None if available is None else torch.from_numpy(available).to(self._device)
        seen = [self.distributions(agent, observations, mask) for agent in agents]
        family = distribution_of(self._groups.class_of(self._groups.agents[agents[0]]).action)
        return np.array([[family.kl(p, q).mean().item() for q in seen] for p in seen])

    def distributions(self, agent: str, observations: np.ndarray, available: Tensor | None) -> Tensor:
        """The parameters of an agent's action distributions, [m, .].

        Args:
            agent: its name.
            observations: raw, [m, *frame].
            available: bool [m, C]; None where all actions are.
        """
        name = self._groups.agents[agent]
        policy, agent_class = self.learned[name], self._groups.class_of(name)
        seen = observations if policy.observations is None else policy.observations(observations)
        rows = torch.from_numpy(inputs(self._team, agent_class, agent, seen)).to(self._device)
        return self._model.distributions(self.network(name), policy.parameters[None], rows, available)

    def state_dict(self) -> dict[str, Any]:
        """See `Learner`."""
        policies = {name: policy.state_dict(self.network(name)) for name, policy in self.learned.items()}
        return self._model.saved(self._groups.to_dict(), policies)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See `Learner`."""
        self.adopt(state)
        _, policies = self._model.loaded(state)
        self.learned = {name: policy.resumed(policies[name]) for name, policy in self.learned.items()}

    def adopt(self, state: dict[str, Any]) -> None:
        """See `Learner`."""
        saved, policies = self._model.loaded(state)
        groups = Groups(self._team, saved)
        self.learned = {
            name: self._fresh(name).adopting(policies[name], self.network(name)) for name in groups.policies
        }
        self._groups = groups

    def copy_slots(self, sources: Mapping[int, int]) -> None:
        """See `Learner`."""
        for policy in self.learned.values():
            if policy.rewards:
                policy.rewards.copy_slots(sources)
            if policy.memories:
                policy.memories.copy_slots(sources)

    def network(self, name: str) -> PoliciesWithCritics[Any]:
        """The shape of a policy and its critic."""
        shape: PoliciesWithCritics[Any] = self._networks[self._groups.class_of(name).name]
        return shape

    def _model_of(self, team: Team, device: str) -> Model[Any, Any]:
        """What of the algorithm depends on the networks."""
        if team.network.recurrent:
            return RecurrentModel(team, device)
        return Alone(team, device) if team.single else FeedForward(team, device)

    def _fresh(self, name: str) -> AgentPolicy:
        """A policy as a run begins with it."""
        agent_class, memory = self._groups.class_of(name), self._team.network.memory_size
        generator = self._model.generator("initial", 0, name)
        policy = AgentPolicy.fresh(
            self.network(name), self.settings, agent_class.observation, generator, self._device
        )
        if self._model.central and self.settings.normalise_observations:
            policy = replace(policy, states=ObservationNormaliser((self._team.global_state_size,)))
        if self._team.network.recurrent:
            policy = replace(policy, memories=CriticMemories(memory))
        return policy


def parted(
    raw: Data, settings: ActorCriticHyperparameters, *, twice: bool
) -> tuple[Data, Callable[[Sequence[torch.Generator]], Iterator[Data]]]:
    """Standardise samples' advantages, and part them for training. What is reported and measured is of the
    whole batch, so its advantages are standardised over the whole batch.

    Advantages are standardised in each minibatch only where samples can be parted anywhere. A minibatch of
    sequences may have a single one, whose steps are alike: its own mean would take away that it went better
    or worse than the others. So sequences are standardised over the whole batch.

    Args:
        raw: with advantages that are not standardised.
        settings: of the algorithm.
        twice: see `Model.standardises_twice`.

    Returns:
        The samples as the loss sees them, and an epoch's minibatches of them, in an order that each policy's
        generator draws.
    """
    count = min(math.ceil(raw.size / (settings.minibatch_size or raw.size)), raw.units)
    per_minibatch = settings.standardise_advantages == "minibatch"
    per_minibatch = per_minibatch and (twice or (count > 1 and raw.units == raw.size))
    standardised = raw
    if settings.standardise_advantages != "off":
        standardised = raw.with_advantages(raw.standardised())
    source = standardised if twice or not per_minibatch else raw

    def minibatches(generators: Sequence[torch.Generator]) -> Iterator[Data]:
        for minibatch in source.shuffled(generators, count) if count > 1 else [source]:
            yield minibatch.with_advantages(minibatch.standardised()) if per_minibatch else minibatch

    return standardised, minibatches
