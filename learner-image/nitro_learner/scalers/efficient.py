"""As many actors as make a round's improvement cheapest, by the gradient's noise and by what rounds cost.

A round of I actors costs c0 + c1 I. It has B = I T transitions, and its improvement grows as

    gain(I) ~ 1 / sqrt(1 + N / I),   N = B_noise / T,   B_noise = S / G

because the clip and the KL target bound how far an update moves, and noise turns a part of that movement into
other directions (McCandlish et al. 2018, equation 2.6, is the same for an update of one step, without the
root). Gain over cost is largest at

    I* = 2 K / (1 + sqrt(1 + 8 K / N)),   K = c0 / c1

which grows from 0 without noise to K where noise hides the gradient. S and G come from
`boosting.gradient_noise` for the policy's objective; each is averaged.
"""

import math
from typing import Any

from nitro_api import JobSpec
from nitro_api.costs.round_costs import ModelledCosts
from nitro_learner.scalers.base import Decision, Need, RoundOutcome, Scaler
from nitro_learner.scalers.fitted_costs import FittedCosts

_KEEP = 0.8
"""Weight of the old average when a new value comes."""
_TRAJECTORIES = 2
"""A round needs as many to show noise."""


def best_actors(noise: float, ratio: float) -> float:
    """I* for N = `noise`, which may be infinite, and K = `ratio`. Units: actors."""
    return 2 * ratio / (1 + math.sqrt(1 + 8 * ratio / noise)) if noise > 0 else 0.0


class EfficientScaler(Scaler):
    """Balance a round's fixed cost against its gradient's noise."""

    needs: frozenset[Need] = frozenset({"gradient-noise"})

    def __init__(self, spec: JobSpec) -> None:
        super().__init__(spec)
        self._transitions = spec.environment.rollout_length
        self._fewest = math.ceil(_TRAJECTORIES / spec.environment.envs_per_actor)
        self._signal: float | None = None
        self._noise: float | None = None
        modelled = ModelledCosts.of(spec)
        self._ratio = spec.scaling.cost_ratio if spec.scaling.cost_ratio is not None else modelled.ratio
        self._fitted = FittedCosts(modelled) if spec.scaling.costs == "measured" else None

    def decide(self, outcome: RoundOutcome) -> Decision:
        if self._fitted:
            self._ratio = self._fitted.add(outcome.actors, outcome.cost)
        signal = outcome.statistics.get("gradient_signal")
        noise = outcome.statistics.get("gradient_noise")
        if signal is not None and noise is not None:
            self._signal, self._noise = _average(self._signal, signal), _average(self._noise, noise)
        if self._signal is None or self._noise is None:
            return Decision(self.clip(max(outcome.actors, self._fewest)))
        scale = self._noise / self._signal if self._signal > 0 else math.inf
        wanted = best_actors(scale / self._transitions, self._ratio)
        return Decision(self.clip(max(wanted + 0.5, self._fewest)))

    def state_dict(self) -> dict[str, Any]:
        fitted = self._fitted.state_dict() if self._fitted else None
        return {"signal": self._signal, "noise": self._noise, "ratio": self._ratio, "fitted": fitted}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._signal, self._noise, self._ratio = state["signal"], state["noise"], state["ratio"]
        if self._fitted:
            self._fitted.load_state_dict(state["fitted"])


def _average(before: float | None, value: float) -> float:
    return value if before is None else _KEEP * before + (1 - _KEEP) * value
