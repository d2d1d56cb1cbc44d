"""The settings that PPO and IMPACT share."""

from typing import Literal

from nitro_api.algorithms.record import Hyperparameters
from nitro_api.base import resolved


class ActorCriticHyperparameters(Hyperparameters):
    """Settings of an actor-critic that learns by a clipped policy ratio."""

    learning_rate: float = resolved(gt=0, le=1)
    """Adam's step size. Default: the preset's."""

    learning_rate_anneal: bool = resolved()
    """Whether the learning rate falls linearly to zero over spec.stop.rounds. Default: the preset's, but true
    with ppo and preset tuned in a training of 1,000,000 steps and more that spec.stop.rounds ends, if no
    round has more than 4,096 steps and no KL penalty is set."""

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

    epochs: int = resolved(ge=1, le=1000)
    """Passes over a round's batch, or with IMPACT over a batch of its buffer each time one is drawn. Default:
    the preset's."""

    minibatch_size: int = resolved(ge=0, le=10_000_000)
    """Samples per gradient step. 0 is the whole batch. Default: the preset's."""

    max_grad_norm: float = resolved(ge=0, le=1e9)
    """Gradients are scaled down to this global norm. 0 turns it off. Default: the preset's."""

    standardise_advantages: Literal["off", "batch", "minibatch"] = resolved()
    """Over which samples advantages get mean 0 and deviation 1. With a recurrent layer, `minibatch` means
    `batch`, because a minibatch may be a single sequence. Default: the preset's."""

    normalise_observations: bool = resolved()
    """Whether observations are standardised by running statistics, which travel with the weights. Default:
    the preset's."""

    normalise_rewards: bool = resolved()
    """Whether rewards are scaled. Actor-critics divide them by the running deviation of the discounted
    return, and with several agents critics begin at the level of the first round. Q-learners learn values in
    a unit in which rewards have the mean 0 and the deviation 1. Default: the preset's."""

    orthogonal_init: bool = resolved()
    """Whether layers start orthogonal (gain sqrt 2, policy head 0.01, value head 1) or as PyTorch starts
    them. Default: the preset's."""

    @property
    def anneals(self) -> bool:
        return self.learning_rate_anneal
