"""Algorithms of a user's own for tests, sound ones and wrong ones."""

from typing import Any

import torch
from pydantic import BaseModel, Field
from torch import Tensor

from nitro_learner.algorithms.impact.learning import Impact
from nitro_learner.algorithms.own import OwnPpo, Samples


class Same(OwnPpo):
    """PPO's own loss, by autograd."""


class A2C(OwnPpo):
    """Another loss, with settings."""

    class Settings(BaseModel):
        """Weights of its terms."""

        critic: float = Field(0.5, ge=0)
        entropy: float = Field(0.0, ge=0)

    def loss(self, samples: Samples, parameters: Tensor, values: Tensor) -> Tensor:
        log_probs = self.distribution.log_prob(parameters, samples.actions)
        entropy = self.distribution.entropy(parameters)
        errors = (values - samples.returns) ** 2
        return -log_probs * samples.advantages + self.own.critic * errors - self.own.entropy * entropy


class PolicyAlone(OwnPpo):
    """A loss that does not depend on the critic."""

    def loss(self, samples: Samples, parameters: Tensor, values: Tensor) -> Tensor:  # noqa: ARG002
        return -self.distribution.log_prob(parameters, samples.actions) * samples.advantages


class Odd(OwnPpo):
    """A loss that is wrong as it is told to be."""

    class Settings(BaseModel):
        """What is wrong."""

        wrong: str

    def loss(self, samples: Samples, parameters: Tensor, values: Tensor) -> Any:
        if self.own.wrong == "raises":
            raise RuntimeError("nothing is lost")
        if self.own.wrong == "inside":
            return torch.cat([parameters, values])
        if self.own.wrong == "infinite":
            return values * float("inf")
        return {
            "number": 0.5,
            "mean": values.mean(),
            "column": values[:, None],
            "constant": samples.returns,
        }[self.own.wrong]

    def state_dict(self) -> dict[str, Any]:
        return {"learner": self}

    def weights(self) -> Any:
        return [] if self.own.wrong == "weights" else super().weights()


class Refusing(OwnPpo):
    """An algorithm that refuses its settings."""

    def __init__(self, team: Any, device: str = "cpu") -> None:
        super().__init__(team, device)
        raise ValueError(f"it does not like {device}")


class OffPolicy(Impact):
    """A learner of fragments as they arrive."""


class Partial:
    """A class with some of a learner's methods."""

    def __init__(self, team: Any, device: str = "cpu") -> None:
        """Keep nothing."""

    def weights(self) -> dict[str, Any]:
        return {}


def loop(sampler: Any, run: Any, rate: float = 0.01, rounds: int = 0, wrong: str = "") -> None:
    """A training loop: a policy gradient, with mistakes as it is told."""
    if wrong == "nothing":
        return
    network = sampler.network()
    parameters = list(network.policy.parameters())
    velocity = [torch.zeros_like(parameter) for parameter in parameters]
    if run.restored is not None:
        network.load_state_dict(run.restored["network"])
        velocity = run.restored["velocity"]
    while not rounds or run.round <= rounds:
        batch = sampler.collect(torch.nn.Linear(1, 1) if wrong == "module" else network)
        if wrong == "raises":
            raise RuntimeError("no gradient today")
        outputs = network.policy(batch.observations.flatten(0, 1))
        log_probs = sampler.distribution.log_prob(outputs, batch.actions.flatten(0, 1))
        loss = -(log_probs * batch.rewards.flatten()).mean()
        for parameter, moved, by in zip(
            parameters, velocity, torch.autograd.grad(loss, parameters), strict=True
        ):
            parameter.data -= rate * moved.mul_(0.9).add_(by)
        run.report(**{"lost" if wrong == "name" else "policy_loss": loss}, learning_rate=rate)
        if wrong == "number":
            run.report(kl=float("nan"))
        if wrong == "state":
            run.checkpoint({"network": network})
        elif wrong != "forgets":
            run.checkpoint({"network": network.state_dict(), "velocity": velocity})
        if rounds and run.round == rounds:
            return
