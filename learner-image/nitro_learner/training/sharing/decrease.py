"""The decrease detector: are the agents' returns falling? (MARLess, SoCC 2025.)

    rhat_i = (r_i - min r_i) / (max r_i - min r_i)      over the run so far; 0.5 where all r_i are equal
    R      = mean of rhat_i over the agents
    the slope of R over the last W rounds is below tau: they fall

The window is normalised anew in each round, by what the run has seen until then. The slope is that of least
squares; its unit is a share of the observed range per round, so that it lies within -0.152 to 0.152 for
W = 10.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


def least_squares_slope(values: NDArray[np.float64]) -> float:
    """The slope per step of the line through values [n >= 2] that has the least squared error."""
    steps = np.arange(len(values)) - (len(values) - 1) / 2
    return float(steps @ (values - values.mean()) / (steps @ steps))


class DecreaseDetector:
    """Watch the agents' returns.

        detector.push({"agent_0": -61.5, "agent_1": -64.0})     # after each round
        if detector.falling: detector.clear()

    Args:
        window: W, rounds.
        slope: tau.
    """

    def __init__(self, window: int, slope: float) -> None:
        self._threshold = slope
        self._recent: deque[dict[str, float]] = deque(maxlen=window)
        self._lowest: dict[str, float] = {}
        self._highest: dict[str, float] = {}

    def push(self, returns: Mapping[str, float]) -> None:
        """Take in a round: the mean return of each agent's episodes that ended in it. The agents are the same
        in every round."""
        self._recent.append(dict(returns))
        for agent, value in returns.items():
            self._lowest[agent] = min(value, self._lowest.get(agent, value))
            self._highest[agent] = max(value, self._highest.get(agent, value))

    @property
    def window(self) -> NDArray[np.float64]:
        """R of the rounds in the window, f64 [at most W]."""
        return np.array(
            [np.mean([self._share(*item) for item in returns.items()]) for returns in self._recent]
        )

    def _share(self, agent: str, value: float) -> float:
        low, high = self._lowest[agent], self._highest[agent]
        return (value - low) / (high - low) if high > low else 0.5

    @property
    def slope(self) -> float | None:
        """The slope of R over the window; None while the window is not full."""
        if len(self._recent) < (self._recent.maxlen or 0):
            return None
        return least_squares_slope(self.window)

    @property
    def falling(self) -> bool:
        """Whether the slope is below the threshold."""
        slope = self.slope
        return slope is not None and slope < self._threshold

    def clear(self) -> None:
        """Empty the window. The range of the returns stays, because it is that of the whole run."""
        self._recent.clear()

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` needs to go on exactly here."""
        return {"recent": list(self._recent), "lowest": dict(self._lowest), "highest": dict(self._highest)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict()` of a detector with an equal window."""
        self._recent = deque(map(dict, state["recent"]), maxlen=self._recent.maxlen)
        self._lowest, self._highest = dict(state["lowest"]), dict(state["highest"])
