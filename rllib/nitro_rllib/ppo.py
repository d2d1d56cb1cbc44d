"""RLlib's PPO: one update of its learner is one round."""

import copy
import math

import numpy as np
from torch import Tensor

from nitro_actor.protocol.weights import DEFAULT_POLICY
from nitro_learner.algorithms.base import UpdateResult
from nitro_learner.algorithms.ppo.loss import explained_variance, loss_terms
from nitro_learner.algorithms.ppo.rollouts import PolicyRollouts, When
from nitro_learner.algorithms.ppo.samples import Samples
from nitro_learner.algorithms.ppo.surrogate import PpoSurrogate
from nitro_learner.data.batch import Fragment, check_round
from nitro_rllib.base import RllibAlgorithm


class RllibPpo(RllibAlgorithm):
    """See `OnPolicyLearner` for the interface."""

    def update(self, fragments: list[Fragment], round: int) -> dict[str, UpdateResult]:
        config = self.config
        check_round(fragments)
        samples, values = self._samples(fragments)
        coefficients = self.coefficients(
            clip=config.clip_param,
            value=config.vf_loss_coeff if config.use_critic else 0.0,
            value_clip=math.inf if config.vf_clip_param is None else config.vf_clip_param,
        )
        self._steps += len(values)
        sampled = copy.deepcopy(self.network).bound()
        minibatch = config.minibatch_size or 0
        # RLlib would fill up a minibatch that is larger than the batch by repeating rows.
        result = self.learn(fragments, {}, minibatch_size=minibatch if minibatch < len(values) else 0)
        self.check_finite(round)
        spread = samples.advantages.std(correction=0).item()
        samples = samples.with_advantages(samples.standardised())
        shape, theta = self.network.shape, self.network.bound()
        (terms,) = loss_terms(shape, theta, samples.parts(self._chunk), coefficients)
        stats = terms | {
            "explained_variance": explained_variance(values, samples.returns),
            "advantage_std": spread,
            "learning_rate": result["default_optimizer_learning_rate"],
            "kl_coefficient": coefficients.kl,
        }
        surrogate = PpoSurrogate(
            shape,
            theta,
            samples,
            coefficients,
            sampled,
            None,
            agents=1,
            slots=len(fragments),
            envs=fragments[0].envs,
        )
        return {DEFAULT_POLICY: UpdateResult(stats, surrogate)}

    def _samples(self, fragments: list[Fragment]) -> tuple[Samples, Tensor]:
        """The round as the detector sees it, with advantages that are not standardised, and the critic's
        values f32 [N].

        They are our own samples, not RLlib's. RLlib's batch has a row without meaning for every episode, and
        these rows take part when RLlib standardises advantages. On all other rows the two agree (a test
        compares them).
        """
        rollouts = PolicyRollouts.alone(self._team, fragments)
        observations = self.inputs(rollouts.observations(""))

        def values(when: When) -> np.ndarray:
            inputs = observations if when == "" else self.inputs(rollouts.observations(when))
            return self.values(inputs).cpu().numpy()

        rewards = [lanes.rewards for lanes in rollouts.lanes()]
        estimates = rollouts.estimates(
            rewards, values, gamma=self.config.gamma, gae_lambda=self.config.lambda_
        )
        advantages, before = self.tensor(estimates.advantages), self.tensor(estimates.values)
        samples = Samples(
            observations,
            self.tensor(rollouts.rows("actions")),
            self.tensor(rollouts.rows("log_probs")),
            self.tensor(rollouts.rows("distribution")),
            advantages,
            advantages + before,
        )
        return samples, before
