"""The platform's limits: the requests and grants of all jobs."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple, Self, TypeVar

from nitro_operator.config import Config
from nitro_operator.kube.kinds import JobKey
from nitro_operator.scaling.grants import UNLIMITED, GrantRequest, Limits, grants, reachable

T = TypeVar("T")


class Room(NamedTuple):
    """A limit that a job shares with others, and what they have taken of it."""

    limit: int
    taken: int
    """Actors that are granted, or that exist beyond all grants."""


class Platform:
    """Requests of all active jobs, and the grants that they hold.

    When a grant grows, the job holds the new one from the decision on. When a grant shrinks, the job holds
    the old one until the new one is published. So the sum of the published grants never exceeds the limit, of
    the platform and of a namespace, or the minima of running jobs if the limit was lowered below them.
    """

    @classmethod
    def of(cls, config: Config) -> Self:
        """The platform with the limits of the chart's values; 0 is no limit."""
        actors = Limits(config.platform_max_actors or UNLIMITED, config.namespace_max_actors)
        return cls(actors, Limits(config.platform_max_pods or UNLIMITED, config.namespace_max_pods))

    def __init__(self, limits: Limits, pod_limits: Limits | None = None) -> None:
        self.limits = limits
        self._pod_limits = pod_limits or Limits()
        self._pods: dict[JobKey, int] = {}
        self._requests: dict[JobKey, GrantRequest] = {}
        self._target: dict[JobKey, int] | None = None  # of the present requests
        self._held: dict[JobKey, int] = {}
        self._existing: dict[JobKey, tuple[int, int]] = {}  # actors, and those of them that are going
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

    def room(self) -> Room:
        """The platform's limit."""
        return Room(self.limits.platform, self.held + self._left().total())

    def room_in(self, namespace: str) -> Room:
        """A namespace's limit."""
        held = sum(_of(namespace, self._held).values())
        return Room(self.limits.of(namespace), held + self._left()[namespace])

    def exist(self, key: JobKey, actors: int, going: int) -> None:
        """Note the actors that a job has, and how many of them are going. Other jobs wait until they are
        gone."""
        before = self._leaving(key)
        if actors:
            self._existing[key] = actors, going
        else:
            self._existing.pop(key, None)
        if self._leaving(key) < before:
            self.version += 1

    def have_pods(self, key: JobKey, pods: int) -> None:
        """Note the pods that a job has, sleeping ones included."""
        if pods:
            self._pods[key] = pods
        else:
            self._pods.pop(key, None)

    def pods(self, key: JobKey, granted: int, wanted: int) -> int:
        """Pods that a job may have: those of its grant, and beyond them sleepers as far as there is room."""
        others = sum(pods for other, pods in self._pods.items() if other != key)
        near = sum(pods for other, pods in _of(key.namespace, self._pods).items() if other != key)
        room = min(self._pod_limits.platform - others, self._pod_limits.of(key.namespace) - near)
        return max(granted, min(wanted, room))

    def ask(
        self,
        key: JobKey,
        minimum: int,
        wanted: int,
        score: float,
        since: float,
        *,
        idle: int = 0,
        step: int = 1,
        started: bool = False,
    ) -> int:
        """Set a job's request. Returns its grant, which is a multiple of `step`.

        Args:
            minimum: its I_min. The job takes nothing until it can take that many.
            wanted: actors that it would use now.
            since: time since which it waits, or waited. Unix seconds.
            idle: actors beyond `wanted` that it would hold for later rounds.
            step: actors in a pod. The numbers above are multiples of it.
            started: whether its learner already exists.
        """
        admitted = started or self.holds(key) > 0
        request = GrantRequest(key.namespace, minimum, wanted, score, admitted, since, idle, step)
        if self._requests.get(key) != request:
            self._requests[key] = request
            self._target = None
            self.version += 1
        target = self._targets()
        left = self._left(key)
        of_all = reachable(key, target, self._held, self.limits.platform, left.total())
        namespace = key.namespace
        of_namespace = reachable(
            key,
            _of(namespace, target),
            _of(namespace, self._held),
            self.limits.of(namespace),
            left[namespace],
        )
        now = min(of_all, of_namespace) // step * step
        if now < minimum:
            now = 0
        self._held[key] = max(now, self._held.get(key, 0))
        return now

    def withdraw(self, key: JobKey) -> None:
        """Withdraw a job's request. The job holds its grant until its status says that it has none."""
        if self._requests.pop(key, None) is not None:
            self._target = None
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
        target = self._targets()
        moves = {key: target[key] - self._held.get(key, 0) for key in target}
        return [key for key in sorted(moves, key=lambda k: moves[k]) if moves[key] != 0]

    def _leaving(self, key: JobKey) -> int:
        """A job's actors that other jobs must wait for: those beyond its grant, or that are going."""
        actors, going = self._existing.get(key, (0, 0))
        return max(going, actors - self.holds(key), 0)

    def _left(self, asking: JobKey | None = None) -> Counter[str]:
        """Actors that exist beyond the grants, by namespace, for a job that asks for its own.

        Of a namespace they are at most as many as it could still be granted: whoever may create pods there
        can make any number that look like actors, and must not keep other namespaces waiting. A job that asks
        can use its own surplus, except actors that are going.
        """
        held, left = Counter[str](), Counter[str]()
        for key, actors in self._held.items():
            held[key.namespace] += actors
        for key, (_, going) in self._existing.items():
            left[key.namespace] += going if key == asking else self._leaving(key)
        for namespace in left:
            left[namespace] = min(left[namespace], max(self.limits.of(namespace) - held[namespace], 0))
        return left

    def _targets(self) -> Mapping[JobKey, int]:
        if self._target is None:
            self._target = grants(self._requests, self.limits)
        return self._target


def _of(namespace: str, values: Mapping[JobKey, T]) -> dict[JobKey, T]:
    """The entries of one namespace's jobs."""
    return {key: value for key, value in values.items() if key.namespace == namespace}
