"""RLlib's PPO: one update of its learner is one round."""

import copy
import math

from nitro_actor.protocol.weights import DEFAULT_POLICY
from nitro_learner.algorithms.base import UpdateResult
from nitro_learner.algorithms.ppo.loss import explained_variance, loss_terms
from nitro_learner.algorithms.ppo.samples import Samples
from nitro_learner.algorithms.ppo.surrogate import PpoSurrogate
from nitro_learner.data.batch import Batch, Fragment, assemble
from nitro_rllib.base import RllibAlgorithm


class RllibPpo(RllibAlgorithm):
    """See `OnPolicyLearner` for the interface."""

    def update(self, fragments: list[Fragment], round: int) -> dict[str, UpdateResult]:
        config = self.config
        batch = self._assemble(fragments)
        coefficients = self.coefficients(
            clip=config.clip_param,
            value=config.vf_loss_coeff if config.use_critic else 0.0,
            value_clip=math.inf if config.vf_clip_param is None else config.vf_clip_param,
        )
        self._steps += len(batch)
        sampled = copy.deepcopy(self.network).bound()
        minibatch = config.minibatch_size or 0
        # RLlib would fill up a minibatch that is larger than the batch by repeating rows.
        result = self.learn(fragments, {}, minibatch_size=minibatch if minibatch < len(batch) else 0)
        self.check_finite(round)
        samples = Samples(
            batch.observations,
            batch.actions,
            batch.log_probs,
            batch.distribution,
            batch.advantages,
            batch.returns,
        )
        samples = samples.with_advantages(samples.standardised())
        shape, theta = self.network.shape, self.network.bound()
        (terms,) = loss_terms(shape, theta, samples.parts(self._chunk), coefficients)
        stats = terms | {
            "explained_variance": explained_variance(batch.values, batch.returns),
            "advantage_std": batch.advantages.std(correction=0).item(),
            "learning_rate": result["default_optimizer_learning_rate"],
            "kl_coefficient": coefficients.kl,
        }
        envs = fragments[0].tensors["rewards"].shape[1]
        surrogate = PpoSurrogate(
            shape,
            theta,
            samples,
            coefficients,
            sampled,
            None,
            agents=1,
            slots=len(fragments),
            envs=envs,
        )
        return {DEFAULT_POLICY: UpdateResult(stats, surrogate)}

    def _assemble(self, fragments: list[Fragment]) -> Batch:
        """The round as the detector sees it.

        It is our own batch, not RLlib's. RLlib's batch has a row without meaning for every episode, and these
        rows take part when RLlib standardises advantages. On all other rows the two agree (a test compares
        them).
        """
        return assemble(
            fragments,
            [fragment.tensors["rewards"] for fragment in fragments],
            prepare=self.prepare,
            values=self.values,
            gamma=self.config.gamma,
            gae_lambda=self.config.lambda_,
            device=self._device,
        )
