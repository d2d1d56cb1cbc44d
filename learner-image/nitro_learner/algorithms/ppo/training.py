"""Policies of one shape while they train together: their parameters, their optimiser and their gradient
steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic

import torch
from torch import Tensor

from nitro_api.algorithms.actor_critic import ActorCriticHyperparameters
from nitro_learner.algorithms.adam import Adam, AdamState
from nitro_learner.algorithms.gradient import clip_rows
from nitro_learner.algorithms.ppo.loss import Coefficients
from nitro_learner.algorithms.ppo.model import Model
from nitro_learner.algorithms.ppo.policy import AgentPolicy
from nitro_learner.algorithms.ppo.samples import Data
from nitro_learner.networks.steps import CapturedStep, Graphs


class Training(Generic[Data]):
    """The training of policies in one round, or, where steps are captured, in one round after another.

    Attributes:
        parameters: f32 [P, n], which steps change.
    """

    def __init__(
        self,
        model: Model[Any, Data],
        network: Any,
        c: Coefficients,
        policies: Sequence[AgentPolicy],
        rate: float,
        graphs: Graphs | None,
    ) -> None:
        """
        Args:
            model: of the policies.
            network: their shape.
            c: of the loss, without the KL penalty's.
            policies: as they sampled the round.
            rate: the learning rate.
            graphs: None where steps are called.
        """
        settings: ActorCriticHyperparameters = model.settings
        self.parameters = torch.stack([policy.parameters for policy in policies])
        self._max_norm = settings.max_grad_norm
        self._optimiser = Adam(self.parameters, [policy.adam for policy in policies], settings.adam_epsilon)
        self._norms, self._taken = self.parameters.new_zeros(len(policies)), 0
        kl: Sequence[float] | Tensor = [policy.kl_coefficient for policy in policies]
        self._rate: float | Tensor = rate
        self._captured: CapturedStep[Data] | None = None
        if graphs is not None:
            self._rate = self.parameters.new_tensor(rate)
            kl = self.parameters.new_tensor(kl) if any(kl) else kl
            self._captured = CapturedStep(self._take, graphs)
        self._kl = kl
        self._passes = model.passes(network, self.parameters, c, kl)

    def begin(self, policies: Sequence[AgentPolicy], rate: float) -> None:
        """Go on with the policies of another round, where steps are captured: in the same tensors."""
        self.parameters.copy_(torch.stack([policy.parameters for policy in policies]))
        self._optimiser.load([policy.adam for policy in policies])
        self._norms, self._taken = self._norms.zero_(), 0
        assert isinstance(self._rate, Tensor)
        self._rate.fill_(rate)
        if isinstance(self._kl, Tensor):
            self._kl.copy_(torch.tensor([policy.kl_coefficient for policy in policies]))

    def step(self, minibatch: Data) -> None:
        """Take a gradient step on a minibatch."""
        if self._captured is None:
            self._take(minibatch)
        else:
            self._captured(minibatch)
        self._taken += 1

    def _take(self, minibatch: Data) -> None:
        gradient = self._passes.gradient(minibatch)
        self._norms += clip_rows(gradient, self._max_norm)
        self._optimiser.step(gradient, self._rate)

    def norms(self) -> list[float]:
        """The mean norm of each policy's gradients, before they were clipped."""
        means: list[float] = (self._norms / self._taken).tolist()
        return means

    def terms(self, samples: Data) -> list[dict[str, float]]:
        """See `Passes`."""
        return self._passes.terms(samples)

    def states(self) -> list[AdamState]:
        """The optimiser's state of each policy."""
        return self._optimiser.states()
