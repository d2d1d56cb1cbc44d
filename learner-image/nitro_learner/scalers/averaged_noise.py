"""Averages of a round's gradient signal and noise, for the scalers that go by them."""

from collections.abc import Mapping
from typing import Any


class AveragedNoise:
    """Exponential averages of G and S, which `boosting.gradient_noise` measures.

    Attributes:
        signal: the average of G; None before the first measurement.
        noise: the average of S; None before the first measurement.
    """

    def __init__(self, keep: float) -> None:
        """
        Args:
            keep: weight of the old average when a new value comes.
        """
        self._keep = keep
        self.signal: float | None = None
        self.noise: float | None = None

    def add(self, statistics: Mapping[str, float]) -> bool:
        """Take a round's statistics; return whether they have a measurement."""
        signal, noise = statistics.get("gradient_signal"), statistics.get("gradient_noise")
        if signal is None or noise is None:
            return False
        self.signal, self.noise = self._average(self.signal, signal), self._average(self.noise, noise)
        return True

    def _average(self, before: float | None, value: float) -> float:
        return value if before is None else self._keep * before + (1 - self._keep) * value

    def state_dict(self) -> dict[str, Any]:
        return {"signal": self.signal, "noise": self.noise}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.signal, self.noise = state["signal"], state["noise"]
