"""What a job's actor pods are now: awake, asleep, or on the way; and which of them start."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

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
    def of(cls, pods: Sequence[Object], cpu: float, been_ready: Collection[str] = ()) -> PodPhases:
        """The phases of the pods. Those that are on no node, or about to go, are left out, and so are those
        that are not ready for a moment: they may work.

        Args:
            pods: of the job.
            cpu: what the operator's template requests for an awake pod's actor. Unit: vCPU.
            been_ready: uids of the pods that have been ready.
        """
        found = cls()
        for pod in pods:
            sleeps = _equal(wanted_cpu(pod), SLEEPING_VCPU)
            if not ready(pod):
                if _starts(pod) and pod["metadata"]["uid"] not in been_ready:
                    (found.dozing if sleeps else found.starting).append(pod)
            elif sleeps:
                (found.asleep if asleep(pod) else found.falling).append(pod)
            elif _equal(wanted_cpu(pod), cpu) and asleep(pod):
                found.waking.append(pod)
            else:
                found.awake.append(pod)
        return found

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
    policies = next((one.get("resizePolicy") or [] for one in containers if one["name"] == CONTAINER), [])
    return any(
        one.get("resourceName") == "cpu" and one.get("restartPolicy") == "RestartContainer"
        for one in policies
    )


def pending(pod: Object) -> tuple[str, str] | None:
    """Why a kubelet has not carried out a resize, as reason and message; None if it has."""
    if not holds(pod, "PodResizePending"):
        return None
    found = condition(pod, "PodResizePending") or {}
    return str(found.get("reason") or DEFERRED), str(found.get("message") or "")


def _equal(found: float | None, wanted: float) -> bool:
    return found is not None and math.isclose(found, wanted, rel_tol=1e-6)
