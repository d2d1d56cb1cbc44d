"""What a job's ready actor pods are now: awake, asleep, or on the way."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from nitro_api.pools.pod_resources import SLEEPING_VCPU, asleep, wanted_cpu
from nitro_operator.builders.actors import CONTAINER
from nitro_operator.kube.kinds import Object
from nitro_operator.observation.observed import condition, holds, ready

DEFERRED, INFEASIBLE = "Deferred", "Infeasible"
"""Reasons of the condition with which a kubelet says that it has no room for a resize: now, or ever."""


@dataclass(frozen=True)
class PodPhases:
    """The ready pods of a job by their phase, in the order in which they are to work."""

    awake: list[Object] = field(default_factory=list)
    """With their whole CPU. Also those whose request somebody else has changed: they are left alone."""
    waking: list[Object] = field(default_factory=list)
    """Asked to wake, without their CPU yet."""
    falling: list[Object] = field(default_factory=list)
    """Asked to sleep, with their CPU still."""
    asleep: list[Object] = field(default_factory=list)

    @classmethod
    def of(cls, pods: Sequence[Object], cpu: float) -> PodPhases:
        """The phases of the pods, those that are not ready left out.

        Args:
            pods: of the job.
            cpu: what the operator's template requests for an awake pod's actor. Unit: vCPU.
        """
        found = cls()
        for pod in filter(ready, pods):
            wanted = wanted_cpu(pod)
            if _equal(wanted, SLEEPING_VCPU):
                (found.asleep if asleep(pod) else found.falling).append(pod)
            elif _equal(wanted, cpu) and asleep(pod):
                found.waking.append(pod)
            else:
                found.awake.append(pod)
        return found

    @property
    def sleepers(self) -> list[Object]:
        """Pods whose spec says that they sleep."""
        return [*self.asleep, *self.falling]


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
