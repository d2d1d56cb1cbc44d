"""IMPACT (Luo et al. 2020): PPO on replayed fragments of older policies, stabilised by a target network.

    rho = min(mu / pi_target, 2);  r = rho pi / mu;  L = -E[min(r A, clip(r, 1 - c, 1 + c) A)]

mu sampled the fragment; A and the critic's targets come from V-trace with pi_target as its target policy.
Since r = pi / max(pi_target, mu / 2), this is PPO's loss with that denominator in place of the old policy,
and PPO's gradient, statistics and surrogate serve both.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nitro_actor.protocol.weights import DEFAULT_POLICY
from nitro_api.algorithms.impact import ImpactHyperparameters
from nitro_learner.algorithms.actor_critic import ActorCriticAlgorithm, load_named, stream
from nitro_learner.algorithms.agents.team import Team
from nitro_learner.algorithms.base import UpdateResult
from nitro_learner.algorithms.impact.replay import CircularBuffer
from nitro_learner.algorithms.impact.vtrace import traced
from nitro_learner.algorithms.ppo.loss import explained_variance
from nitro_learner.algorithms.ppo.samples import Samples
from nitro_learner.algorithms.ppo.surrogate import PpoSurrogate
from nitro_learner.data.batch import Fragment, Rollouts
from nitro_learner.data.shapes import check

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


class Impact(ActorCriticAlgorithm):
    """IMPACT. See `OffPolicyLearner` for the interface.

    The buffer is not part of the state: a resumed run fills it again, as at its start. It may hold more data
    than a checkpoint should write every round, and requests that were running when the run stopped are lost
    in any case.
    """

    settings: ImpactHyperparameters

    def __init__(self, team: Team, device: str = "cpu") -> None:
        super().__init__(team, device)
        settings = self.settings
        continuous = team.classes[0].action["kind"] == "continuous"
        usual = _CONTINUOUS_BUFFER if continuous else _DISCRETE_BUFFER
        batches, uses = settings.buffer_batches or usual[0], settings.buffer_uses or usual[1]
        self._fragments_per_batch = max(1, math.ceil(settings.batch_size / team.environment.rollout_length))
        self._target_every = max(1, round(settings.target_update_frequency * batches * uses))
        self._buffer: CircularBuffer[list[_Sampled]] = CircularBuffer(batches, uses)
        self._waiting: list[_Sampled] = []
        self._fresh: list[_Sampled] = []
        self._passes = 0
        self.target = self.parameters.clone()
        self._rate = self.settings.learning_rate

    @property
    def max_staleness(self) -> int:
        return self.settings.max_staleness

    def begin_round(self, round: int, rounds: int) -> None:
        """See `Learner`. The rate is no part of the state: a run that goes on may have other rounds."""
        super().begin_round(round, rounds)
        self._rate = self.learning_rate(round)

    def take(self, fragments: list[Fragment]) -> None:
        for fragment in fragments:
            rewards = self.rewards([fragment])[0] if self.rewards else fragment.tensors["rewards"]
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
        samples, _, _ = self.samples(batch)
        c = self.coefficients()
        generator = torch.Generator().manual_seed(stream(self._seed, self._passes))
        for _ in range(self.settings.epochs):
            for minibatch in self.minibatches(samples, generator):
                self.step(minibatch, c, self._rate)
        self._passes += 1
        if self._passes % self._target_every == 0:
            self.target.copy_(self.parameters)
        return True

    def end_round(self, round: int) -> dict[str, UpdateResult]:
        self.check_finite(round)
        fresh, self._fresh = self._fresh, []
        samples, standardised, stats = self.samples(fresh)
        c = self.coefficients()
        stats |= self.stats(samples, c) | {"learning_rate": self._rate, "kl_coefficient": c.kl}
        self.adapt_kl_coefficient(stats["kl"])
        if self.observations is not None:
            self.observations.merge([sampled.fragment for sampled in fresh])
        envs = fresh[0].rewards.shape[1]
        surrogate = PpoSurrogate(
            self.network,
            self.theta,
            samples,
            c,
            None,
            standardised,
            agents=1,
            slots=len(fresh),
            envs=envs,
        )
        return {DEFAULT_POLICY: UpdateResult(stats, surrogate)}

    @torch.no_grad()
    def samples(self, batch: list[_Sampled]) -> tuple[Samples, Tensor | None, dict[str, float]]:
        """Make the loss's samples from fragments, at the present target network and critic, with other
        standardised advantages (see `scaled`), and their statistics explained_variance and advantage_std."""
        rollouts = Rollouts(
            [sampled.fragment for sampled in batch],
            [sampled.rewards for sampled in batch],
            prepare=self.inputs,
            device=self._device,
        )
        target, available = self._distribution(rollouts.observations), rollouts.available
        if available is not None:
            target = self.network.family.masked(target, available)
        target_log_probs = self.network.family.log_prob(target, rollouts.actions)
        trace = traced(
            rollouts,
            target_log_probs,
            self.values,
            gamma=self.settings.gamma,
            lam=self.settings.gae_lambda,
        )
        samples = Samples(
            rollouts.observations,
            rollouts.actions,
            denominator(target_log_probs, rollouts.log_probs),
            target,
            trace.advantages,
            trace.targets,
            available,
        )
        return *self.scaled(samples), {
            "explained_variance": explained_variance(trace.values, trace.targets),
            "advantage_std": trace.advantages.std(correction=0).item(),
        }

    def state_dict(self) -> dict[str, Any]:
        target = {name: value.cpu().clone() for name, value in self._target().items()}
        return super().state_dict() | {"target": target, "passes": self._passes}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._passes = int(state["passes"])

    def adopt(self, state: dict[str, Any]) -> None:
        """See `Learner`."""
        super().adopt(state)
        load_named(self._target(), state["target"])
        self._buffer.clear()
        self._waiting, self._fresh = [], []

    def _target(self) -> dict[str, Tensor]:
        """The target policy's parameters by name, as views."""
        named = self.network.named(self.target).items()
        return {name.removeprefix("policy."): p[0] for name, p in named if name.startswith("policy.")}

    def _distribution(self, observations: Tensor) -> Tensor:
        """The target policy's action distributions."""
        target = self.network.bind(self.target)
        parts = torch.split(observations, self.chunk)
        return torch.cat([self.network.traced_distribution(target, rows, None) for rows in parts])


def denominator(target_log_probs: Tensor, log_probs: Tensor) -> Tensor:
    """log max(pi_target, mu / 2), [n]: the denominator of the ratio that IMPACT clips.

    Raises:
        ValueError: the tensors differ in shape.
    """
    check(target_log_probs.shape, "target_log_probs", {"log_probs": log_probs})
    return torch.maximum(target_log_probs, log_probs - math.log(_MOST_RATIO))
