"""RLlib's IMPALA and APPO: updates from fragments as they arrive.

RLlib hands its batches to a thread, which draws them from a queue or from a circular buffer whenever it can.
Here the same updates are made one after the other, by the calls of `OffPolicyLearner`: they can be repeated
to the bit, no thread can hang, and an error of an update is raised where it happens.
"""

import math
from typing import Any

import numpy as np
import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.rl_module.apis import TARGET_NETWORK_ACTION_DIST_INPUTS
from ray.rllib.utils.metrics import NUM_ENV_STEPS_TRAINED_LIFETIME

from nitro_actor.protocol.weights import DEFAULT_POLICY
from nitro_learner.algorithms.agents.team import Team
from nitro_learner.algorithms.base import UpdateResult
from nitro_learner.algorithms.impact.learning import denominator
from nitro_learner.algorithms.impact.replay import CircularBuffer
from nitro_learner.algorithms.ppo.loss import explained_variance
from nitro_learner.algorithms.ppo.rollouts import PolicyRollouts
from nitro_learner.algorithms.ppo.samples import Samples
from nitro_learner.algorithms.ppo.surrogate import PpoSurrogate
from nitro_learner.data.batch import Fragment
from nitro_rllib.base import RllibAlgorithm
from nitro_rllib.traces import traced

_MAX_STALENESS = 4
"""Policy versions. RLlib has no limit, but its runners fetch the newest weights before each fragment."""


class RllibImpala(RllibAlgorithm):
    """IMPALA: each fragment is a batch, learned from once. See `OffPolicyLearner` for the interface.

    As with IMPACT, the buffer is not part of the state.
    """

    _policy_loss, _value_loss = "mean_pi_loss", "mean_vf_loss"
    _clip = math.inf

    def __init__(self, team: Team, device: str = "cpu") -> None:
        super().__init__(team, device, train_batch_size_per_learner=team.environment.rollout_length)
        # The thread is started with the learner. It has nothing to do here.
        self.learner.shutdown()
        self._buffer = self._make_buffer()
        self._fresh: list[Fragment] = []
        self._trained = 0
        self._result: dict[str, float] = {}

    @property
    def max_staleness(self) -> int:
        return _MAX_STALENESS

    def take(self, fragments: list[Fragment]) -> None:
        for fragment in fragments:
            self._fresh.append(fragment)
            self._steps += fragment.tensors["terminated"].size
            self._buffer.add(fragment)
            self.replay()

    def replay(self) -> bool:
        fragment = self._buffer.draw(np.random.default_rng([self._seed, self._updates]))
        if fragment is None:
            return False
        self._trained += fragment.tensors["terminated"].size
        self._result = self.learn([fragment], {NUM_ENV_STEPS_TRAINED_LIFETIME: self._trained})
        return True

    def end_round(self, round: int) -> dict[str, UpdateResult]:
        self.check_finite(round)
        fresh, self._fresh = self._fresh, []
        samples, stats = self._samples(fresh)
        coefficients = self.coefficients(
            clip=self._clip, value=0.5 * self.config.vf_loss_coeff, value_clip=math.inf
        )
        stats |= {
            "policy_loss": self._result[self._policy_loss],
            "value_loss": self._result[self._value_loss],
            "entropy": self._result["entropy"],
            "learning_rate": self._result["default_optimizer_learning_rate"],
            "kl_coefficient": coefficients.kl,
        }
        surrogate = PpoSurrogate(
            self.network.shape,
            self.network.bound(),
            samples,
            coefficients,
            None,
            samples.standardised(),
            agents=1,
            slots=len(fresh),
            envs=fresh[0].envs,
        )
        return {DEFAULT_POLICY: UpdateResult(stats, surrogate)}

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"trained": self._trained}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._trained = int(state["trained"])
        self._buffer.clear()
        self._fresh = []

    def _make_buffer(self) -> CircularBuffer[Fragment]:
        return CircularBuffer(1, 1)

    def _denominator(self, target_log_probs: torch.Tensor, log_probs: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
        """The log of the denominator of the surrogate's ratio.

        IMPALA has no ratio. Its gradient is that of r A at the present policy, where r is 1.
        """
        return target_log_probs

    def _target(self, batch: dict[str, Any], policy: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
        """The distribution of V-trace's target policy, which for IMPALA is the present one."""
        return policy

    @torch.no_grad()
    def _samples(self, fragments: list[Fragment]) -> tuple[Samples, dict[str, float]]:
        """The round as RLlib's loss sees it at the updated weights, without its rows that mean nothing."""
        rollouts = PolicyRollouts.alone(self._team, fragments)
        actions, log_probs, distribution = (
            self.tensor(rollouts.rows(name)) for name in ("actions", "log_probs", "distribution")
        )
        traces = traced(self.learner, fragments, self.distribution, self._target)
        target_log_probs = self.distribution.log_prob(traces.target, actions)
        samples = Samples(
            self.inputs(rollouts.observations("")),
            actions,
            self._denominator(target_log_probs, log_probs),
            traces.target,
            traces.advantages,
            traces.targets,
        )
        return samples, {
            "kl": self.distribution.kl(distribution, traces.policy).mean().item(),
            "explained_variance": explained_variance(traces.values, traces.targets),
            "advantage_std": traces.advantages.std(correction=0).item(),
        }


class RllibAppo(RllibImpala):
    """APPO: fragments are replayed from a circular buffer, and a target network holds the policy."""

    _policy_loss, _value_loss = "policy_loss", "vf_loss"

    def __init__(self, team: Team, device: str = "cpu") -> None:
        super().__init__(team, device)
        self._clip = self.config.clip_param

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {
            "target_updated": self.learner._last_update_ts_by_mid[DEFAULT_MODULE_ID]
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.learner._last_update_ts_by_mid[DEFAULT_MODULE_ID] = int(state["target_updated"])

    def _make_buffer(self) -> CircularBuffer[Fragment]:
        if not self.config.use_circular_buffer:
            return super()._make_buffer()
        return CircularBuffer(
            self.config.circular_buffer_num_batches, self.config.circular_buffer_iterations_per_batch
        )

    def _denominator(self, target_log_probs: torch.Tensor, log_probs: torch.Tensor) -> torch.Tensor:
        return denominator(target_log_probs, log_probs)

    def _target(self, batch: dict[str, Any], policy: torch.Tensor) -> torch.Tensor:  # noqa: ARG002
        module = self.learner.module[DEFAULT_MODULE_ID]
        return module.forward_target(batch)[TARGET_NETWORK_ACTION_DIST_INPUTS]  # type: ignore[no-any-return]
