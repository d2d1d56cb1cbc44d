"""What a job's actor pods are now, and which of them work, wake, sleep and are replaced. Pure functions."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from nitro_api.pools.pod_resources import SLEEPING_VCPU, asleep, wanted_cpu
from nitro_operator.builders.actors import CONTAINER
from nitro_operator.kube.kinds import Object
from nitro_operator.observation.observed import alive, condition, holds, ready, terminating

DEFERRED, INFEASIBLE = "Deferred", "Infeasible"
"""Reasons of the condition with which a kubelet says that it has no room for a resize: now, or ever."""


@dataclass(frozen=True)
class PodPhases:
    """The pods of a job by their phase, in the order in which they are to work."""

    awake: list[Object] = field(default_factory=list)
    """With their whole CPU. Also those whose request somebody else has changed: they are left alone."""
    waking: list[Object] = field(default_factory=list)
    """Asked to wake, without their CPU yet."""
    falling: list[Object] = field(default_factory=list)
    """Asked to sleep, with their CPU still."""
    asleep: list[Object] = field(default_factory=list)
    starting: list[Object] = field(default_factory=list)
    """On a node and not ready yet, with their whole CPU."""
    dozing: list[Object] = field(default_factory=list)
    """On a node and not ready yet, with the request of a sleeper: they start in time that others leave."""

    @classmethod
    def of(cls, pods: Sequence[Object], cpu: float, been_ready: Collection[str] = ()) -> Self:
        """The phases of the pods. Those that are on no node, or about to go, are left out, and so are those
        that are not ready for a moment: they may work.

        Args:
            cpu: what the operator's template requests for an awake pod's actor. Unit: vCPU.
        """
        phases = cls()
        for pod in pods:
            sleeps = _equal(wanted_cpu(pod), SLEEPING_VCPU)
            if not ready(pod):
                if _starts(pod) and pod["metadata"]["uid"] not in been_ready:
                    (phases.dozing if sleeps else phases.starting).append(pod)
            elif sleeps:
                (phases.asleep if asleep(pod) else phases.falling).append(pod)
            elif _equal(wanted_cpu(pod), cpu) and asleep(pod):
                phases.waking.append(pod)
            else:
                phases.awake.append(pod)
        return phases

    @property
    def sleepers(self) -> list[Object]:
        """Ready pods whose spec says that they sleep."""
        return [*self.asleep, *self.falling]

    @property
    def resting(self) -> list[Object]:
        """All pods whose spec says that they sleep."""
        return [*self.sleepers, *self.dozing]


def _starts(pod: Object) -> bool:
    return bool((pod.get("spec") or {}).get("nodeName")) and alive(pod) and not terminating(pod)


def may_sleep(pod: Object, cpu: float) -> bool:
    """Whether an awake pod's request is the template's: another one is somebody else's wish."""
    return _equal(wanted_cpu(pod), cpu)


def restarts(pod: Object) -> bool:
    """Whether a change of its CPU would restart the actor's container."""
    containers = (pod.get("spec") or {}).get("containers") or []
    policies = next(
        (container.get("resizePolicy") or [] for container in containers if container["name"] == CONTAINER),
        [],
    )
    return any(
        policy.get("resourceName") == "cpu" and policy.get("restartPolicy") == "RestartContainer"
        for policy in policies
    )


def pending(pod: Object) -> tuple[str, str] | None:
    """Why a kubelet has not carried out a resize, as reason and message; None if it has."""
    if not holds(pod, "PodResizePending"):
        return None
    state = condition(pod, "PodResizePending") or {}
    return str(state.get("reason") or DEFERRED), str(state.get("message") or "")


def _equal(present: float | None, wanted: float) -> bool:
    return present is not None and math.isclose(present, wanted, rel_tol=1e-6)


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
    addresses come last."""
    resting = sorted([*phases.sleepers, *phases.waking], key=_age)
    return [*reversed(resting), *reversed(in_order(phases.awake, order))][: max(pods - left, 0)]


def _is_given_up(pod: Object, deferred: Mapping[str, float], patience: float) -> bool:
    waits = pending(pod)
    if waits is None:
        return False
    return waits[0] == INFEASIBLE or deferred.get(uid_of(pod), 0.0) >= patience


def uid_of(pod: Object) -> str:
    return str(pod["metadata"]["uid"])


def _age(pod: Object) -> tuple[str, str]:
    """The oldest first."""
    return pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]
