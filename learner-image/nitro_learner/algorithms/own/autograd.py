"""The gradient and the surrogate of a loss that is written as a function of the networks' outputs, by
autograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from nitro_learner.algorithms.ppo.alone import Alone, AlonePasses
from nitro_learner.algorithms.ppo.loss import Coefficients
from nitro_learner.algorithms.ppo.model import PolicyBatch
from nitro_learner.algorithms.ppo.samples import Samples
from nitro_learner.algorithms.ppo.surrogate import PpoSurrogate
from nitro_learner.boosting.surrogate import Objective
from nitro_learner.networks.actor_critic import ActorCritic, Bound

Loss = Callable[[Samples, Tensor, Tensor], Tensor]
"""The loss of each sample, [n], to be minimised: of samples, the action distributions' parameters [n, P] and
the values [n] of the networks as they are now."""


class AutogradModel(Alone):
    """The networks of one agent, which learn by a loss of which autograd takes the gradient."""

    loss: Loss

    def passes(
        self, network: ActorCritic, parameters: Tensor, c: Coefficients, kl: Sequence[float] | Tensor
    ) -> AutogradPasses:
        assert not isinstance(kl, Tensor), "steps of a loss of the user's own are called"
        return AutogradPasses(network, parameters, replace(c, kl=kl[0]), self.loss)

    def surrogate(
        self,
        network: ActorCritic,
        batch: PolicyBatch[Samples],
        samples: Samples,
        c: Coefficients,
        parameters: Tensor,
        sampled: Tensor,
    ) -> AutogradSurrogate:
        plain = super().surrogate(network, batch, samples, c, parameters, sampled)
        given: dict[str, Any] = {field.name: getattr(plain, field.name) for field in fields(plain)}
        return AutogradSurrogate(**given, loss=self.loss)


class AutogradPasses(AlonePasses):
    """See `Passes`. Of the terms, policy_loss is the mean of the whole loss; the others are PPO's."""

    def __init__(self, network: ActorCritic, parameters: Tensor, c: Coefficients, loss: Loss) -> None:
        super().__init__(network, parameters, c, None)
        self._loss = loss
        # Leaves that share the parameters' memory: they change with them.
        self._leaves = self._theta.leaves()
        self._all = self._leaves.tensors(critic=True)

    def gradient(self, samples: Samples) -> Tensor:
        into = self._into.tensors(critic=True)
        self._gradient.zero_()
        for part in self._parts(samples):
            with torch.enable_grad():
                mean = self._losses(part).sum() / samples.size
            found = torch.autograd.grad(mean, self._all, materialize_grads=True)
            for gradient, of_part in zip(into, found, strict=True):
                gradient.add_(of_part)
        return self._gradient

    def terms(self, samples: Samples) -> list[dict[str, float]]:
        (terms,) = super().terms(samples)
        with torch.no_grad():
            mean = sum(self._losses(part).sum().item() for part in self._parts(samples)) / samples.size
        return [terms | {"policy_loss": mean}]

    def _losses(self, part: Samples) -> Tensor:
        network, leaves = self._network, self._leaves
        parameters = network.distribution(leaves, part.observations, part.available)
        return self._loss(part, parameters, network.values(leaves, part.critic_inputs))


@dataclass(frozen=True, slots=True)
class AutogradSurrogate(PpoSurrogate):
    """The round's objective where the loss is not PPO's. `clip` is the negative loss as a function of the
    policy alone, whose critic stays as it is; `total` is the loss; `ratio1` is as PPO's.

    Attributes:
        loss: of each sample.
    """

    loss: Loss | None = None

    def _share(self, theta: Bound, objective: Objective, part: Samples, acted: float) -> Tensor:
        assert self.loss is not None
        if objective == "ratio1":
            # Not super(): a dataclass with slots is made anew, and the class that super() means is another.
            return PpoSurrogate._share(self, theta, objective, part, acted)
        parameters, values = self._outputs(theta, part)
        if objective == "total":
            return self.loss(part, parameters, values).sum() / acted
        return -self.loss(part, parameters, values.detach()).sum() / acted
