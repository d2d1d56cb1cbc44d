"""RLlib's PPO: one update of its learner is one round."""

import copy
import math
from typing import Any

import torch
from torch import Tensor

from nitro_api import JobSpec
from nitro_learner.algorithms.actor_critic import standardise
from nitro_learner.algorithms.base import UpdateResult
from nitro_learner.algorithms.ppo_loss import Coefficients, Samples
from nitro_learner.algorithms.ppo_surrogate import PpoSurrogate
from nitro_learner.algorithms.rllib.base import RllibAlgorithm, keyed, values
from nitro_learner.algorithms.rllib.episodes import episodes
from nitro_learner.batch import Batch, Fragment, assemble, vectors

_CHUNK = 1024
"""Rows of one forward pass, which then stays in the cache."""


class RllibPpo(RllibAlgorithm):
    """See `Algorithm` for the interface."""

    def __init__(self, spec: JobSpec, environment: dict[str, Any], device: str = "cpu") -> None:
        super().__init__(spec, environment, device)

    def update(self, fragments: list[Fragment], round: int) -> UpdateResult:
        batch = self._assemble(fragments)
        coefficients = self._coefficients()
        sampled = copy.deepcopy(self.network)
        self._steps += len(batch)
        minibatch = self.config.minibatch_size or 0
        with keyed(self._seed, round):
            result = values(
                self.learner.update(
                    episodes=episodes(fragments),
                    timesteps=self.timesteps(),
                    num_epochs=self.config.num_epochs,
                    # RLlib fills up a minibatch that is larger than the batch by repeating rows.
                    minibatch_size=minibatch if minibatch < len(batch) else 0,
                    shuffle_batch_per_epoch=self.config.shuffle_batch_per_epoch,
                )
            )
        self.check_finite(round)
        stats = {
            "policy_loss": result["policy_loss"],
            "value_loss": result["vf_loss"],
            "entropy": result["entropy"],
            "kl": result["mean_kl_loss"],
            "explained_variance": result["vf_explained_var"],
            "advantage_std": batch.advantages.std(correction=0).item(),
            "learning_rate": result["default_optimizer_learning_rate"],
            "kl_coefficient": coefficients.kl,
        }
        samples = Samples(
            batch.observations,
            batch.actions,
            batch.log_probs,
            batch.distribution,
            standardise(batch.advantages),
            batch.returns,
        )
        surrogate = PpoSurrogate(
            self.network,
            self.distribution,
            samples,
            coefficients,
            sampled,
            slots=len(fragments),
            envs=fragments[0].tensors["rewards"].shape[1],
        )
        return UpdateResult(stats, surrogate)

    def _assemble(self, fragments: list[Fragment]) -> Batch:
        """The round as the detector sees it.

        It is our own batch, not RLlib's: that one has a row without meaning for every episode, and its
        advantages are standardised with those. On all other rows the two agree (a test compares them).
        """
        return assemble(
            fragments,
            [fragment.tensors["rewards"] for fragment in fragments],
            prepare=vectors,
            values=self._values,
            gamma=self.config.gamma,
            gae_lambda=self.config.lambda_,
            device=self._device,
        )

    def _values(self, observations: Tensor) -> Tensor:
        return torch.cat([self.network.values(rows) for rows in torch.split(observations, _CHUNK)])

    def _coefficients(self) -> Coefficients:
        """Of the loss that RLlib minimises in this update."""
        config = self.config
        entropy = self.learner.entropy_coeff_schedulers_per_module
        return Coefficients(
            clip=config.clip_param,
            kl=self.kl_coefficient if config.use_kl_loss else 0.0,
            entropy=float(next(iter(entropy.values())).get_current_value()) if entropy else 0.0,
            value=config.vf_loss_coeff if config.use_critic else 0.0,
            value_clip=config.vf_clip_param if config.vf_clip_param is not None else math.inf,
        )
