"""The CPU and memory that a pod takes from its node now: its requests can change while it runs.

The scheduler, quotas and bills of clouds count requests. While a kubelet has not carried out a change, the
scheduler counts the larger of what is wanted and what still holds, and so do these functions.
"""

from __future__ import annotations

from nitro_api.spec.quantities import amount_of
from nitro_operator.builders.actors import CONTAINER
from nitro_operator.kube.kinds import Object
from nitro_operator.observation.observed import container

SLEEPING_CPU = "1m"
"""What a sleeping actor requests, the least that Kubernetes knows."""
SLEEPING_VCPU = amount_of(SLEEPING_CPU)


def cpu_of(pod: Object) -> float:
    """CPU that a pod requests, with the containers that others have put into it. Unit: vCPU."""
    return sum(_counted(pod, one, "cpu") for one in _wanted(pod))


def memory_of(pod: Object) -> float:
    """Memory that a pod requests, likewise. Unit: bytes."""
    return sum(_counted(pod, one, "memory") for one in _wanted(pod))


def asleep(pod: Object) -> bool:
    """Whether a pod's actor has no more CPU than a sleeper: the kubelet has granted it no more, or has taken
    it back."""
    granted = granted_cpu(pod)
    return granted is not None and granted <= SLEEPING_VCPU


def granted_cpu(pod: Object) -> float | None:
    """CPU that the kubelet has set aside for a pod's actor; None while it has not said so. Unit: vCPU."""
    found = _said(pod, CONTAINER, "cpu")
    return found if found is not None else wanted_cpu(pod)


def wanted_cpu(pod: Object) -> float | None:
    """CPU that a pod's spec requests for its actor; None where it requests none. Unit: vCPU."""
    return next(
        (_amount(_requests(one).get("cpu")) for one in _wanted(pod) if one["name"] == CONTAINER), None
    )


def _wanted(pod: Object) -> list[Object]:
    found: list[Object] = (pod.get("spec") or {}).get("containers") or []
    return found


def _counted(pod: Object, wanted: Object, resource: str) -> float:
    spec = _amount(_requests(wanted).get(resource)) or 0.0
    return max(spec, _said(pod, wanted["name"], resource) or 0.0)


def _said(pod: Object, name: str, resource: str) -> float | None:
    """The most that a kubelet reports for a container: what it has set aside, and what is in force."""
    status = container(pod, name) or {}
    said = [(status.get("allocatedResources") or {}).get(resource), _requests(status).get(resource)]
    return max((one for one in map(_amount, said) if one is not None), default=None)


def _requests(of: Object) -> Object:
    return (of.get("resources") or {}).get("requests") or {}


def _amount(quantity: int | str | None) -> float | None:
    """A quantity as a number; None where there is none that can be read."""
    try:
        return None if quantity is None else amount_of(quantity)
    except ValueError:
        return None
