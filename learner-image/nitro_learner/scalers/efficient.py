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

import numpy as np

from nitro_api import JobSpec
from nitro_api.costs.round_costs import ModelledCosts, cost_ratio
from nitro_learner.scalers.averaged_noise import AveragedNoise
from nitro_learner.scalers.base import Decision, Need, RoundOutcome, Scaler

_KEEP_COSTS = 0.95
"""Weight that earlier rounds' costs keep when a new round comes."""
_PRIOR = 0.1
"""Rounds that the modelled ratio counts for."""
_KEEP_NOISE = 0.8
"""Weight of the old average when a new value comes."""
_TRAJECTORIES = 2
"""Trajectories that a round needs, so that its gradient's noise can be measured."""


class FittedCosts:
    """c0 and c1 fitted to what the run's rounds have cost, by least squares.

    Older rounds count less. That c0 = K c1, with the modelled K, is one more equation of little weight. So
    rounds that all have the same number of actors leave K where it is, whatever they cost.

        fitted = FittedCosts(ModelledCosts.of(spec))
        ratio = fitted.add(16, 0.012)        # a round of 16 actors, which cost 0.012 dollars
    """

    def __init__(self, modelled: ModelledCosts) -> None:
        self._modelled = modelled.ratio
        self._squares = np.zeros((2, 2))
        self._products = np.zeros(2)

    def add(self, actors: int, cost: float) -> float:
        """Take a round's number of actors and its own cost; return K.

        Without a sign that a round has costs whatever its actors K is 0, and without a sign that actors cost
        anything it is the largest there is.
        """
        row = np.array([1.0, actors])
        self._squares = _KEEP_COSTS * self._squares + np.outer(row, row)
        self._products = _KEEP_COSTS * self._products + row * cost
        # Scaled so that neither coefficient is larger than a round's.
        prior = np.array([1.0, -self._modelled]) * min(1.0, actors / max(self._modelled, 1.0))
        squares = self._squares + _PRIOR * np.outer(prior, prior)
        base, actor = np.linalg.solve(squares, self._products)
        return ModelledCosts(max(float(base), 0.0), float(actor)).ratio

    def state_dict(self) -> dict[str, Any]:
        return {"squares": self._squares.ravel().tolist(), "products": self._products.tolist()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._squares = np.array(state["squares"]).reshape(2, 2)
        self._products = np.array(state["products"])


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
        self._noise = AveragedNoise(_KEEP_NOISE)
        self._ratio = cost_ratio(spec)
        self._fitted = FittedCosts(ModelledCosts.of(spec)) if spec.scaling.costs == "measured" else None

    def decide(self, outcome: RoundOutcome) -> Decision:
        if self._fitted:
            self._ratio = self._fitted.add(outcome.actors, outcome.round_cost)
        self._noise.add(outcome.statistics)
        signal, noise = self._noise.signal, self._noise.noise
        if signal is None or noise is None:
            return Decision(self.clip(max(outcome.actors, self._fewest)))
        scale = noise / signal if signal > 0 else math.inf
        wanted = best_actors(scale / self._transitions, self._ratio)
        return Decision(self.clip(max(wanted + 0.5, self._fewest)))

    def state_dict(self) -> dict[str, Any]:
        fitted = self._fitted.state_dict() if self._fitted else None
        return {**self._noise.state_dict(), "ratio": self._ratio, "fitted": fitted}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._noise.load_state_dict(state)
        self._ratio = state["ratio"]
        if self._fitted:
            self._fitted.load_state_dict(state["fitted"])
