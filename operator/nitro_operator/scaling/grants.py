"""The number of actors that each job may have under the limits of the platform and of its namespaces.

A job that runs keeps its minimum until it ends, even if a limit was lowered. Waiting jobs get their minimum
in turn: the longer a job waits, the earlier, and the more actors its namespace has, the later. The rest is
divided evenly between namespaces, because jobs report their scores themselves, and a false score must not
harm others. Within a namespace it goes to the highest scores first, because an actor helps these jobs most.
The actors that are still left are held idle for later rounds.
"""

import heapq
import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

K = TypeVar("K")

UNLIMITED = 2**31
"""More actors than any cluster has."""
ANY_NAMESPACE = "*"
"""Stands in the limits for every namespace that is not named."""
BACKFILL_SECONDS = 600.0
"""A job that does not fit yet may be passed by jobs whose turn is at most this much later. So it is never
passed for ever."""
SHARE_SECONDS = 3600.0
"""Turns of a namespace that holds all actors are this much later; of one that holds half of them, half."""


@dataclass(frozen=True)
class Limits:
    """The most actors that jobs may have together."""

    platform: int = UNLIMITED
    namespaces: Mapping[str, int] = field(default_factory=dict)

    def of(self, namespace: str) -> int:
        named = self.namespaces.get(namespace, self.namespaces.get(ANY_NAMESPACE, UNLIMITED))
        return min(named, self.platform)


@dataclass(frozen=True)
class GrantRequest:
    """The request of one active job."""

    namespace: str
    minimum: int
    """Fewest actors with which a round is possible (I_min)."""
    wanted: int
    """Actors that it would use now; a number below `minimum` counts as `minimum`."""
    score: float
    """S_k of its last round; 1 before the first."""
    admitted: bool
    """Whether it runs or holds a grant. Such a job keeps its minimum under any limit."""
    since: float
    """Time since which it waits, or waited. Unix seconds."""
    idle: int = 0
    """Actors beyond `wanted` that it would hold for later rounds. They give way to any job's use."""
    step: int = 1
    """Actors in a pod, which come and go together. All numbers of the request are multiples of it."""

    @property
    def held(self) -> int:
        return self.wanted + self.idle


def grants(requests: Mapping[K, GrantRequest], limits: Limits) -> dict[K, int]:
    """Divide the platform's actors between jobs.

    Returns:
        For each job 0 (it waits) or a number from its minimum to what it would hold, in whole pods. The sum
        is at most the limit, of the platform and of each namespace, or the sum of the minima of admitted
        jobs, if that is more.
    """
    granted = {key: r.minimum if r.admitted else 0 for key, r in requests.items()}
    _admit(requests, granted, limits)
    _divide(requests, granted, {key: r.wanted for key, r in requests.items()}, limits)
    _divide(requests, granted, {key: r.held for key, r in requests.items()}, limits)
    return granted


def reachable(key: K, target: Mapping[K, int], held: Mapping[K, int], limit: int, leaving: int) -> int:
    """The part of its target that a job may take now, among the jobs that share a limit.

    A smaller grant holds at once. A larger grant waits until other jobs have returned theirs, and until
    actors that are going are gone. So at any time the jobs together hold at most the limit, or the sum of the
    minima of admitted jobs if that is more.

    Args:
        target: the result of `grants`, of these jobs.
        held: what each of them holds according to its published status.
        leaving: actors that exist beyond what is held. They never take a grant away.
    """
    mine = target.get(key, 0)
    if mine <= held.get(key, 0):
        return mine
    others = sum(number for other, number in held.items() if other != key)
    room = max(limit, sum(target.values()))  # only the minima of admitted jobs can exceed the limit
    return max(held.get(key, 0), min(mine, room - others - leaving))


def _admit(requests: Mapping[K, GrantRequest], granted: dict[K, int], limits: Limits) -> None:
    """Grant waiting jobs their minimum, in turn."""
    waiting: dict[str, list[K]] = defaultdict(list)
    for key in sorted(requests, key=lambda k: (requests[k].since, repr(k)), reverse=True):
        request = requests[key]
        # A job that can never run here is passed by all.
        if not request.admitted and request.minimum <= limits.of(request.namespace):
            waiting[request.namespace].append(key)
    used = _used(requests, granted)
    left = limits.platform - used.total()

    def turn(key: K) -> float:
        request = requests[key]
        return request.since + SHARE_SECONDS * used[request.namespace] / limits.platform

    closed = math.inf  # later turns have to wait: of all jobs,
    closed_in: dict[str, float] = {}  # and of a namespace
    heads = [(turn(queue[-1]), repr(queue[-1]), namespace) for namespace, queue in waiting.items()]
    heapq.heapify(heads)
    while heads and left > 0:
        now, _, namespace = heapq.heappop(heads)  # in the order of turns: those of a namespace only grow
        if now > closed:
            return
        if now > closed_in.get(namespace, math.inf):
            continue
        key = waiting[namespace].pop()
        minimum = requests[key].minimum
        if minimum > limits.of(namespace) - used[namespace]:
            closed_in.setdefault(namespace, now + BACKFILL_SECONDS)
        elif minimum > left:
            closed = min(closed, now + BACKFILL_SECONDS)
        else:
            granted[key] = minimum
            used[namespace] += minimum
            left -= minimum
        if waiting[namespace]:
            following = waiting[namespace][-1]
            heapq.heappush(heads, (turn(following), repr(following), namespace))


def _divide(
    requests: Mapping[K, GrantRequest], granted: dict[K, int], most: Mapping[K, int], limits: Limits
) -> None:
    """Raise the grants towards `most`: evenly between namespaces, by score within each."""
    used = _used(requests, granted)
    left = limits.platform - used.total()
    if left <= 0:
        return
    hungry = [key for key in _by_score(requests) if 0 < granted[key] < most[key]]
    tops = Counter(used)
    for key in hungry:
        tops[requests[key].namespace] += most[key] - granted[key]
    tops = Counter({name: max(used[name], min(top, limits.of(name))) for name, top in tops.items()})
    shares = _even(used, tops, left)
    for key in hungry:
        namespace, step = requests[key].namespace, requests[key].step
        more = min(most[key] - granted[key], shares[namespace] - used[namespace]) // step * step
        granted[key] += more
        used[namespace] += more


def _even(bases: Mapping[str, int], tops: Mapping[str, int], left: int) -> dict[str, int]:
    """Divide `left` by max-min fairness: who has least gets first, until all have their top.

    Args:
        bases: what each has already.
        tops: what each may have in all, at least its base.
        left: how much is to be added.

    Returns:
        What each has then.
    """

    def raised(level: int) -> dict[str, int]:
        return {name: min(max(level, bases[name]), top) for name, top in tops.items()}

    def cost(level: int) -> int:
        return sum(raised(level).values()) - sum(bases.values())

    level = bisect_right(range(max(tops.values(), default=0) + 1), left, key=cost) - 1
    targets = raised(level)
    rising = sorted(name for name, number in targets.items() if number == level < tops[name])
    for name in rising[: left - cost(level)]:
        targets[name] += 1
    return targets


def _used(requests: Mapping[K, GrantRequest], granted: Mapping[K, int]) -> Counter[str]:
    """The granted actors of each namespace."""
    used: Counter[str] = Counter()
    for key, number in granted.items():
        used[requests[key].namespace] += number
    return used


def _by_score(requests: Mapping[K, GrantRequest]) -> Iterable[K]:
    return sorted(requests, key=lambda k: (-requests[k].score, requests[k].since, repr(k)))
