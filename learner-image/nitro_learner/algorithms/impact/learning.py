"""IMPACT (Luo et al. 2020): PPO on replayed fragments of older policies, stabilised by a target network.

    rho = min(mu / pi_target, 2);  r = rho pi / mu;  L = -E[min(r A, clip(r, 1 - c, 1 + c) A)]

mu sampled the fragment; A and the critic's targets come from V-trace with pi_target as its target policy.
Since r = pi / max(pi_target, mu / 2), this is PPO's loss with that denominator in place of the old policy,
and PPO's gradient, statistics and surrogate serve both.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nitro_actor.protocol.weights import DEFAULT_POLICY, PolicyWeights
from nitro_api.algorithms.impact import ImpactHyperparameters
from nitro_learner.algorithms.adam import Adam
from nitro_learner.algorithms.agents.policy_network import actor_critic_description
from nitro_learner.algorithms.agents.team import Team
from nitro_learner.algorithms.base import SINGLE_AGENT, UpdateResult, check_network
from nitro_learner.algorithms.gradient import MeanNorm, clip_rows
from nitro_learner.algorithms.impact.replay import CircularBuffer
from nitro_learner.algorithms.impact.vtrace import traced
from nitro_learner.algorithms.ppo.alone import AlonePasses, values_in_chunks
from nitro_learner.algorithms.ppo.learning import parted
from nitro_learner.algorithms.ppo.loss import Coefficients, explained_variance
from nitro_learner.algorithms.ppo.policy import AgentPolicy, load_named
from nitro_learner.algorithms.ppo.rollouts import PolicyRollouts, When
from nitro_learner.algorithms.ppo.samples import Samples
from nitro_learner.algorithms.ppo.surrogate import PpoSurrogate
from nitro_learner.algorithms.updates import adapted, annealed, check_finite, stream
from nitro_learner.data.batch import Fragment, on_device, vectors
from nitro_learner.data.shapes import check
from nitro_learner.networks.actor_critic import chunk_size
from nitro_learner.networks.architecture import network_of

_MOST_RATIO = 2.0
"""Bound of mu / pi_target."""

_DISCRETE_BUFFER, _CONTINUOUS_BUFFER = (4, 2), (16, 20)
"""N and K where the job leaves them to the action space: IMPACT's own. Actions of several whole numbers have
those of discrete ones."""


@dataclass(frozen=True, slots=True)
class _Sampled:
    """A fragment and its rewards f32 [L, E], as the critic sees them."""

    fragment: Fragment
    rewards: np.ndarray


class Impact:
    """IMPACT, of the only agent of an environment. See `OffPolicyLearner` for the interface.

    The buffer is not part of the state: a resumed run fills it again, as at its start. It may hold more data
    than a checkpoint should write every round, and requests that were running when the run stopped are lost
    in any case.

    Attributes:
        settings: of the algorithm.
        network: the shape of policy and critic.
        policy: what is learned.
        parameters: f32 [1, n], the policy's and the critic's, a view.
        target: of the target network, f32 [1, n].
    """

    policies = (DEFAULT_POLICY,)
    agents = SINGLE_AGENT

    policy: AgentPolicy
    parameters: Tensor
    _norms: MeanNorm

    def __init__(self, team: Team, device: str = "cpu") -> None:
        """
        Args:
            team: the only agent of its environment.
            device: a torch device.

        Raises:
            NetworkMisfit: the network does not fit the observations.
            TypeError: the settings are not IMPACT's.
        """
        if not isinstance(team.settings, ImpactHyperparameters):
            raise TypeError(f"{team.algorithm} has no settings of IMPACT")
        (agent_class,) = team.classes
        self.settings = settings = team.settings
        self._team, self._seed, self._device = team, team.seed, device
        self._network_meta = actor_critic_description(team, agent_class)
        self.network = network_of(team.network, agent_class, team.environment.id)
        generator = torch.Generator().manual_seed(team.seed)
        self._begin(AgentPolicy.fresh(self.network, settings, agent_class.observation, generator, device))
        self.target = self.parameters.clone()
        usual = _CONTINUOUS_BUFFER if agent_class.action["kind"] == "continuous" else _DISCRETE_BUFFER
        batches, uses = settings.buffer_batches or usual[0], settings.buffer_uses or usual[1]
        self._fragments_per_batch = max(1, math.ceil(settings.batch_size / team.environment.rollout_length))
        self._target_every = max(1, round(settings.target_update_frequency * batches * uses))
        self._buffer: CircularBuffer[list[_Sampled]] = CircularBuffer(batches, uses)
        self._waiting: list[_Sampled] = []
        self._fresh: list[_Sampled] = []
        self._passes = 0
        self._rate = settings.learning_rate

    @property
    def max_staleness(self) -> int:
        return self.settings.max_staleness

    def weights(self) -> dict[str, PolicyWeights]:
        """See `Learner`."""
        return {DEFAULT_POLICY: self.policy.weights(self.network, self._network_meta)}

    def begin_round(self, round: int, rounds: int) -> None:
        """See `Learner`. The rate is no part of the state: a run that goes on may have other rounds."""
        self._rate = annealed(self.settings, round, rounds)

    def take(self, fragments: list[Fragment]) -> None:
        for fragment in fragments:
            (rewards,) = self.policy.scaled(PolicyRollouts.alone(self._team, [fragment]).lanes())
            sampled = _Sampled(fragment, rewards)
            self._fresh.append(sampled)
            self._waiting.append(sampled)
            if len(self._waiting) == self._fragments_per_batch:
                self._buffer.add(self._waiting)
                self._waiting = []
                self.replay()

    def replay(self) -> bool:
        batch = self._buffer.draw(np.random.default_rng([self._seed, self._passes]))
        if batch is None:
            return False
        samples, _ = self.samples(batch)
        _, minibatches = parted(samples, self.settings, twice=True)
        passes = self._losses()
        generator = torch.Generator().manual_seed(stream(self._seed, self._passes))
        for _ in range(self.settings.epochs):
            for minibatch in minibatches([generator]):
                gradient = passes.gradient(minibatch)
                self._norms.add(clip_rows(gradient, self.settings.max_grad_norm))
                self._optimiser.step(gradient, self._rate)
        self._passes += 1
        if self._passes % self._target_every == 0:
            self.target.copy_(self.parameters)
        return True

    def end_round(self, round: int) -> dict[str, UpdateResult]:
        check_finite(self.parameters, [""], round)
        fresh, self._fresh = self._fresh, []
        raw, stats = self.samples(fresh)
        samples, _ = parted(raw, self.settings, twice=True)
        (terms,) = self._losses().terms(samples)
        if norm := self._norms.take():
            terms["gradient_norm"] = norm[0]
        c = self._coefficients()
        stats |= terms | {"learning_rate": self._rate, "kl_coefficient": c.kl}
        kl_after = adapted(c.kl, stats["kl"], self.settings.kl_target)
        self.policy = replace(self.policy, kl_coefficient=kl_after)
        if self.policy.observations is not None:
            rollouts = PolicyRollouts.alone(self._team, [sampled.fragment for sampled in fresh])
            for observations in rollouts.fields("observations"):
                self.policy.observations.merge(observations)
        surrogate = PpoSurrogate(
            self.network,
            self.network.bind(self.parameters),
            samples,
            c,
            None,
            raw.standardised(),
            agents=1,
            slots=len(fresh),
            envs=fresh[0].fragment.envs,
        )
        return {DEFAULT_POLICY: UpdateResult(stats, surrogate)}

    @torch.no_grad()
    def samples(self, batch: list[_Sampled]) -> tuple[Samples, dict[str, float]]:
        """Make samples from fragments, at the present target network and critic, with advantages that are not
        standardised, and their statistics explained_variance and advantage_std."""
        rollouts = PolicyRollouts.alone(self._team, [sampled.fragment for sampled in batch])
        observations = self._inputs(rollouts.observations(""))

        def of_rows(array: np.ndarray) -> Tensor:
            return on_device(array, self._device)

        def values(when: When) -> np.ndarray:
            inputs = observations if when == "" else self._inputs(rollouts.observations(when))
            found: np.ndarray = self._values(inputs).cpu().numpy()
            return found

        actions, log_probs = of_rows(rollouts.rows("actions")), of_rows(rollouts.rows("log_probs"))
        available = of_rows(rollouts.rows("available")) if rollouts.masked else None
        target = self._distribution(observations)
        if available is not None:
            target = self.network.family.masked(target, available)
        target_log_probs = self.network.family.log_prob(target, actions)
        trace = traced(
            rollouts,
            [sampled.rewards for sampled in batch],
            (target_log_probs - log_probs).cpu().numpy(),
            values,
            gamma=self.settings.gamma,
            lam=self.settings.gae_lambda,
        )
        advantages, targets = of_rows(trace.advantages), of_rows(trace.targets)
        samples = Samples(
            observations,
            actions,
            denominator(target_log_probs, log_probs),
            target,
            advantages,
            targets,
            available,
        )
        return samples, {
            "explained_variance": explained_variance(of_rows(trace.values), targets),
            "advantage_std": advantages.std(correction=0).item(),
        }

    def state_dict(self) -> dict[str, Any]:
        """See `Learner`. It is laid out as PPO's of one agent."""
        (adam,) = self._optimiser.states()
        policy = replace(self.policy, adam=adam).state_dict(self.network)
        del policy["states"]
        target = {name: value.cpu().clone() for name, value in self._target().items()}
        return {"network": self._network_meta, **policy, "target": target, "passes": self._passes}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """See `Learner`."""
        self.adopt(state)
        self.policy = self.policy.resumed(state)
        self._passes = int(state["passes"])

    def adopt(self, state: dict[str, Any]) -> None:
        """See `Learner`."""
        check_network(state["network"], self._network_meta)
        self._begin(self.policy.adopting(state, self.network))
        load_named(self._target(), state["target"])
        self._buffer.clear()
        self._waiting, self._fresh = [], []

    def copy_slots(self, sources: Mapping[int, int]) -> None:
        """See `Learner`."""
        if self.policy.rewards:
            self.policy.rewards.copy_slots(sources)

    def _begin(self, policy: AgentPolicy) -> None:
        """Learn on from a policy."""
        self.policy = policy
        self.parameters = policy.parameters[None]
        self._optimiser = Adam(self.parameters, [policy.adam], self.settings.adam_epsilon)
        self._norms = MeanNorm()

    def _coefficients(self) -> Coefficients:
        """The loss's present coefficients."""
        s, kl = self.settings, self.policy.kl_coefficient
        return Coefficients(s.clip, kl, s.entropy_coefficient, s.value_coefficient, value_clip=math.inf)

    def _losses(self) -> AlonePasses:
        return AlonePasses(self.network, self.parameters, self._coefficients(), None)

    def _inputs(self, observations: np.ndarray) -> Tensor:
        """Raw observations [n, *obs] as the networks take them: vectors or images."""
        normalise = self.policy.observations
        rows = observations if normalise is None else normalise(observations)
        return on_device(rows if self.network.images else vectors(rows), self._device)

    def _values(self, inputs: Tensor) -> Tensor:
        """V [n] of the networks' inputs."""
        return values_in_chunks(self.network, self.parameters, inputs)

    def _target(self) -> dict[str, Tensor]:
        """The target policy's parameters by name, as views."""
        named = self.network.named(self.target).items()
        return {name.removeprefix("policy."): p[0] for name, p in named if name.startswith("policy.")}

    def _distribution(self, observations: Tensor) -> Tensor:
        """The target policy's action distributions."""
        target = self.network.bind(self.target)
        parts = torch.split(observations, chunk_size(self.network.images, self._device))
        return torch.cat([self.network.traced_distribution(target, rows, None) for rows in parts])


def denominator(target_log_probs: Tensor, log_probs: Tensor) -> Tensor:
    """log max(pi_target, mu / 2), [n]: the denominator of the ratio that IMPACT clips.

    Raises:
        ValueError: the tensors differ in shape.
    """
    check(target_log_probs.shape, "target_log_probs", {"log_probs": log_probs})
    return torch.maximum(target_log_probs, log_probs - math.log(_MOST_RATIO))
