"""What a round costs: c0 whatever its actors, c1 for each of them."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from nitro_api import JobSpec
from nitro_api.costs.prices import serverless_cost, vm_cost

_ROUND_SECONDS = 0.1
"""Of a round, apart from sampling and update."""
_ACTOR_SECONDS = 0.05
"""Of an invocation, apart from its steps."""
_STEP_SECONDS = {"mlp": 1.2e-4, "conv": 6e-4}
"""An environment step with its policy, by type of network: Hopper and SpaceInvaders."""
_SAMPLE_SECONDS = {"mlp": 6.3e-6, "conv": 9e-4}
"""One sample in one epoch of the update, on one core. On a GPU the time of an update hardly grows."""
_MOST = 1e6
_KEEP = 0.95
"""Weight that earlier rounds keep when a new one comes."""
_PRIOR = 0.1
"""Rounds that the modelled ratio counts for."""
_SMALLEST = 1e-12

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ModelledCosts:
    """A round's cost by the job's prices, with actors beside each other, in US dollars.

    Seconds are those of the machine of docs/performance.md, in every run, so that the same job decides alike
    on every machine.

    Attributes:
        base: c0.
        actor: c1.
    """

    base: float
    actor: float

    @classmethod
    def of(cls, spec: JobSpec) -> Self:
        """The costs of a resolved job's rounds."""
        one, two = _dollars(spec, 1), _dollars(spec, 2)
        return cls(2 * one - two, two - one)

    @property
    def ratio(self) -> float:
        """K = c0 / c1. Unit: actors."""
        return min(self.base / self.actor, _MOST) if self.actor > 0 else _MOST


def _dollars(spec: JobSpec, actors: int) -> float:
    """The modelled cost of a round of so many actors."""
    steps, kind = spec.environment.rollout_length, spec.network.type
    each = _ACTOR_SECONDS + steps * _STEP_SECONDS[kind]
    epochs = spec.algorithm.hyperparameters.to_dict().get("epochs") or 1
    on_gpu = any(name.endswith("/gpu") for name in spec.learner.resources.limits or ())
    update = 0.0 if on_gpu else actors * steps * epochs * _SAMPLE_SECONDS[kind]
    seconds = _ROUND_SECONDS + each + update
    if spec.pricing.model == "vm":
        return vm_cost(spec.pricing, seconds).total
    return serverless_cost(spec.pricing, seconds, [each] * actors).total


class FittedCosts:
    """c0 and c1 fitted to what the run's rounds have cost, by least squares.

    Older rounds count less. The modelled ratio counts a little, so that there is an answer while all rounds
    have had the same number of actors.

        fitted = FittedCosts(ModelledCosts.of(spec))
        ratio = fitted.add(16, 0.012)        # a round of 16 actors; the run has cost 0.012 dollars so far
    """

    def __init__(self, modelled: ModelledCosts) -> None:
        self._modelled = modelled
        # c0 and c1 in the modelled ratio. Together they are what the first round did cost.
        self._prior: Floats | None = None
        self._first = 0
        self._squares = np.zeros((2, 2))
        self._products = np.zeros(2)
        self._paid = 0.0

    def add(self, actors: int, paid: float) -> float:
        """Take a round's number of actors and what the run has cost since its beginning; return K.

        Without a sign that a round has costs whatever its actors K is 0, and without a sign that actors cost
        anything it is the largest there is.
        """
        row, cost = np.array([1.0, actors]), paid - self._paid
        if self._prior is None:
            modelled = np.array([self._modelled.base, self._modelled.actor])
            self._prior = modelled * (cost / max(float(row @ modelled), _SMALLEST))
            self._first = actors
        self._squares = _KEEP * self._squares + np.outer(row, row)
        self._products = _KEEP * self._products + row * cost
        self._paid = paid
        weights = _PRIOR * np.diag([1.0, float(self._first) ** 2])
        base, actor = np.linalg.solve(self._squares + weights, self._products + weights @ self._prior)
        return ModelledCosts(max(float(base), 0.0), float(actor)).ratio

    def state_dict(self) -> dict[str, Any]:
        return {
            "prior": None if self._prior is None else self._prior.tolist(),
            "first": self._first,
            "squares": self._squares.ravel().tolist(),
            "products": self._products.tolist(),
            "paid": self._paid,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._prior = None if state["prior"] is None else np.array(state["prior"])
        self._first = state["first"]
        self._squares = np.array(state["squares"]).reshape(2, 2)
        self._products = np.array(state["products"])
        self._paid = state["paid"]
