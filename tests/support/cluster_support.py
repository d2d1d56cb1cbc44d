"""Stand-ins for what a bare API server does not have: kubelet, Job controller, garbage collector, Knative."""

from __future__ import annotations

import json
import time
from typing import Any

from apiserver import ApiServer
from nitro_operator.kube import kinds
from operator_support import JOB, Object, eventually, owner_reference

_OWN = [kind for kind in (*kinds.WATCHED_CHILDREN, kinds.SECRET) if kind not in kinds.KNATIVE_KINDS]
KINDS: dict[str, kinds.Kind] = {
    "ntj": kinds.TRAINING_JOB,
    "pvc": kinds.VOLUME_CLAIM,
    "events": kinds.EVENT,
    **{kind.kind.lower(): kind for kind in _OWN},
    **{kind.plural: kind for kind in _OWN},
    **{f"{kind.plural}.{kind.group}": kind for kind in kinds.KNATIVE_KINDS},
}
"""Kinds by the names that kubectl knows them by."""


class Cluster:
    """The API server with stand-ins for kubelet, Job controller, garbage collector and Knative."""

    def __init__(self, server: ApiServer, namespace: str) -> None:
        self._server = server
        self.namespace = namespace

    def kubectl(self, *arguments: str, **options: Any) -> str:
        return str(self._server.kubectl("-n", self.namespace, *arguments, **options))

    def apply(self, *objects: Object) -> None:
        items = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        self.kubectl("apply", "-f", "-", input=json.dumps(items))

    def create(self, kind: kinds.Kind, obj: Object) -> Object:
        created: Object = self._server.request("POST", kind.path(self.namespace), obj)
        return created

    def put(self, kind: kinds.Kind, obj: Object) -> None:
        """Create an object, or change it to this."""
        name = obj["metadata"]["name"]
        if self._server.request("GET", kind.path(self.namespace, name)) is None:
            self.create(kind, obj)
        else:
            self._server.request("PATCH", kind.path(self.namespace, name), obj)

    def get(self, kind: str, name: str) -> Object | None:
        found: Object | None = self._server.request("GET", KINDS[kind].path(self.namespace, name))
        return found

    def list(self, *names: str) -> list[Object]:
        """All objects of these kinds; none of a kind that is not served."""
        found = []
        for kind in map(KINDS.__getitem__, names):
            listed = self._server.request("GET", kind.path(self.namespace)) or {"items": []}
            found += [{"apiVersion": kind.api_version, "kind": kind.kind, **one} for one in listed["items"]]
        return found

    def credentials(self, name: str) -> Object:
        """The Secret that the job's learner is made with."""
        learner = self.get("job", f"{name}-learner") or {}
        variables = learner["spec"]["template"]["spec"]["containers"][0]["env"]
        token = next(one for one in variables if one["name"] == "NITRO_TOKEN")
        secret = self.get("secret", token["valueFrom"]["secretKeyRef"]["name"])
        assert secret is not None
        return secret

    def status(self, name: str) -> Object:
        found = self.get("ntj", name)
        return (found or {}).get("status") or {}

    def condition(self, name: str, kind: str) -> Object:
        return next((c for c in self.status(name).get("conditions", []) if c["type"] == kind), {})

    def patch(self, kind: str, name: str, patch: Object, *, status: bool = False) -> None:
        path = KINDS[kind].path(self.namespace, name, "status" if status else None)
        self._server.request("PATCH", path, patch)

    def patch_spec(self, name: str, **spec: Any) -> None:
        self.patch("ntj", name, {"spec": spec})

    # -- the learner

    def start_learner(self, name: str, *, node: str | None = None) -> Object:
        """As Job controller and kubelet would: one pod of the learner's Job, all containers running.

        On a node it ends when the node's kubelet says so.
        """
        owner = eventually(lambda: self.get("job", f"{name}-learner"), what=f"Job of {name}")
        pod = self.add_learner(owner, node=node)
        self.set_pod(pod, phase="Running", containers={"redis": _running(), "learner": _running()})
        before = owner.get("status") or {}
        started = {"status": {"active": 1, "startTime": before.get("startTime") or _now()}}
        self.patch("job", owner["metadata"]["name"], started, status=True)
        return pod

    def add_learner(self, owner: Object, *, node: str | None = None) -> Object:
        """A pod of the learner's Job of which no kubelet has reported yet."""
        prefix = f"{owner['metadata']['name']}-"
        return self._create_pod(owner, prefix, owner["spec"]["template"], node)

    def report(self, name: str, **training: Any) -> None:
        """As the learner does: its own part of the status, under its own field manager."""
        body = {
            **{key: JOB[key] for key in ("apiVersion", "kind")},
            "metadata": {"name": name, "namespace": self.namespace},
            "status": {"training": {"updatedAt": _now(), **training}},
        }
        flags = (
            "--server-side",
            "--force-conflicts",
            "--field-manager=nitro-learner",
            "--subresource=status",
        )
        self.kubectl("apply", *flags, "-f", "-", input=json.dumps(body))

    def end_learner(
        self, name: str, pod: Object, *, code: int, message: str = "", job_condition: str = ""
    ) -> None:
        """The training container ends; `job_condition` (Complete, Failed) is what the Job controller says."""
        ended = {
            "terminated": {
                "exitCode": code,
                "message": message,
                "reason": "Completed" if code == 0 else "Error",
            }
        }
        phase = "Succeeded" if code == 0 else "Failed"
        self.set_pod(pod, phase=phase, containers={"redis": _running(), "learner": ended})
        if job_condition:
            self.finish_job(f"{name}-learner", job_condition, "BackoffLimitExceeded")

    def finish_job(self, job_name: str, condition: str, reason: str) -> None:
        interim = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}[condition]
        conditions = [
            {"type": kind, "status": "True", "reason": reason, "lastTransitionTime": _now()}
            for kind in (interim, condition)
        ]
        started = (self.get("job", job_name) or {})["status"].get("startTime") or _now()
        status: Object = {"conditions": conditions, "active": 0, "startTime": started}
        status |= {"succeeded": 1, "completionTime": _now()} if condition == "Complete" else {"failed": 1}
        self.patch("job", job_name, {"status": status}, status=True)

    # -- the actors

    def start_knative(self, name: str) -> Object:
        """As Knative would: the Revision that the Service's template names, ready."""
        service = eventually(lambda: self.get("services.serving.knative.dev", f"{name}-actors"))
        template = service["spec"]["template"]
        meta = {**template["metadata"], "ownerReferences": [owner_reference(service)]}
        spec = {
            "apiVersion": "serving.knative.dev/v1",
            "kind": "Revision",
            "metadata": meta,
            "spec": template["spec"],
        }
        revision = self.create(kinds.REVISION, spec)
        self.set_revision(name, "True")
        return revision

    def set_revision(self, name: str, value: str, reason: str = "", message: str = "") -> None:
        condition = {"type": "Ready", "status": value, "reason": reason, "message": message}
        patch = {"status": {"conditions": [condition]}}
        self.patch("revisions.serving.knative.dev", f"{name}-actors-v1", patch, status=True)

    def scale(self, name: str) -> tuple[str, str]:
        """min-scale and max-scale of the Revision."""
        revision = self.get("revisions.serving.knative.dev", f"{name}-actors-v1") or {"metadata": {}}
        found = revision["metadata"].get("annotations", {})
        return found.get("autoscaling.knative.dev/min-scale"), found.get("autoscaling.knative.dev/max-scale")

    def start_actor(self, name: str, *, node: str | None = None) -> Object:
        """A ready actor pod. On a node it ends when the node's kubelet says so: a deletion only asks."""
        pod = self.add_actor(name, node=node)
        self.report_actor(pod)
        return pod

    def add_actor(
        self, name: str, *, node: str | None = None, cpu: str | None = None, container: Object | None = None
    ) -> Object:
        """An actor pod of which no kubelet has reported yet. Its actor requests `cpu`; `container` is what
        somebody else has set in it."""
        revision = self.get("revisions.serving.knative.dev", f"{name}-actors-v1")
        assert revision is not None
        requests = {"requests": {"cpu": cpu}} if cpu is not None else {}
        template = {
            "metadata": {"labels": revision["metadata"]["labels"]},
            "spec": {
                "containers": [{"name": "actor", "image": "x", "resources": requests, **(container or {})}]
            },
        }
        return self._create_pod(revision, f"{name}-actors-v1-", template, node)

    def report_actor(self, pod: Object, **status: Any) -> None:
        """The kubelet's word that an actor pod is ready."""
        self.set_pod(pod, phase="Running", containers={"actor": _running()}, **status)

    # -- pods

    def _create_pod(self, owner: Object, prefix: str, template: Object, node: str | None = None) -> Object:
        # No service account or volumes here: what matters is who owns it and what its status says.
        kept = ("name", "image", "resources", "resizePolicy")
        containers = [{key: c[key] for key in kept if key in c} for c in template["spec"]["containers"]]
        meta = {
            "generateName": prefix,
            "labels": template["metadata"]["labels"],
            "ownerReferences": [owner_reference(owner)],
        }
        spec = {"containers": containers, **({"nodeName": node} if node else {})}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
        return self.create(kinds.POD, pod)

    def set_pod(self, pod: Object, *, phase: str, containers: dict[str, Object], **status: Any) -> None:
        ready = phase == "Running" and all("running" in state for state in containers.values())
        entries = [
            {
                "name": name,
                "state": state,
                "ready": "running" in state,
                "started": "running" in state,
                "image": "registry.test/x:1",
                "imageID": "",
                "restartCount": 0,
            }
            for name, state in containers.items()
        ]
        full = {
            "phase": phase,
            "startTime": _now(),
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            "containerStatuses": [e for e in entries if e["name"] != "redis"],
            "initContainerStatuses": [e for e in entries if e["name"] == "redis"],
            **status,
        }
        self.patch("pod", pod["metadata"]["name"], {"status": full}, status=True)

    def delete_pod(self, pod: Object) -> None:
        path = kinds.POD.path(self.namespace, pod["metadata"]["name"])
        self._server.request("DELETE", path, {"gracePeriodSeconds": 0})

    # -- the garbage collector

    def collect_job(self, name: str) -> None:
        """Finish a deletion in the foreground: pods first, then the Job itself."""
        job = eventually(
            lambda: _deleted(self.get("job", f"{name}-learner")), what=f"deletion of {name}-learner"
        )
        for pod in self.list("pods"):
            if any(
                ref["uid"] == job["metadata"]["uid"] for ref in pod["metadata"].get("ownerReferences", [])
            ):
                self.delete_pod(pod)
        self.patch("job", f"{name}-learner", {"metadata": {"finalizers": None}})
        eventually(lambda: self.get("job", f"{name}-learner") is None)

    def collect_service(self, name: str) -> None:
        """Finish the deletion of a Knative Service, as the garbage collector would."""
        service = "services.serving.knative.dev"
        eventually(lambda: _deleted(self.get(service, f"{name}-actors")), what=f"deletion of {name}'s actors")
        self.kubectl("delete", "revisions.serving.knative.dev", "--ignore-not-found", f"{name}-actors-v1")
        self.patch(service, f"{name}-actors", {"metadata": {"finalizers": None}})


def _deleted(obj: Object | None) -> Object | None:
    return obj if obj is not None and "deletionTimestamp" in obj["metadata"] else None


def _running() -> Object:
    return {"running": {"startedAt": _now()}}


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
