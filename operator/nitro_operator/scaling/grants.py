"""The number of actors that each job may have under the platform's limit.

Every job gets its minimum first, so that none starves. The rest goes to the highest scores first, because an
actor helps these jobs most. The actors that are still left are held idle for later rounds. A running job
keeps its minimum until it ends, even if the limit was lowered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

K = TypeVar("K")

UNLIMITED = 0
"""A limit of 0 means none."""


@dataclass(frozen=True)
class GrantRequest:
    """The request of one active job."""

    minimum: int
    """Fewest actors with which a round is possible (I_min)."""
    wanted: int
    """Actors that it would use now; a number below `minimum` counts as `minimum`."""
    score: float
    """S_k of its last round; 1 before the first."""
    admitted: bool
    """Whether it runs or holds a grant. Such a job keeps its minimum under any limit."""
    since: str
    """Creation time, RFC 3339. The oldest waiting job is first."""
    idle: int = 0
    """Actors beyond `wanted` that it would hold for later rounds. They give way to any job's use."""

    @property
    def held(self) -> int:
        return self.wanted + self.idle


def grants(requests: Mapping[K, GrantRequest], limit: int) -> dict[K, int]:
    """Divide `limit` actors between jobs.

    Returns:
        For each job 0 (it waits) or a number from its minimum to what it would hold. The sum is at most
        `limit`, or the sum of the minima of admitted jobs, if that is more. A younger job never overtakes a
        waiting one, except one whose minimum alone exceeds the limit.
    """
    if limit == UNLIMITED:
        return {key: max(r.minimum, r.wanted, r.held) for key, r in requests.items()}
    granted = dict.fromkeys(requests, 0)
    left = limit
    for key in _queue(requests):
        minimum = requests[key].minimum
        if not requests[key].admitted:
            if minimum > limit:
                continue  # it can never run here, so no other job waits for it
            if minimum > left:
                break
        granted[key] = minimum
        left -= minimum
    for most in ({k: r.wanted for k, r in requests.items()}, {k: r.held for k, r in requests.items()}):
        for key in _by_score(requests):
            if granted[key]:
                more = max(0, min(most[key] - granted[key], left))
                granted[key] += more
                left -= more
    return granted


def settled(
    key: K, minimum: int, target: Mapping[K, int], held: Mapping[K, int], limit: int, leaving: int = 0
) -> int:
    """The part of its target that a job may take now.

    A smaller grant holds at once. A larger grant waits until other jobs have returned theirs, and until
    actors that are going are gone. So at any time the jobs together hold at most the limit, or the sum of the
    minima of admitted jobs if that is more.

    Args:
        key: the job.
        minimum: its I_min. The job takes nothing until it can take that many.
        target: the result of `grants`.
        held: what each job holds according to its published status.
        limit: the platform's limit.
        leaving: actors that exist beyond what is held. They never take a grant away.
    """
    mine = target.get(key, 0)
    if limit == UNLIMITED or mine <= held.get(key, 0):
        return mine
    others = sum(number for other, number in held.items() if other != key)
    room = max(limit, sum(target.values()))  # only the minima of admitted jobs can exceed the limit
    reachable = max(held.get(key, 0), min(mine, room - others - leaving))
    return reachable if reachable >= minimum else 0


def _queue(requests: Mapping[K, GrantRequest]) -> Iterable[K]:
    return sorted(requests, key=lambda k: (not requests[k].admitted, requests[k].since, repr(k)))


def _by_score(requests: Mapping[K, GrantRequest]) -> Iterable[K]:
    return sorted(requests, key=lambda k: (-requests[k].score, requests[k].since, repr(k)))
