"""The number of actors that a job holds between its requests: ski rental, refined by recent requests.

An idle pod is held or let go. Holding costs pod-seconds for as long as nobody needs it. Letting go costs one
cycle: the pod is paid while it drains, and another is paid while it starts. The n-th actor is needed whenever
at least n are requested, so each n is a ski-rental problem of its own (Lu, Chen and
Andrew, "Simple and effective dynamic provisioning for power-proportional data centers", IEEE TPDS 24(6),
2013). Its classic answer holds a pod for one cycle, and never costs more than twice the optimum (Karlin et
al., "Competitive snoopy caching", Algorithmica 3, 1988).

The refinement predicts from recent rounds when n actors are needed again. It holds a pod for two cycles if
that is likely within one cycle, and else for half a cycle. This is the rule of Purohit, Svitkina and Kumar,
"Improving online algorithms via ML predictions", NeurIPS 2018, with lambda = 1/2: at most 1.5 times the
optimum if the predictions are right, at most three times if all of them are wrong.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

WINDOW = 12
"""Rounds from which the next requests are predicted: two windows of the boosting score."""
TRUST = 0.5
"""Lambda: how far a prediction shortens or lengthens the time for which a pod is held. 1 ignores it."""


@dataclass(frozen=True)
class PastRound:
    """One earlier round."""

    actors: int
    """Actors that it requested."""
    seconds: float
    """Time from its request to the next one."""


@dataclass(frozen=True)
class PodTimes:
    """Time for which a pod is paid and does no work. Unit: seconds."""

    start: float
    """From its creation until it is ready."""
    drain: float
    """From its deletion until it is gone."""
    wake: float = 2.0
    """From the request to wake it until it has its CPU."""

    @property
    def cycle(self) -> float:
        """What it costs to let a pod go and to start another. Unit: pod-seconds."""
        return self.start + self.drain


USUAL = PodTimes(start=10.0, drain=30.0, wake=2.0)
"""Assumed until pods have been measured: Knative's queue-proxy alone waits 30 s before it ends."""
COLD_START_SECONDS = 3.0
"""Assumed time of a cold start on Lambda. AWS names none for images: "from under 100 ms to over 1 second" for
all functions, and 10 s as the limit of the init phase. At AWS's prices every time up to that limit holds an
idle sandbox for less than two minutes."""


@dataclass(frozen=True)
class Demand:
    """The requests of a job: the present one, those before, and what is known of later ones."""

    requested: int
    """Actors of the present round."""
    elapsed: float = 0.0
    """Time since that request. Unit: seconds."""
    past: Sequence[PastRound] = ()
    """Earlier rounds, the oldest first."""
    actor_seconds: float = 0.0
    """Time that an actor works on one slot; 0 = not known."""
    fewest: int = 1
    """No later round requests fewer actors."""
    most: int = 2**31
    """No later round requests more actors."""


@dataclass(frozen=True)
class Holding:
    """A decision."""

    actors: int
    """Actors to hold now, idle ones included."""
    seconds: float | None = None
    """Time until fewer are held, without any new request; None = no actor is held in vain."""


def hold(demand: Demand, held: int, times: PodTimes) -> Holding:
    """The number of actors to hold, by the refined ski-rental rule.

    Args:
        held: number of actors that are held now, starting ones included.
    """
    sizes = _sizes(demand, held)
    kept = [n for n in sizes if n <= max(held, demand.requested) and _kept(demand, n, held, times)]
    actors = max(kept, default=0)
    left = [_patience(demand, n, times) - _idle(demand, n) for n in kept if n > demand.requested]
    seconds = min(left, default=math.inf)
    return Holding(actors, seconds if math.isfinite(seconds) else None)


def hold_for(seconds: float, demand: Demand, held: int) -> Holding:
    """The number of actors to hold, if each is held for a fixed time after its last use.

    Args:
        seconds: that time; 0 follows the requests.
    """
    left = {n: seconds - _idle(demand, n) for n in _sizes(demand, held) if demand.requested < n <= held}
    kept = {n: time for n, time in left.items() if time > 0}
    return Holding(max(kept, default=demand.requested), min(kept.values(), default=None))


def _sizes(demand: Demand, held: int) -> list[int]:
    """The numbers that can be the answer. All actors between two neighbours were needed at the same times."""
    known = {demand.requested, held, demand.fewest, demand.most, *(r.actors for r in demand.past)}
    return sorted(n for n in known if n > 0)


def _kept(demand: Demand, n: int, held: int, times: PodTimes) -> bool:
    """Whether the n-th actor is held, or started."""
    if n > held:
        return _worth_starting(demand, n, held, times)
    return n <= demand.requested or _idle(demand, n) < _patience(demand, n, times)


def _worth_starting(demand: Demand, n: int, held: int, times: PodTimes) -> bool:
    """Whether an actor that starts now is likely to be used: in this round, or soon in a later one."""
    if n <= demand.fewest:
        return True
    waves = math.ceil(demand.requested / held) if held else math.inf
    sampling = waves * demand.actor_seconds if demand.actor_seconds else math.inf
    return demand.elapsed + times.start < sampling or _likely(demand, n, times)


def _patience(demand: Demand, n: int, times: PodTimes) -> float:
    """Seconds for which the n-th actor is held while nobody needs it."""
    if n <= demand.fewest:
        return math.inf
    if n > demand.most:
        return 0.0
    return times.cycle / TRUST if _likely(demand, n, times) else times.cycle * TRUST


def _likely(demand: Demand, n: int, times: PodTimes) -> bool:
    """Whether the n-th actor is expected to be needed again within a cycle."""
    if n > demand.most:
        return False
    recent = [*(r.actors for r in demand.past), demand.requested][-WINDOW:]
    # Krichevsky and Trofimov's estimate of a probability: one half before anything was seen.
    chance = (sum(actors >= n for actors in recent) + 0.5) / (len(recent) + 1)
    lengths = [r.seconds for r in demand.past[-WINDOW:]]
    length = fmean(lengths) if lengths else demand.actor_seconds
    return length / chance <= times.cycle


def _idle(demand: Demand, n: int) -> float:
    """Seconds for which nobody has needed the n-th actor: from the end of the last round that did."""
    if demand.requested >= n:
        return 0.0
    idle = demand.elapsed
    for earlier in reversed(demand.past):
        if earlier.actors >= n:
            break
        idle += earlier.seconds
    return idle
