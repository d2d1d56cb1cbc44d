"""What a round costs, fitted to a run's own rounds."""

from typing import Any

import numpy as np

from nitro_api.costs.round_costs import ModelledCosts

_KEEP = 0.95
"""Weight that earlier rounds keep when a new one comes."""
_PRIOR = 0.1
"""Rounds that the modelled ratio counts for."""


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
        self._squares = _KEEP * self._squares + np.outer(row, row)
        self._products = _KEEP * self._products + row * cost
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
