"""Objects without what nobody reads: thousands of large jobs and pods must fit into the memory limit."""

from collections.abc import Callable
from typing import Any

from pydantic_core import from_json, to_json

from nitro_operator.kube.kinds import POD, TRAINING_JOB, Kind, Object
from nitro_operator.kube.names import FIELD_MANAGER

STATUS_WRITTEN_AT = "statusWrittenAt"
"""Key in a job's metadata: the time of the operator's last status change, by the API server's clock."""
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""Annotation in which `kubectl apply` keeps a copy of the whole object."""
ANY_JSON = (
    ("environment", "kwargs"),
    ("algorithm", "rllib"),
    ("algorithm", "settings"),
    ("scaling", "settings"),
    ("network", "settings"),
)
"""Fields of a job's spec that take any JSON. As Python's objects they may need twenty times the memory."""

PRICED = ("cpu", "memory")
"""Requests of a pod's containers that cost money."""


def slim(kind: Kind, obj: Object) -> Object:
    """The object as it is kept. An object that is slim already stays the same."""
    if STATUS_WRITTEN_AT in obj["metadata"]:
        return obj
    kept = {key: value for key, value in obj.items() if key != "metadata"}
    kept["metadata"] = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    annotations = obj["metadata"].get("annotations") or {}
    if LAST_APPLIED in annotations:
        rest = {name: value for name, value in annotations.items() if name != LAST_APPLIED}
        kept["metadata"]["annotations"] = rest
    if kind is TRAINING_JOB:
        kept["metadata"][STATUS_WRITTEN_AT] = _status_written_at(obj)
        kept["spec"] = _changed(obj.get("spec"), to_json)
    if kind is POD:
        kept["spec"] = _pod_spec(obj.get("spec") or {})
    return kept


def _pod_spec(spec: Object) -> Object:
    """Where a pod runs, and what its containers request. A container that ends before the others start takes
    no room of its own, so of the init containers only those are kept that go on."""
    goes_on = [
        container
        for container in spec.get("initContainers") or []
        if container.get("restartPolicy") == "Always"
    ]
    return {
        "nodeName": spec.get("nodeName"),
        "containers": [_container(container) for container in [*goes_on, *(spec.get("containers") or [])]],
    }


def _container(container: Object) -> Object:
    slimmed = {"name": container["name"]}
    requests = (container.get("resources") or {}).get("requests") or {}
    kept = {name: requests[name] for name in PRICED if name in requests}
    if kept:
        slimmed["resources"] = {"requests": kept}
    if container.get("resizePolicy"):
        slimmed["resizePolicy"] = container["resizePolicy"]
    return slimmed


def whole_spec(job: Object) -> Object:
    """The spec of a job with all its fields as they were stored."""
    spec: Object = _changed(job["spec"], lambda kept: from_json(kept) if isinstance(kept, bytes) else kept)
    return spec


def _changed(spec: Any, change: Callable[[Any], Any]) -> Any:
    """A copy of the spec in which the fields of ANY_JSON are changed."""
    if not isinstance(spec, dict):
        return spec
    kept = dict(spec)
    for section, name in ANY_JSON:
        part = kept.get(section)
        if isinstance(part, dict) and name in part:
            kept[section] = {**part, name: change(part[name])}
    return kept


def _status_written_at(job: Object) -> str | None:
    entries = job["metadata"].get("managedFields") or []
    mine = (e for e in entries if e.get("manager") == FIELD_MANAGER and e.get("subresource") == "status")
    return max((e["time"] for e in mine if e.get("time")), default=None)
