"""A simulator of pods that start, work, wait and drain, for rules that decide how many of them to hold.

It replays the requests of a real run. A rule is the function that the operator calls, so what is simulated is
what runs.
"""

from __future__ import annotations

import csv
import heapq
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nitro_api.pools.holding import Demand, Holding, PastRound, PodTimes
from nitro_api.spec.environment import GivenEnvironment
from nitro_api.spec.job import GivenSpec
from nitro_api.spec.scaling import Scaling
from nitro_operator.scaling.demand import bounds

Rule = Callable[[Demand, int, PodTimes], Holding]
"""From the demand, the number held and the measured times to a decision."""


@dataclass(frozen=True)
class TraceRound:
    """One round of a real run."""

    actors: int
    rest_seconds: float
    """Time of the round beside sampling: updates, detector, checkpoints."""


@dataclass(frozen=True)
class Place:
    """Where pods run. Unit of all times: seconds."""

    start: float
    """Until one pod is ready."""
    start_each: float
    """Added to that for each pod that starts together with it."""
    drain: float
    drain_each: float
    slot: float
    """Time that an actor works on a slot."""
    rest: float = 1.0
    """Factor of the trace's time beside sampling: a larger network, a slower machine."""
    interval: float = 0.0
    """Least time between two changes of the number."""
    cold: float | None = None
    """Time of a cold start, where a slot without a ready actor gets one of its own, as on Lambda; elsewhere
    it waits for a ready one."""

    def start_of(self, pods: int) -> float:
        return self.start + self.start_each * pods

    def drain_of(self, pods: int) -> float:
        return self.drain + self.drain_each * pods

    def times(self, pods: int) -> PodTimes:
        """What an operator measures where so many pods start and go together."""
        return PodTimes(self.start_of(pods), self.drain_of(pods))


@dataclass
class Result:
    """What a simulated run took."""

    paid: float = 0.0
    """Pod-seconds, starting and draining ones included."""
    busy: float = 0.0
    started: int = 0
    slots: int = 0
    """Slots whose size was requested before."""
    hits: int = 0
    """Those of them that found a ready pod when their round began."""
    warm: int = 0
    """All slots that found a ready pod."""
    rounds: list[float] = field(default_factory=list)
    """Seconds of each round."""
    most: int = 0
    """Most pods that existed at a time."""

    @property
    def hit_rate(self) -> float:
        return self.hits / self.slots if self.slots else 1.0


def read_trace(path: Path) -> list[TraceRound]:
    """A trace of tests/data/request-traces."""
    with path.open() as file:
        return [TraceRound(int(row["actors"]), float(row["rest_seconds"])) for row in csv.DictReader(file)]


class Simulation:
    """One run of a trace under a rule.

    Usage::

        result = Simulation(trace, place, scaling, rule).run()
    """

    def __init__(self, trace: Sequence[TraceRound], place: Place, scaling: Scaling, rule: Rule) -> None:
        self._trace = trace
        self._place = place
        self._spec = GivenSpec(environment=GivenEnvironment(id="Hopper-v5"), scaling=scaling)
        self._rule = rule
        self._times = place.times(max(1, max(one.actors for one in trace) // 2))
        self._ready: list[float] = []  # of each pod that is held: when it is ready
        self._gone: list[float] = []  # of each draining pod: when it is gone
        self._changed = -math.inf
        self._past: list[PastRound] = []
        self._look: float | None = None
        self.result = Result()

    def run(self) -> Result:
        """Replay the whole trace, let everything go, and return what it took."""
        now, seen = 0.0, 0
        for index, one in enumerate(self._trace):
            began = now
            self._decide(index, one.actors, began, now)
            ready = sum(at <= now for at in self._ready)
            known = min(one.actors, seen)
            self.result.slots += known
            self.result.hits += min(known, ready)
            self.result.warm += min(one.actors, ready)
            seen = max(seen, one.actors)
            now = self._sample(index, one, began)
            now = self._wait(index, one.actors, began, now + self._place.rest * one.rest_seconds)
            self._past.append(PastRound(one.actors, now - began))
            self.result.rounds.append(now - began)
        self._scale(0, now)
        return self.result

    def _sample(self, index: int, one: TraceRound, began: float) -> float:
        """Work off a round's slots; returns when the last one is done."""
        self.result.busy += one.actors * self._place.slot
        if self._place.cold is not None:
            waits = self._place.cold if one.actors > sum(at <= began for at in self._ready) else 0.0
            return self._wait(index, one.actors, began, began + waits + self._place.slot)
        free: list[float] = []
        pods = 0
        done = began
        for _ in range(one.actors):
            while pods < len(self._ready) and (not free or self._ready[pods] <= free[0]):
                heapq.heappush(free, max(began, self._ready[pods]))
                pods += 1
            at = heapq.heappop(free) + self._place.slot
            heapq.heappush(free, at)
            done = max(done, at)
        return self._wait(index, one.actors, began, done)

    def _wait(self, index: int, actors: int, began: float, until: float) -> float:
        """Let time pass; the rule looks again when it said so."""
        while self._look is not None and self._look < until:
            self._decide(index, actors, began, self._look)
        return until

    def _decide(self, index: int, actors: int, began: float, now: float) -> None:
        fewest, most = bounds(self._spec, index, actors)
        demand = Demand(actors, now - began, self._past, self._place.slot, fewest, most)
        decision = self._rule(demand, len(self._ready), self._times)
        after = None if decision.seconds is None else now + max(decision.seconds, 0.01)
        if decision.actors != len(self._ready) and now < self._changed + self._place.interval:
            self._look = self._changed + self._place.interval
            return
        self._look = after
        if decision.actors != len(self._ready):
            self._changed = now
            self._scale(decision.actors, now)

    def _scale(self, pods: int, now: float) -> None:
        """Start pods, or let the last ones go. Each is paid from its start until it is gone."""
        more = pods - len(self._ready)
        self._gone = [at for at in self._gone if at > now]
        if more > 0:
            self.result.started += more
            self._ready += [now + self._place.start_of(more)] * more
            self.result.paid -= more * now
        elif more < 0:
            gone = now + self._place.drain_of(-more)
            self.result.paid -= more * gone
            self._gone += [gone] * -more
            del self._ready[more:]
        self.result.most = max(self.result.most, len(self._ready) + len(self._gone))


def oracle(trace: Sequence[TraceRound], place: Place) -> Result:
    """The fewest pod-seconds with which every slot finds a ready pod, by one who knows the future.

    Each pod is held between two uses, or let go and started again in time, whichever costs less.
    """
    result = Result()
    starts, ends = [], []
    now = 0.0
    for one in trace:
        length = place.slot + place.rest * one.rest_seconds
        starts.append(now)
        ends.append(now + place.slot)
        now += length
        result.rounds.append(length)
        result.busy += one.actors * place.slot
    held = [False] * max(one.actors for one in trace)
    last = [0.0] * len(held)
    for index, one in enumerate(trace):
        fresh = [n for n in range(one.actors) if not held[n] or _let_go(starts[index] - last[n], place)]
        result.started += len(fresh)
        result.paid += len(fresh) * place.start_of(len(fresh))
        for n in range(one.actors):
            if n in set(fresh):
                result.paid += place.drain_of(1) if held[n] else 0.0
            else:
                result.paid += starts[index] - last[n]
            held[n], last[n] = True, ends[index]
        result.paid += one.actors * place.slot
    result.paid += sum(held) * place.drain_of(sum(held))
    result.most = max(one.actors for one in trace)
    result.slots = result.hits = 1
    return result


def _let_go(gap: float, place: Place) -> bool:
    return gap > place.start_of(1) + place.drain_of(1)
