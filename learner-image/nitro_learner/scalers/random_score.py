"""The control experiment: Nitro's scaler on a statistic without information.

Only the comparison with this scaler shows whether the detector helps: both spend the same. The formula
alone, which gives early rounds more actors by d^k, may beat a fixed number of actors."""

from typing import Any

import numpy as np

from nitro_api import JobSpec
from nitro_learner.scalers.base import RoundOutcome
from nitro_learner.scalers.nitro import NitroScaler


class RandomScoreScaler(NitroScaler):
    """NitroScaler with another statistic: in place of x_k, a value drawn uniformly from x_1..x_k by
    (seed, k), where x is the statistic of the mode. All else is equal."""

    def __init__(self, spec: JobSpec) -> None:
        super().__init__(spec)
        self._history: list[float] = []

    def statistic(self, outcome: RoundOutcome) -> float | None:
        value = super().statistic(outcome)
        if value is None:
            return None
        self._history.append(value)
        generator = np.random.default_rng([self.seed, outcome.round])
        return float(generator.choice(self._history))

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"history": list(self._history)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._history = list(state["history"])
