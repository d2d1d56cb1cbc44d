"""Nitro's scaler: more actors where the objective is least convex, fewer as training goes on (Nitro, section
5.3).

    W_n = the last n ratios, R_k among them
    S_k = (max W - R_k) / (max W - min W) * d^k
    I_{k+1} = clip(floor(I_max * S_k), I_min, I_max)

Where the paper has no rule: without R_k the score is 0 and W stays as it is; with fewer than two values in W
the quotient is 1; with equal values it is 0.5.
"""

import math
from collections import deque
from typing import Any, ClassVar

from nitro_api.scaling import Scaling
from nitro_learner.scalers.base import Decision, RoundOutcome, Scaler


class NitroScaler(Scaler):
    """The boosting score. `mode: artifact` is the formula of the authors' released code instead of the
    paper's."""

    needs_ratio: ClassVar[bool] = True

    def __init__(self, scaling: Scaling, seed: int) -> None:
        super().__init__(scaling, seed)
        self._window: deque[float] = deque(maxlen=scaling.window)

    def decide(self, outcome: RoundOutcome) -> Decision:
        return self._artifact(outcome) if self.scaling.mode == "artifact" else self._paper(outcome)

    def _paper(self, outcome: RoundOutcome) -> Decision:
        if outcome.ratio is None:
            return Decision(self.scaling.min_actors, 0.0)
        self._window.append(outcome.ratio)
        position = self._position(outcome.ratio)
        quotient = 1.0 if position is None else 1 - position
        score = quotient * self.scaling.decay**outcome.round
        return Decision(self._clip(self.scaling.max_actors * score), score)

    def _artifact(self, outcome: RoundOutcome) -> Decision:
        """R d^k is compared, large values boost, and no round gets fewer than I_max d^(k^2).

        The released code appends both R d^k and R, so that W holds n / 2 rounds of both; so does this.
        """
        floor = self._clip(self.scaling.max_actors * self.scaling.decay ** (outcome.round**2))
        if outcome.ratio is None:
            return Decision(floor, 0.0)
        decayed = outcome.ratio * self.scaling.decay**outcome.round
        self._window.append(decayed)
        position = self._position(decayed)
        score = 1.0 if position is None else position
        self._window.append(outcome.ratio)
        return Decision(max(floor, self._clip(self.scaling.max_actors * score)), score)

    def _position(self, ratio: float) -> float | None:
        """Where a ratio lies between the window's least (0) and largest (1); None with nothing to compare
        with."""
        if len(self._window) < 2:
            return None
        scale = math.log if self.scaling.normalise == "log" else float
        low, high = scale(min(self._window)), scale(max(self._window))
        if high - low <= 1e-9 * max(1.0, abs(high)):
            return 0.5
        return (scale(ratio) - low) / (high - low)

    def _clip(self, actors: float) -> int:
        return min(max(math.floor(actors), self.scaling.min_actors), self.scaling.max_actors)

    def state_dict(self) -> dict[str, Any]:
        return {"window": list(self._window)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._window = deque(state["window"], maxlen=self.scaling.window)
