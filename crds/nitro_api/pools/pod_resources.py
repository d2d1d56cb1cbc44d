"""The CPU and memory that a pod takes from its node now: its requests can change while it runs.

The scheduler, quotas and bills of clouds count requests. While a kubelet has not carried out a change, the
scheduler counts the larger of what is wanted and what still holds, and so do these functions. They take pods
as the API server has them.
"""

from collections.abc import Mapping
from typing import Any

from nitro_api.quantities import amount_of

Pod = Mapping[str, Any]
ACTOR = "actor"
"""Name of the container that sleeps."""
SLEEPING_CPU = "1m"
"""What a sleeping actor requests, the least that Kubernetes knows."""
SLEEPING_VCPU = amount_of(SLEEPING_CPU)


def cpu_of(pod: Pod) -> float:
    """CPU that a pod requests, with the containers that others have put into it. Unit: vCPU."""
    return sum(_counted(pod, container, "cpu") for container in _wanted(pod))


def memory_of(pod: Pod) -> float:
    """Memory that a pod requests, likewise. Unit: bytes."""
    return sum(_counted(pod, container, "memory") for container in _wanted(pod))


def asleep(pod: Pod) -> bool:
    """Whether a pod's actor has no more CPU than a sleeper: the kubelet has granted it no more, or has taken
    it back. What its spec requests counts while the kubelet has not said what it has granted."""
    granted = _granted(pod, ACTOR, "cpu")
    if granted is None:
        return to_sleep(pod)
    return granted <= SLEEPING_VCPU


def to_sleep(pod: Pod) -> bool:
    """Whether a pod's spec requests no more CPU for its actor than a sleeper has."""
    wanted = wanted_cpu(pod)
    return wanted is not None and wanted <= SLEEPING_VCPU


def wanted_cpu(pod: Pod) -> float | None:
    """CPU that a pod's spec requests for its actor; None where it requests none. Unit: vCPU."""
    return next(
        (
            _amount(_requests(container).get("cpu"))
            for container in _wanted(pod)
            if container["name"] == ACTOR
        ),
        None,
    )


def _wanted(pod: Pod) -> list[Mapping[str, Any]]:
    containers: list[Mapping[str, Any]] = (pod.get("spec") or {}).get("containers") or []
    return containers


def _counted(pod: Pod, wanted: Mapping[str, Any], resource: str) -> float:
    spec = _amount(_requests(wanted).get(resource)) or 0.0
    return max(spec, _granted(pod, wanted["name"], resource) or 0.0)


def _granted(pod: Pod, name: str, resource: str) -> float | None:
    """The most that a kubelet reports for a container: what it has set aside, and what is in force."""
    pod_status = pod.get("status") or {}
    statuses = [
        *(pod_status.get("initContainerStatuses") or []),
        *(pod_status.get("containerStatuses") or []),
    ]
    status: Mapping[str, Any] = next((container for container in statuses if container["name"] == name), {})
    amounts = [(status.get("allocatedResources") or {}).get(resource), _requests(status).get(resource)]
    return max((amount for amount in map(_amount, amounts) if amount is not None), default=None)


def _requests(of: Mapping[str, Any]) -> Mapping[str, Any]:
    return (of.get("resources") or {}).get("requests") or {}


def _amount(quantity: int | str | None) -> float | None:
    """A quantity as a number; None where there is none that can be read."""
    try:
        return None if quantity is None else amount_of(quantity)
    except ValueError:
        return None
