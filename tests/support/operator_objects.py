"""Jobs and children as the API would hand them out."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nitro_api import load_job, resolve
from nitro_operator.builders import JobView
from nitro_operator.config import Config
from nitro_operator.observation.learner_pods import LearnerPods
from nitro_operator.observation.observed import Observed

Object = dict[str, Any]
UID = "0f8fad5b-d9cb-469f-a165-70867728950e"
SERVER_NOW = datetime(2026, 1, 1, 1, 0, 0, tzinfo=UTC)
OWNER: Object = {"kind": "NitroTrainingJob", "name": "hopper", "uid": UID}
CONFIG = Config.from_environment(
    {
        "NITRO_ACTOR_IMAGE": "registry.test/actor:1",
        "NITRO_LEARNER_IMAGE": "registry.test/learner:1",
        "NITRO_LEARNER_CPU_IMAGE": "registry.test/learner-cpu:1",
        "NITRO_REDIS_IMAGE": "registry.test/redis:7",
    },
    resolv_conf=Path("/dev/null"),
)


def make_job(status: Object | None = None, **spec: Any) -> Object:
    found: Object = {
        "apiVersion": "nitro.dev/v1alpha1",
        "kind": "NitroTrainingJob",
        "metadata": {
            "name": "hopper",
            "namespace": "team",
            "uid": UID,
            "generation": 1,
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {
            "environment": {"id": "Hopper-v5"},
            "scaling": {"scaler": "nitro", "minActors": 4, "initialActors": 8, "maxActors": 24},
            **spec,
        },
    }
    return found | ({"status": status} if status is not None else {})


def make_view(config: Config = CONFIG, **spec: Any) -> JobView:
    job = make_job(**spec)
    plain = {**job, "metadata": {"name": "hopper", "namespace": "team"}}
    return JobView.of(job, resolve(load_job(plain)).spec, config)


def learner_job(*conditions: str, failed: int = 0, **metadata: Any) -> Object:
    found = [{"type": kind, "status": "True", "reason": "BackoffLimitExceeded"} for kind in conditions]
    meta = {"name": "hopper-learner", "uid": "job-uid", "ownerReferences": [OWNER], **metadata}
    container = {"name": "learner", "env": [{"name": "NITRO_TOKEN", "value": "t"}]}
    spec = {"template": {"spec": {"containers": [container]}}}
    return {"metadata": meta, "spec": spec, "status": {"conditions": found, "failed": failed}}


def pod(component: str, *, phase: str = "Running", name: str = "p", **containers: Object) -> Object:
    """A pod; containers: name -> container status. Redis is a sidecar, so an init container."""
    entries = [{"name": key, "image": "registry.test/x:1", **value} for key, value in containers.items()]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": name,
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"nitro.dev/job": "hopper", "app.kubernetes.io/component": component},
            "ownerReferences": [{"uid": "job-uid"}],
        },
        "status": {
            "phase": phase,
            "startTime": "2026-01-01T00:00:00Z",
            "conditions": [{"type": "Ready", "status": "True"}],
            "initContainerStatuses": [e for e in entries if e["name"] == "redis"],
            "containerStatuses": [e for e in entries if e["name"] != "redis"],
        },
    }


def actor_pod(
    name: str = "p",
    *,
    cpu: str = "200m",
    allocated: str | None = None,
    in_force: str | None = None,
    address: str | None = None,
) -> Object:
    """A ready pod of Knative with an actor.

    Args:
        name: its name.
        cpu: the request in its spec.
        allocated: what the kubelet has set aside; None where it has not said so.
        in_force: what the kubelet has told the container's runtime, likewise.
        address: its own.
    """
    found = pod("actor", name=name, actor=RUNNING, **{"queue-proxy": RUNNING})
    memory = {"memory": "512Mi"}
    found["spec"] = {
        "nodeName": "node-1",
        "containers": [
            {"name": "actor", "resources": {"requests": {"cpu": cpu, **memory}}},
            {"name": "queue-proxy", "resources": {"requests": {"cpu": "25m"}}},
        ],
    }
    actor = next(one for one in found["status"]["containerStatuses"] if one["name"] == "actor")
    if allocated is not None:
        actor["allocatedResources"] = {"cpu": allocated, **memory}
    if in_force is not None:
        actor["resources"] = {"requests": {"cpu": in_force, **memory}}
    if address is not None:
        found["status"]["podIP"] = address
    return found


def seen(observed: Observed, job: Object | None = None, now: datetime = SERVER_NOW) -> Observed:
    """What was observed, as an operator tells it that sees it for the first time."""
    return LearnerPods().present(observed, job or make_job(), now)


RUNNING: Object = {"state": {"running": {}}, "ready": True, "started": True}


def terminated(code: int, message: str = "", reason: str = "Error") -> Object:
    return {"state": {"terminated": {"exitCode": code, "message": message, "reason": reason}}, "ready": False}


def waiting(reason: str, message: str = "") -> Object:
    return {"state": {"waiting": {"reason": reason, "message": message}}, "ready": False}


def revision(ready: str = "True", reason: str = "", message: str = "", **annotations: str) -> Object:
    condition = {"type": "Ready", "status": ready, "reason": reason, "message": message}
    return {
        "metadata": {
            "name": "hopper-actors-v1",
            "annotations": annotations,
            "ownerReferences": [{"kind": "Configuration", "name": "hopper-actors", "uid": "configuration"}],
        },
        "status": {"conditions": [condition]},
    }
