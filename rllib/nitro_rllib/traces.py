"""V-trace as RLlib's APPO and IMPALA train on it, for the detector.

RLlib puts a row without meaning behind each chunk of an episode and cuts the rows into lanes of a fragment's
length. Inside a lane, V-trace takes such a row's value back, and with it the bootstrap of the chunk before
it. Our own V-trace (`algorithms/impact/vtrace.py`) bootstraps there. So the quantities that the loss sees are
computed from RLlib's own batch.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from ray.rllib.algorithms.impala.torch.vtrace_torch_v2 import make_time_major, vtrace_torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.core.learner.learner import Learner
from ray.rllib.core.learner.training_data import TrainingData
from torch import Tensor

from nitro_learner.data.batch import Fragment
from nitro_learner.networks.distributions import Distribution
from nitro_rllib.episodes import episodes


class Traces(NamedTuple):
    """The quantities that RLlib's loss computes from fragments at the present weights, f32, by fragment, step
    and environment.

    Attributes:
        policy: [N, P], the policy's distribution.
        target: [N, P], that of V-trace's target policy.
        values: [N], of the critic.
        targets: [N], what the critic learns.
        advantages: [N], not standardised.
    """

    policy: Tensor
    target: Tensor
    values: Tensor
    targets: Tensor
    advantages: Tensor


def traced(
    learner: Learner,
    fragments: list[Fragment],
    distribution: Distribution,
    target: Callable[[dict[str, Any], Tensor], Tensor],
) -> Traces:
    """V-trace of fragments that each are a batch of the learner.

    Args:
        learner: RLlib's, of APPO or IMPALA.
        fragments: at least one.
        distribution: the policies'.
        target: a function of RLlib's batch and the policy's distribution [n, P] for it. It returns the
            distribution of V-trace's target policy.
    """
    traces = [_traced(learner, fragment, distribution, target) for fragment in fragments]
    return Traces(*map(torch.cat, zip(*traces, strict=True)))


@torch.no_grad()
def _traced(
    learner: Learner,
    fragment: Fragment,
    distribution: Distribution,
    target: Callable[[dict[str, Any], Tensor], Tensor],
) -> Traces:
    config, module = learner.config, learner.module[DEFAULT_MODULE_ID]
    data = TrainingData(episodes=episodes([fragment]))
    batch = learner._make_batch_if_necessary(training_data=data).policy_batches[DEFAULT_MODULE_ID]
    mask = batch[Columns.LOSS_MASK]
    policy = module.forward_train(batch)[Columns.ACTION_DIST_INPUTS]
    target_policy = target(batch, policy)
    values = module.compute_values(batch)
    by_lane = partial(make_time_major, trajectory_len=config.get_rollout_fragment_length())
    lanes = by_lane(values)
    found = vtrace_torch(
        target_action_log_probs=by_lane(distribution.log_prob(target_policy, batch[Columns.ACTIONS])),
        behaviour_action_log_probs=by_lane(batch[Columns.ACTION_LOGP]),
        discounts=config.gamma * by_lane((mask & ~batch[Columns.TERMINATEDS]).float()),
        rewards=by_lane(batch[Columns.REWARDS]),
        values=lanes,
        # Bootstrap from the value of the next lane's first row; the last lane ends in a row that has no
        # discount.
        bootstrap_values=lanes[0].roll(-1),
        clip_rho_threshold=config.vtrace_clip_rho_threshold,
        clip_pg_rho_threshold=config.vtrace_clip_pg_rho_threshold,
    )
    targets, advantages = (column.T.reshape(-1)[: len(mask)] for column in found)
    steps, envs = fragment.tensors["terminated"].shape

    def real(rows: Tensor) -> Tensor:
        """RLlib's rows without those that mean nothing, from its order (environment, step) to ours."""
        return rows[mask].reshape(envs, steps, *rows.shape[1:]).transpose(0, 1).flatten(0, 1)

    return Traces(*map(real, (policy, target_policy, values, targets, advantages)))
