"""What the updates of several algorithms share: their seeds, the learning rate, the weight of the KL penalty,
and the check of the weights."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor


def check_finite(parameters: Tensor, names: Sequence[str], round: int) -> None:
    """Make sure that policies' parameters f32 [P, n] are numbers.

    Args:
        parameters: of the policies, a row each.
        names: of the policies; "" for the only one.
        round: the number of the round.

    Raises:
        FloatingPointError: those of a policy are not.
    """
    for row, name in zip(parameters, names, strict=True):
        if not torch.isfinite(row).all():
            whose = f" of the policy {name}" if name else ""
            raise FloatingPointError(
                f"round {round}: the weights{whose} became infinite or NaN; "
                "lower hyperparameters.learningRate or set hyperparameters.maxGradNorm"
            )


def adapted(coefficient: float, kl: float, target: float) -> float:
    """The KL penalty's next weight: more after a divergence above twice the target, less below half of it."""
    if kl > 2 * target:
        return coefficient * 1.5
    return coefficient * 0.5 if kl < 0.5 * target else coefficient


class LearningRate(Protocol):
    """The settings of a learning rate that may fall over a run."""

    @property
    def learning_rate(self) -> float: ...

    @property
    def learning_rate_anneal(self) -> bool: ...


def annealed(settings: LearningRate, round: int, rounds: int | None) -> float:
    """The learning rate of round `round` (from 1) of a run of `rounds`; constant if that is None."""
    if not settings.learning_rate_anneal or rounds is None:
        return settings.learning_rate
    return settings.learning_rate * max(0.0, 1 - (round - 1) / rounds)


def stream(seed: int, *keys: int) -> int:
    """Seed of the random numbers of these keys, such as the minibatches of a round."""
    return int(np.random.SeedSequence([seed, *keys]).generate_state(1, np.uint64)[0] >> np.uint64(1))
