"""PPO with a loss of the user's own."""

from __future__ import annotations

import math
from typing import Any

import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from nitro_actor import traces
from nitro_api import FieldError, JobInvalid
from nitro_learner.algorithms.agents.team import Team
from nitro_learner.algorithms.base import UpdateResult
from nitro_learner.algorithms.own.autograd import AutogradModel
from nitro_learner.algorithms.own_code import OwnCodeError
from nitro_learner.algorithms.ppo.learning import Ppo
from nitro_learner.algorithms.ppo.loss import Coefficients, terms
from nitro_learner.algorithms.ppo.samples import Samples
from nitro_learner.data.batch import Fragment
from nitro_learner.networks.distributions import Distribution


class OwnPpo(Ppo):
    """PPO of one agent with another loss: all else stays, that is rollouts, advantages, minibatches, Adam,
    statistics and checkpoints. Autograd takes the gradient.

        class A2C(OwnPpo):
            class Settings(BaseModel):              # spec.algorithm.settings: {entropy: 0.01}
                entropy: float = 0.01

            def loss(self, samples, parameters, values):
                log_probs = self.distribution.log_prob(parameters, samples.actions)
                return -log_probs * samples.advantages + (values - samples.returns) ** 2

    Attributes:
        own: the `Settings`, made of spec.algorithm.settings.
        settings: spec.algorithm.hyperparameters, which are PPO's.
        distribution: the family of the actions: log_prob(parameters, actions), entropy(parameters) and
            kl(old, new), each [n].
    """

    class Settings(BaseModel):
        """None."""

        model_config = ConfigDict(extra="forbid")

    captured = False

    own: Any
    distribution: Distribution

    def __init__(self, team: Team, device: str = "cpu", **settings: Any) -> None:
        """
        Args:
            team: its algorithm is ppo.
            device: a torch device.
            settings: spec.algorithm.settings.

        Raises:
            JobInvalid: the network has a recurrent layer.
        """
        if team.network.recurrent:
            message = "is not for a loss of your own; remove it"
            raise JobInvalid(
                [FieldError("spec.network.recurrent", team.network.recurrent.to_dict(), message)]
            )
        super().__init__(team, device)
        self.own = self.Settings(**settings)
        (agent,) = self.learned
        self.distribution = self.network(agent).family
        self._penalty = 0.0

    def _model_of(self, team: Team, device: str) -> AutogradModel:
        model = AutogradModel(team, device)
        model.loss = self._checked
        return model

    def loss(self, samples: Samples, parameters: Tensor, values: Tensor) -> Tensor:
        """The loss of each of n samples, f32 [n]. Its mean is minimised. PPO's, unless you override it.

        Args:
            samples: what was played; of its columns observations, actions, log_probs [n] and distribution
                [n, P] (as the actors had them), advantages [n], returns [n], and available where actions are
                masked.
            parameters: of the action distributions as the policy is now, f32 [n, P]: mean and log-std, or
                logits.
            values: of the critic as it is now, f32 [n].
        """
        settings = self.settings
        c = Coefficients(
            clip=settings.clip,
            kl=self._penalty,
            entropy=settings.entropy_coefficient,
            value=settings.value_coefficient,
            value_clip=settings.value_clip or math.inf,
        )
        return terms(samples, parameters, values, self.distribution, c).loss(c)

    def update(self, fragments: list[Fragment], round: int) -> dict[str, UpdateResult]:
        """See `OnPolicyLearner`."""
        (policy,) = self.learned.values()
        self._penalty = policy.kl_coefficient  # of this round, also for the detector: the next has another
        return super().update(fragments, round)

    def _checked(self, samples: Samples, parameters: Tensor, values: Tensor) -> Tensor:
        """The user's loss.

        Raises:
            OwnCodeError: it is no tensor of one number for each sample.
        """
        losses: Any = self.loss(samples, parameters, values)
        if not isinstance(losses, Tensor):
            told = f"returned {traces.shown(losses)}, which is no tensor"
        elif losses.shape != values.shape:
            told = f"returned the shape {list(losses.shape)} for {len(values)} samples"
        elif torch.is_grad_enabled() and not losses.requires_grad:
            told = "returned what depends neither on parameters nor on values"
        else:
            return losses
        made_of = type(self)
        name = f"{made_of.__module__}:{made_of.__qualname__}"
        remedy = f"return the loss of each sample, of shape [{len(values)}], computed from both"
        raise OwnCodeError("algorithm", name, f"loss {told}{traces.defined(made_of.loss)}; {remedy}")
