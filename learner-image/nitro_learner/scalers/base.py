"""How a round's outcome sets the number of actors of the next round.

    scaler = scalers.make(job.spec)
    actors = scaler.initial
    for k in range(1, rounds + 1):
        ...                                     # sample with `actors` actors, update, measure `scaler.needs`
        decision = scaler.decide(RoundOutcome(round=k, actors=actors, statistics=statistics))
        actors = decision.actors                # of round k + 1

A user's own scaler is a class that subclasses `Scaler`; spec.scaling.entryPoint names it. A new scaler of
this repository has its line in `scalers/__init__.py`, and its record in `nitro_api/scalers.py`, too.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from nitro_api import JobSpec

Need = Literal["curvature", "gradient-noise"]
"""Statistics that are measured only for a scaler that asks for them. `curvature`: convexity_ratio, lambda_min
and lambda_max; `gradient-noise`: gradient_signal, gradient_noise and gradient_snr."""


@dataclass(frozen=True, slots=True)
class PolicyOutcome:
    """The known values of a policy that plays the next round.

    Attributes:
        convexity_ratio: C of its objective in this round; None when it was not measured, or failed.
        fresh: whether sharing has just made the policy, or given it to other agents. Nothing was measured of
            such a policy.
    """

    convexity_ratio: float | None = None
    fresh: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundOutcome:
    """The known values after the update of a round.

    Attributes:
        round: k, from 1.
        actors: I_k, the actors that sampled the round.
        statistics: what the update and the detector found, finite, by the names of metrics.csv's columns;
            those that were not measured, or failed, are missing. With several policies they are means.
        policies: each policy that plays the next round.
        reward_mean: mean return of recent training episodes; None before the first has ended.
        reward_round: mean return of the training episodes that ended in this round; None without any.
        seconds: the round's wall time.
        learner_seconds: the part of `seconds` that the update took.
        actor_seconds: mean duration of an actor's invocation.
        cost: cost of the run so far. Unit: US dollars.
        round_cost: of this round alone, without what was paid before it was done again, for rounds that were
            broken off, or for an evaluation at an end. Unit: US dollars.
    """

    round: int
    actors: int
    statistics: Mapping[str, float] = field(default_factory=dict)
    policies: Mapping[str, PolicyOutcome] = field(default_factory=dict)
    reward_mean: float | None = None
    reward_round: float | None = None
    seconds: float = 0.0
    learner_seconds: float = 0.0
    actor_seconds: float = 0.0
    cost: float = 0.0
    round_cost: float = 0.0


@dataclass(frozen=True, slots=True)
class Wish:
    """What one policy asks for: its score in [0, 1], and the number of actors for this score, not rounded."""

    score: float
    actors: float


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision for the next round.

    Attributes:
        actors: I_{k+1}.
        score: the boosting score S_k in [0, 1] behind it; None for a scaler that has no score.
        policies: what each policy asks for; empty if the scaler does not ask the policies.
    """

    actors: int
    score: float | None = None
    policies: Mapping[str, Wish] = field(default_factory=dict)


class Scaler(ABC):
    """Decide I_{k+1} after round k. One instance per run, called once a round, in order."""

    needs: frozenset[Need] = frozenset()
    """The statistics that `decide` reads and that take time to measure. Others are not measured."""

    def __init__(self, spec: JobSpec) -> None:
        """Start from the resolved job."""
        self.scaling = spec.scaling
        self.seed = spec.seed

    @property
    def initial(self) -> int:
        """I_1."""
        return self.scaling.initial_actors

    @abstractmethod
    def decide(self, outcome: RoundOutcome) -> Decision:
        """Return the actors of round `outcome.round + 1`, from I_min to I_max."""

    def foreseen(self, round: int) -> int | None:  # noqa: ARG002 (it depends on the rounds' outcomes)
        """Return the actors of round `round + 1` if they are known before it; None if not."""
        return None

    def resumed(self, round: int, actors: int) -> int:  # noqa: ARG002 (the checkpoint has the decision)
        """Return the actors of round `round + 1` of a resumed run, whose checkpoint has `actors` for it."""
        return actors

    def clip(self, actors: float) -> int:
        """The number of actors, rounded down, within I_min to I_max."""
        return min(max(math.floor(actors), self.scaling.min_actors), self.scaling.max_actors)

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` needs to go on exactly here: numbers, strings, tensors, and lists and dicts
        of them."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:  # noqa: B027 (without state: nothing to do)
        """Continue from `state_dict()` of an equal scaler."""
