"""spec.algorithm: how the policy learns."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from nitro_api.base import Model, resolved


class Hyperparameters(Model):
    """Settings of PPO and IMPACT. What is not set comes from the preset."""

    learning_rate: float = resolved(gt=0, le=1)
    """Adam's step size. Default: the preset's."""

    learning_rate_anneal: bool = resolved()
    """Whether the learning rate falls linearly to zero over spec.stop.rounds. Default: the preset's."""

    adam_epsilon: float = resolved(gt=0, le=1)
    """Adam's epsilon. Default: the preset's."""

    gamma: float = resolved(ge=0, le=1)
    """Discount per step. Default: the preset's."""

    gae_lambda: float = resolved(ge=0, le=1)
    """Lambda of the advantage estimate: PPO's generalised one, or IMPACT's V-trace, whose traces it shortens.
    Default: the preset's."""

    clip: float = resolved(gt=0, le=10)
    """Bound of the policy ratio: it is held from 1 - clip to 1 + clip. IMPACT's is the ratio to its target
    network. Default: the preset's."""

    kl_coefficient: float = resolved(ge=0, le=1000)
    """First weight of the KL penalty; it adapts (x1.5 above 2 klTarget, x0.5 below 0.5 klTarget). 0 turns it
    off. Default: the preset's."""

    kl_target: float = resolved(gt=0, le=100)
    """KL divergence per update that the penalty's weight aims at. Unit: nats. Default: the preset's."""

    entropy_coefficient: float = resolved(ge=0, le=100)
    """Weight of the entropy bonus. Default: the preset's."""

    value_coefficient: float = resolved(ge=0, le=1000)
    """Weight of the value loss. Default: the preset's."""

    value_clip: float = resolved(ge=0, le=1e9)
    """Upper bound of the squared value error of a sample. Unit: squared return. 0 turns it off. PPO only.
    Default: the preset's."""

    epochs: int = resolved(ge=1, le=1000)
    """Passes over a round's batch, or with IMPACT over a batch of its buffer each time one is drawn. Default:
    the preset's."""

    minibatch_size: int = resolved(ge=0, le=10_000_000)
    """Samples per gradient step. 0 is the whole batch. Default: the preset's."""

    max_grad_norm: float = resolved(ge=0, le=1e9)
    """Gradients are scaled down to this global norm. 0 turns it off. Default: the preset's."""

    standardise_advantages: Literal["off", "batch", "minibatch"] = resolved()
    """Over which samples advantages get mean 0 and deviation 1. Default: the preset's."""

    normalise_observations: bool = resolved()
    """Whether observations are standardised by running statistics, which travel with the weights. Default:
    the preset's."""

    normalise_rewards: bool = resolved()
    """Whether rewards are divided by the running deviation of the discounted return. Default: the
    preset's."""

    orthogonal_init: bool = resolved()
    """Whether layers start orthogonal (gain sqrt 2, policy head 0.01, value head 1) or as PyTorch starts
    them. Default: the preset's."""

    batch_size: int = resolved(ge=0, le=10_000_000)
    """Transitions of one batch of the replay buffer; it takes in whole fragments until it has as many. 0 is
    one fragment. IMPACT only. Unit: transitions. Default: the preset's."""

    buffer_batches: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """N, batches that the replay buffer holds; a new one takes the oldest one's place. IMPACT only. Unit:
    batches. Default: paper 4 with discrete actions and 16 with continuous ones, tuned 2, artifact 1."""

    buffer_uses: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """K, how often a batch of the replay buffer is learned from at most. 1 turns replay off. IMPACT only.
    Default: paper 2 with discrete actions and 20 with continuous ones, tuned 2, artifact 1."""

    target_update_frequency: float = resolved(gt=0, le=1e6)
    """The target network follows after so many times N * K uses of a batch. IMPACT only. Default: the
    preset's."""

    max_staleness: int = resolved(ge=0, le=1000)
    """L, versions of the policy that a fragment may be behind when it arrives; an older one is dropped and
    counted. Each round publishes a version. IMPACT only. Unit: versions. Default: the preset's."""


ONLY = {
    "ppo": ("valueClip",),
    "impact": ("batchSize", "bufferBatches", "bufferUses", "targetUpdateFrequency", "maxStaleness"),
}
"""Hyperparameters that one algorithm alone has."""


class Algorithm(Model):
    """The learning algorithm."""

    name: Literal["ppo", "impact", "rllib/ppo", "rllib/appo", "rllib/impala"] = "ppo"
    """The algorithm: `ppo` waits for all fragments of a round, `impact` learns off-policy from fragments as
    they arrive. One that begins with `rllib/` is Ray RLlib's: its learner does the update, and the
    learner's image must have it. Default: ppo."""

    preset: Literal["paper", "tuned", "artifact"] = "tuned"
    """Where values that the job leaves out come from: `paper` has the settings of the Nitro paper's
    experiments, `tuned` settings that reach a higher reward sooner, `artifact` those of the authors' released
    code, where it differs from the paper (impact only). Default: tuned."""

    hyperparameters: Hyperparameters = Field(default_factory=Hyperparameters)
    """Settings that differ from the preset."""

    rllib: Annotated[dict[str, Any], Field(max_length=128)] | None = None
    """RLlib's settings, by the names that its config's `training()` has: lr, num_epochs, clip_param, ... They
    are checked when the learner starts, and by `nitro validate` where RLlib is installed. Only with a name
    that begins with `rllib/`. Default: `paper` has RLlib's own defaults, but steps on whole batches; `tuned`
    RLlib's own settings for MuJoCo; what neither names is as RLlib has it."""
