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


def function(sampler: Any, run: Any) -> None:
    """No class."""
