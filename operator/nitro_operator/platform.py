"""The platform's limit, shared between jobs: who asks, who holds what."""

from __future__ import annotations

from nitro_operator.grants import UNLIMITED, Request, grants, settled
from nitro_operator.kinds import JobKey


class Platform:
    """Requests of all active jobs, and the grants that they hold.

    A job holds what its status says or is about to say: a grant that grows is held from the moment it is
    decided, one that shrinks until the smaller number is published. So what is published never adds up to
    more than the limit, or than the minima of the jobs that ran already when it was lowered.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._requests: dict[JobKey, Request] = {}
        self._held: dict[JobKey, int] = {}
        self.version = 0
        """Grows whenever other jobs' grants may have to change."""

    @property
    def held(self) -> int:
        return sum(self._held.values())

    def seen(self, key: JobKey, published: int) -> None:
        """A job's published grant, as it was found at the start."""
        self._held.setdefault(key, published)

    def holds(self, key: JobKey) -> int:
        return self._held.get(key, 0)

    def ask(
        self, key: JobKey, minimum: int, wanted: int, score: float, since: str, *, started: bool = False
    ) -> int:
        """Set a job's request; returns what it may have now. `started`: its learner is there already."""
        admitted = started or self.holds(key) > 0
        request = Request(minimum, wanted, score, admitted=admitted, since=since)
        if self._requests.get(key) != request:
            self._requests[key] = request
            self.version += 1
        target = grants(self._requests, self.limit)
        now = settled(key, request.minimum, target, self._held, self.limit)
        self._held[key] = max(now, self._held.get(key, 0))
        return now

    def withdraw(self, key: JobKey) -> None:
        """A job asks for nothing more; it holds its grant until it has published that it has none."""
        if self._requests.pop(key, None) is not None:
            self.version += 1

    def published(self, key: JobKey, granted: int) -> None:
        """A job's status now says so."""
        if granted < self.holds(key):
            self.version += 1
        self._held[key] = granted

    def forget(self, key: JobKey) -> None:
        """A job is gone."""
        self.withdraw(key)
        self.published(key, 0)
        del self._held[key]

    def unsettled(self) -> list[JobKey]:
        """Jobs whose grant should be another than they hold: those that shrink first."""
        if self.limit == UNLIMITED:
            return []
        target = grants(self._requests, self.limit)
        moves = {key: target[key] - self._held.get(key, 0) for key in target}
        return [key for key in sorted(moves, key=lambda k: moves[k]) if moves[key] != 0]
