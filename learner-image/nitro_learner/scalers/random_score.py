"""The control experiment: Nitro's scaler on ratios without information.

Whether the detector helps shows only against this scaler, which spends alike: the formula alone, front-loaded
by d^k, may beat a fixed number of actors.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from nitro_api.scaling import Scaling
from nitro_learner.scalers.base import Decision, RoundOutcome
from nitro_learner.scalers.nitro import NitroScaler


class RandomScoreScaler(NitroScaler):
    """NitroScaler on a ratio drawn uniformly from R_1..R_k in place of R_k, by (seed, k). All else is
    equal."""

    def __init__(self, scaling: Scaling, seed: int) -> None:
        super().__init__(scaling, seed)
        self._history: list[float] = []

    def decide(self, outcome: RoundOutcome) -> Decision:
        if outcome.ratio is None:
            return super().decide(outcome)
        self._history.append(outcome.ratio)
        generator = np.random.default_rng([self.seed, outcome.round])
        return super().decide(replace(outcome, ratio=float(generator.choice(self._history))))

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"history": list(self._history)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._history = list(state["history"])
