"""Which pods of a job work, wake, sleep and are replaced: a pure function of what they are now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from nitro_operator.kube.kinds import Object
from nitro_operator.sleeping.phases import INFEASIBLE, PodPhases, may_sleep, pending


@dataclass(frozen=True)
class Target:
    """What the pods of a job are to be."""

    awake: int
    """Pods to be awake."""
    working: int
    """Pods on which the learner may have work: the first of the addresses. None of them is put to sleep."""
    cpu: float
    """Request of an awake pod's actor, by the operator's template. Unit: vCPU."""
    patience: float
    """Seconds after which a wake that its node defers is given up: what another pod takes."""


@dataclass(frozen=True)
class Plan:
    """What is to be done with a job's pods."""

    order: list[Object] = field(default_factory=list)
    """Awake pods in the order of the addresses."""
    published: list[Object] = field(default_factory=list)
    """The first of them, to which the learner sends its work."""
    sleep: list[Object] = field(default_factory=list)
    wake: list[Object] = field(default_factory=list)
    replace: list[Object] = field(default_factory=list)
    """Pods whose wake their nodes have no room for."""


def plan(
    phases: PodPhases,
    order: Sequence[str],
    target: Target,
    deferred: Mapping[str, float],
) -> Plan:
    """What is to be done.

    Args:
        phases: of the pods that the job's Revision owns. Others are never used nor changed.
        order: uids of the pods that were awake, in the order of their addresses. A pod that was woken since
            then comes after them, so no address ever gets a later place.
        target: what they are to be.
        deferred: uid of a pod -> seconds for which its wake has been deferred.
    """
    awake = in_order(phases.awake, order)
    waking = sorted(phases.waking, key=_age)
    kept = max(target.awake, target.working)
    surplus = max(len(awake) + len(waking) - kept, 0)
    back = waking[len(waking) - min(surplus, len(waking)) :]
    missing = max(target.awake - len(awake) - len(waking), 0)
    sleepers = sorted(phases.sleepers, key=_age)
    # Those that start are ready later than a sleeper wakes, so they come last.
    starting, dozing = sorted(phases.starting, key=_age), sorted(phases.dozing, key=_age)
    due = max(missing - len(sleepers), 0)
    given_up = [pod for pod in waking if _is_given_up(pod, deferred, target.patience)]
    lacking = max(target.working - len(awake), 0)
    return Plan(
        order=awake,
        published=awake[: target.awake],
        sleep=[pod for pod in [*awake[kept:], *back, *starting[due:]] if may_sleep(pod, target.cpu)],
        wake=[*sleepers[:missing], *dozing[: max(due - len(starting), 0)]],
        replace=given_up[:lacking],
    )


def in_order(pods: Iterable[Object], order: Sequence[str]) -> list[Object]:
    """The pods in the order of their addresses, then those without one, the oldest first."""
    places = {uid: place for place, uid in enumerate(order)}
    return sorted(pods, key=lambda pod: (places.get(uid_of(pod), len(places)), *_age(pod)))


def addresses(pods: Iterable[Object]) -> list[str]:
    """Of those pods that have one yet."""
    return [pod["status"]["podIP"] for pod in pods if pod["status"].get("podIP")]


def first_to_go(phases: PodPhases, order: Sequence[str], pods: int, left: int) -> list[Object]:
    """The pods that should go when a ReplicaSet gives up some: sleepers, the youngest first, then those whose
    addresses come last.

    Args:
        phases: of the pods.
        order: uids of the awake pods, in the order of their addresses.
        pods: number that exist.
        left: number that stay.
    """
    resting = sorted([*phases.sleepers, *phases.waking], key=_age)
    return [*reversed(resting), *reversed(in_order(phases.awake, order))][: max(pods - left, 0)]


def _is_given_up(pod: Object, deferred: Mapping[str, float], patience: float) -> bool:
    waits = pending(pod)
    if waits is None:
        return False
    return waits[0] == INFEASIBLE or deferred.get(uid_of(pod), 0.0) >= patience


def uid_of(pod: Object) -> str:
    uid: str = pod["metadata"]["uid"]
    return uid


def _age(pod: Object) -> tuple[str, str]:
    """The oldest first."""
    return pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]
