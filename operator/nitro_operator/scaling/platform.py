"""The platform's limit: the requests and grants of all jobs."""

from __future__ import annotations

from nitro_operator.kube.kinds import JobKey
from nitro_operator.scaling.grants import UNLIMITED, GrantRequest, grants, settled


class Platform:
    """Requests of all active jobs, and the grants that they hold.

    When a grant grows, the job holds the new one from the decision on. When a grant shrinks, the job holds
    the old one until the new one is published. So the sum of the published grants never exceeds the limit, or
    the minima of running jobs if the limit was lowered below them.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._requests: dict[JobKey, GrantRequest] = {}
        self._held: dict[JobKey, int] = {}
        self._leaving: dict[JobKey, int] = {}
        self.version = 0
        """Number that grows whenever grants of other jobs may have to change."""

    @property
    def held(self) -> int:
        return sum(self._held.values())

    def seen(self, key: JobKey, published: int) -> None:
        """Note a job's published grant, as it was found at the start."""
        self._held.setdefault(key, published)

    def holds(self, key: JobKey) -> int:
        return self._held.get(key, 0)

    @property
    def leaving(self) -> int:
        """Actors that exist beyond all grants: their pods are being removed."""
        return sum(self._leaving.values())

    def exist(self, key: JobKey, actors: int, going: int) -> None:
        """Note the actors that a job has, and how many of them are going. Other jobs wait until they are
        gone."""
        left = max(going, actors - self.holds(key), 0)
        if left < self._leaving.get(key, 0):
            self.version += 1
        if left:
            self._leaving[key] = left
        else:
            self._leaving.pop(key, None)

    def ask(
        self,
        key: JobKey,
        minimum: int,
        wanted: int,
        score: float,
        since: str,
        *,
        idle: int = 0,
        started: bool = False,
    ) -> int:
        """Set a job's request. Returns its grant.

        Args:
            key: the job.
            minimum: its I_min.
            wanted: actors that it would use now.
            score: its boosting score.
            since: its creation time.
            idle: actors beyond `wanted` that it would hold for later rounds.
            started: whether its learner already exists.
        """
        admitted = started or self.holds(key) > 0
        request = GrantRequest(minimum, wanted, score, admitted=admitted, since=since, idle=idle)
        if self._requests.get(key) != request:
            self._requests[key] = request
            self.version += 1
        target = grants(self._requests, self.limit)
        now = settled(key, request.minimum, target, self._held, self.limit, self.leaving)
        self._held[key] = max(now, self._held.get(key, 0))
        return now

    def withdraw(self, key: JobKey) -> None:
        """Withdraw a job's request. The job holds its grant until its status says that it has none."""
        if self._requests.pop(key, None) is not None:
            self.version += 1

    def published(self, key: JobKey, granted: int) -> None:
        """Note that a job's status has this grant now."""
        if granted < self.holds(key):
            self.version += 1
        self._held[key] = granted

    def forget(self, key: JobKey) -> None:
        """Remove a deleted job."""
        self.withdraw(key)
        self.published(key, 0)
        del self._held[key]

    def unsettled(self) -> list[JobKey]:
        """Jobs whose grant should change, those with a smaller grant first."""
        if self.limit == UNLIMITED:
            return []
        target = grants(self._requests, self.limit)
        moves = {key: target[key] - self._held.get(key, 0) for key in target}
        return [key for key in sorted(moves, key=lambda k: moves[k]) if moves[key] != 0]
