"""What the operator's integration tests and its benchmark share: the process itself, Knative's kinds, and
stand-ins for the kubelet and Knative, which a bare API server does not have."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nitro_operator import kinds

Object = dict[str, Any]

JOB: Object = {
    "apiVersion": "nitro.dev/v1alpha1",
    "kind": "NitroTrainingJob",
    "metadata": {"name": "hopper"},
    "spec": {
        "environment": {"id": "Hopper-v5"},
        "stop": {"rounds": 12},
        "scaling": {"minActors": 4, "initialActors": 8, "maxActors": 24},
    },
}


def job(name: str, **spec: Any) -> Object:
    """A job like JOB with other spec fields."""
    return {**JOB, "metadata": {"name": name}, "spec": {**JOB["spec"], **spec}}


# ---------------------------------------------------------------- Knative's kinds


def knative_definitions(version: str = "1.23.0") -> list[Object]:
    """Hand-written stand-ins for Knative's two definitions: right names and subresources, any content."""
    return [
        _definition(plural, kind, version)
        for plural, kind in (("services", "Service"), ("revisions", "Revision"))
    ]


def _definition(plural: str, kind: str, version: str) -> Object:
    group = "serving.knative.dev"
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", "labels": {"app.kubernetes.io/version": version}},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                }
            ],
        },
    }


def install_knative(server: Any, version: str = "1.23.0") -> None:
    """Make `server`, a tests/integration/apiserver.ApiServer, serve both kinds."""
    for definition in knative_definitions(version):
        server.kubectl("apply", "-f", "-", input=json.dumps(definition))

    def served() -> bool:
        group = server.request("GET", "/apis/serving.knative.dev/v1") or {"resources": []}
        return {"services", "revisions"} <= {resource["name"] for resource in group["resources"]}

    eventually(served, what="Knative's kinds")


# ---------------------------------------------------------------- the operator as a process


class OperatorProcess:
    """`python -m nitro_operator` against one API server. Use as a context manager."""

    def __init__(self, kubeconfig: Path, log: Path, **environment: str) -> None:
        self.metrics_port, self.health_port = _free_port(), _free_port()
        self._log = log
        self._environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("NITRO_", "KUBERNETES_SERVICE"))},
            "KUBECONFIG": str(kubeconfig),
            "NITRO_ACTOR_IMAGE": "registry.test/actor:1",
            "NITRO_LEARNER_IMAGE": "registry.test/learner:1",
            "NITRO_REDIS_IMAGE": "registry.test/redis:7",
            "NITRO_METRICS_PORT": str(self.metrics_port),
            "NITRO_HEALTH_PORT": str(self.health_port),
            "NITRO_RESYNC_SECONDS": "2",
            **environment,
        }
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> OperatorProcess:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "nitro_operator"], env=self._environment, stdout=log, stderr=log
            )
        eventually(
            lambda: self.get(self.health_port, "/healthz"), 60, f"operator did not start, see {self._log}"
        )

    def kill(self) -> None:
        """As a node that fails: no clean-up."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def get(self, port: int, path: str) -> str:
        """Body of the answer; empty if there is none, or an error."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    def metrics(self) -> str:
        return self.get(self.metrics_port, "/metrics")

    def log(self) -> str:
        return self._log.read_text()

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(how)
            try:
                self._process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def eventually(check: Callable[[], Any], seconds: float = 120, what: str = "") -> Any:
    """The first true value of `check`; an exception counts as false. Raises AssertionError in the end."""
    deadline = time.monotonic() + seconds
    error: Exception | None = None
    while True:
        try:
            found = check()
            if found:
                return found
        except Exception as raised:
            error = raised
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what or check} ({error!r})")
        time.sleep(0.1)


# ---------------------------------------------------------------- what a cluster would do

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
    """The API server with stand-ins for kubelet, Job controller, garbage collector and Knative.

    `server` is tests/integration/apiserver.ApiServer.
    """

    def __init__(self, server: Any, namespace: str) -> None:
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

    def start_learner(self, name: str) -> Object:
        """As Job controller and kubelet would: one pod of the learner's Job, all containers running."""
        owner = eventually(lambda: self.get("job", f"{name}-learner"), what=f"Job of {name}")
        pod = self._create_pod(owner, f"{name}-learner-", owner["spec"]["template"])
        self.set_pod(pod, phase="Running", containers={"redis": _running(), "learner": _running()})
        started = {"status": {"active": 1, "startTime": _now()}}
        self.patch("job", owner["metadata"]["name"], started, status=True)
        return pod

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

    def start_actor(self, name: str) -> Object:
        revision = self.get("revisions.serving.knative.dev", f"{name}-actors-v1")
        assert revision is not None
        template = {
            "metadata": {"labels": revision["metadata"]["labels"]},
            "spec": {"containers": [{"name": "actor", "image": "x"}]},
        }
        pod = self._create_pod(revision, f"{name}-actors-v1-", template)
        self.set_pod(pod, phase="Running", containers={"actor": _running()})
        return pod

    # -- pods

    def _create_pod(self, owner: Object, prefix: str, template: Object) -> Object:
        # No service account, volumes or node here: what matters is who owns it and what its status says.
        containers = [{"name": c["name"], "image": c["image"]} for c in template["spec"]["containers"]]
        meta = {
            "generateName": prefix,
            "labels": template["metadata"]["labels"],
            "ownerReferences": [owner_reference(owner)],
        }
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": containers}}
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


def _deleted(obj: Object | None) -> Object | None:
    return obj if obj is not None and "deletionTimestamp" in obj["metadata"] else None


def owner_reference(obj: Object) -> Object:
    meta = obj["metadata"]
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
    }


def _running() -> Object:
    return {"running": {"startedAt": _now()}}


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
