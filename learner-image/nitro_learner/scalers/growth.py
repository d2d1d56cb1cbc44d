"""Twice as many actors where the returns no longer rise, half as many where they rise steeply.

PPO with a constant step cannot get closer to an optimum than its rounds' noise lets it. There the returns
stop rising, and later fall. Larger rounds have less noise, as a smaller step has (Smith et al. 2018,
arXiv 1711.00489). Far from an optimum the noise does no harm, and more rounds of the same steps learn
faster.

It looks once in n rounds, at the mean returns of the training episodes that ended in each of them: an older
half A and a newer half B. A round in which no episode ended does not count.

    z = (mean B - mean A) / sqrt(var A / |A| + var B / |B|)

    I_{k+1} = min(2 I_k, I_max)   where z < 2: it is not shown that the returns rise
              max(I_k / 2, I_min) where z >= 2 * 2^1.5: rounds of half the size would show it, too
              I_k                 otherwise, and in all rounds between

A test in every round would be one of many, of which some fail by chance: here a training that rises by four
standard errors grows by mistake in one look of forty.
"""

import math
from collections.abc import Sequence
from typing import Any

from nitro_api import JobSpec
from nitro_learner.scalers.base import Decision, RoundOutcome, Scaler

_SHOWN = 2.0
"""Standard errors from which on a rise is shown."""
_STEEP = _SHOWN * 2**1.5
"""Those of a rise that half as many actors would show, too: their rounds rise half as far, and have twice the
variance."""


def rise(returns: Sequence[float]) -> float:
    """z, by how many standard errors the newer half of the returns is above the older half; infinite where
    returns within the halves are equal, and 0 where all are equal."""
    middle = len(returns) // 2
    older, newer = _moments(returns[:middle]), _moments(returns[middle:])
    difference, error = newer[0] - older[0], math.sqrt(older[1] + newer[1])
    if error == 0:
        return math.copysign(math.inf, difference) if difference else 0.0
    return difference / error


def _moments(values: Sequence[float]) -> tuple[float, float]:
    """The mean and its squared standard error."""
    mean = sum(values) / len(values)
    squares = sum((value - mean) * (value - mean) for value in values)  # ** would raise where this overflows
    return mean, squares / (len(values) - 1) / len(values)


class GrowthScaler(Scaler):
    """Grow on a plateau of the returns."""

    def __init__(self, spec: JobSpec) -> None:
        super().__init__(spec)
        self._returns: list[float] = []

    def decide(self, outcome: RoundOutcome) -> Decision:
        if outcome.reward_round is not None:
            self._returns.append(outcome.reward_round)
        if len(self._returns) < self.scaling.window:
            return Decision(self.clip(outcome.actors))
        slope = rise(self._returns)
        self._returns = []
        if slope < _SHOWN:
            return Decision(self.clip(2 * outcome.actors))
        return Decision(self.clip(outcome.actors // 2 if slope >= _STEEP else outcome.actors))

    def state_dict(self) -> dict[str, Any]:
        return {"returns": list(self._returns)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._returns = list(state["returns"])
