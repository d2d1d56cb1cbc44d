"""How a round's outcome sets the number of actors of the next round.

    scaler = scalers.make(job.spec.scaling, seed=job.spec.seed)
    actors = scaler.initial
    for k in range(1, rounds + 1):
        ...                                         # sample with `actors` actors, update
        ratio = detector.measure(surrogate, k).ratio if scaler.needs_ratio else None
        decision = scaler.decide(RoundOutcome(k, ratio, reward_mean, actors))
        actors = decision.actors                    # of round k + 1

A new scaler is one file with a class that subclasses `Scaler`, and its line in `scalers/__init__.py`; its
name also goes into `spec.scaling.scaler` of the job's model, so that a job can ask for it.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from nitro_api.scaling import Scaling


@dataclass(frozen=True, slots=True)
class RoundOutcome:
    """What is known when round `round` (from 1) has been trained on.

    Attributes:
        round: k.
        ratio: convexity ratio R_k; None when it was not measured or the detector failed.
        reward_mean: mean return of recent training episodes; None before the first has ended.
        actors: I_k, the actors that sampled this round.
    """

    round: int
    ratio: float | None
    reward_mean: float | None
    actors: int


@dataclass(frozen=True, slots=True)
class Decision:
    """I_{k+1}, and the boosting score S_k in [0, 1] behind it (None for a scaler that has no score)."""

    actors: int
    score: float | None = None


class Scaler(ABC):
    """Decides I_{k+1} after round k. One instance per run, called once a round, in order."""

    needs_ratio: ClassVar[bool] = False
    """Whether `decide` reads the convexity ratio. Without need nobody pays for the detector."""

    def __init__(self, scaling: Scaling, seed: int) -> None:
        """Start from `spec.scaling` (resolved) and the run's seed."""
        self.scaling = scaling
        self.seed = seed

    @property
    def initial(self) -> int:
        """I_1."""
        return self.scaling.initial_actors

    @abstractmethod
    def decide(self, outcome: RoundOutcome) -> Decision:
        """Return the actors of round `outcome.round + 1`."""

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` needs to go on exactly here: numbers, strings, lists and dicts of them."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:  # noqa: B027 (without state: nothing to do)
        """Continue from `state_dict()` of an equal scaler."""
