"""Proximal policy optimisation (Schulman et al. 2017): preset `paper` like RLlib, `tuned` like CleanRL."""

import math
from dataclasses import replace

import torch

from nitro_actor.protocol.weights import DEFAULT_POLICY
from nitro_api.algorithms.ppo import PpoHyperparameters
from nitro_learner.algorithms.actor_critic import ActorCriticAlgorithm, stream
from nitro_learner.algorithms.base import UpdateResult
from nitro_learner.algorithms.epochs import epochs
from nitro_learner.algorithms.ppo.loss import Coefficients, explained_variance
from nitro_learner.algorithms.ppo.samples import Samples
from nitro_learner.algorithms.ppo.surrogate import PpoSurrogate
from nitro_learner.data.batch import Batch, Fragment, assemble


class Ppo(ActorCriticAlgorithm):
    """PPO on whole rounds. See `OnPolicyLearner` for the interface."""

    settings: PpoHyperparameters

    def coefficients(self) -> Coefficients:
        return replace(super().coefficients(), value_clip=self.settings.value_clip or math.inf)

    def update(self, fragments: list[Fragment], round: int) -> dict[str, UpdateResult]:
        batch = self.assemble(fragments)
        samples, standardised = self.scaled(
            Samples(
                batch.observations,
                batch.actions,
                batch.log_probs,
                batch.distribution,
                batch.advantages,
                batch.returns,
                batch.available,
            )
        )
        rate, c = self.learning_rate(round), self.coefficients()
        sampled = self.network.bind(self.parameters.clone())
        generator = torch.Generator().manual_seed(stream(self._seed, round))
        for _ in epochs(self.settings.epochs):
            for minibatch in self.minibatches(samples, generator):
                self.step(minibatch, c, rate)
        self.check_finite(round)
        stats = self.stats(samples, c) | {
            "explained_variance": explained_variance(batch.values, batch.returns),
            "advantage_std": batch.advantages.std(correction=0).item(),
            "learning_rate": rate,
            "kl_coefficient": c.kl,
        }
        self.adapt_kl_coefficient(stats["kl"])
        envs = fragments[0].tensors["rewards"].shape[1]
        surrogate = PpoSurrogate(
            self.network,
            self.theta,
            samples,
            c,
            sampled,
            standardised,
            agents=1,
            slots=len(fragments),
            envs=envs,
        )
        return {DEFAULT_POLICY: UpdateResult(stats, surrogate)}

    def assemble(self, fragments: list[Fragment]) -> Batch:
        batch = assemble(
            fragments,
            self.rewards(fragments) if self.rewards else [f.tensors["rewards"] for f in fragments],
            prepare=self.inputs,
            values=self.values,
            gamma=self.settings.gamma,
            gae_lambda=self.settings.gae_lambda,
            device=self._device,
        )
        if self.observations is not None:
            self.observations.merge(fragments)
        return batch
