"""How many actors each job may have when the platform's limit does not allow for all.

Minimum first, so that nobody is starved; then most score first, because there an actor teaches most.
A job that runs keeps its minimum until it ends, also where the limit was lowered below what runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

K = TypeVar("K")

UNLIMITED = 0
"""A limit of 0 means none."""


@dataclass(frozen=True)
class Request:
    """What one active job asks for."""

    minimum: int
    """Fewest actors with which a round is possible (I_min)."""
    wanted: int
    """Actors that it would use now; below `minimum` counts as `minimum`."""
    score: float
    """S_k of its last round; 1 before the first."""
    admitted: bool
    """Whether it holds a grant, or runs, already: such a job keeps its minimum, whatever the limit is."""
    since: str
    """Creation time, RFC 3339: of jobs that wait the oldest is first."""


def grants(requests: Mapping[K, Request], limit: int) -> dict[K, int]:
    """Divide `limit` actors between jobs.

    Returns:
        For each job 0 (it waits) or a number from its minimum to what it wants. The sum is at most `limit`,
        or what the admitted need at least, if that is more. A waiting job is never overtaken by a younger
        one, except if its minimum alone exceeds the limit.
    """
    if limit == UNLIMITED:
        return {key: max(r.minimum, r.wanted) for key, r in requests.items()}
    granted = dict.fromkeys(requests, 0)
    left = limit
    for key in _queue(requests):
        minimum = requests[key].minimum
        if not requests[key].admitted:
            if minimum > limit:
                continue  # it can never run here: nobody waits behind it
            if minimum > left:
                break
        granted[key] = minimum
        left -= minimum
    for key in _by_score(requests):
        if granted[key]:
            more = max(0, min(requests[key].wanted - granted[key], left))
            granted[key] += more
            left -= more
    return granted


def settled(key: K, minimum: int, target: Mapping[K, int], held: Mapping[K, int], limit: int) -> int:
    """The part of its target that a job may take now.

    A grant that shrinks is effective at once, one that grows only as far as other jobs have given theirs
    back, so that what all jobs hold together never exceeds the limit (or what the admitted need at least),
    in no observation.

    Args:
        key: the job.
        minimum: its I_min; less than that is of no use, so it takes nothing yet.
        target: what `grants` gave.
        held: what each job holds according to its published status.
        limit: the platform's limit.
    """
    mine = target.get(key, 0)
    if limit == UNLIMITED or mine <= held.get(key, 0):
        return mine
    others = sum(number for other, number in held.items() if other != key)
    room = max(limit, sum(target.values()))  # targets are above the limit only by what the admitted need
    reachable = max(held.get(key, 0), min(mine, room - others))
    return reachable if reachable >= minimum else 0


def _queue(requests: Mapping[K, Request]) -> Iterable[K]:
    return sorted(requests, key=lambda k: (not requests[k].admitted, requests[k].since, repr(k)))


def _by_score(requests: Mapping[K, Request]) -> Iterable[K]:
    return sorted(requests, key=lambda k: (-requests[k].score, requests[k].since, repr(k)))
