"""What the operator's integration tests and its benchmark share: jobs, Knative's kinds, the process."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from apiserver import ApiServer
from ports import free_ports

Object = dict[str, Any]

JOB: Object = {
    "apiVersion": "nitro.dev/v1alpha1",
    "kind": "NitroTrainingJob",
    "metadata": {"name": "hopper"},
    "spec": {
        "environment": {"id": "Hopper-v5"},
        "stop": {"rounds": 12},
        "scaling": {"scaler": "nitro", "minActors": 4, "initialActors": 8, "maxActors": 24},
    },
}


def job(name: str, **spec: Any) -> Object:
    """A job like JOB with other spec fields."""
    return {**JOB, "metadata": {"name": name}, "spec": {**JOB["spec"], **spec}}


def large_job(name: str, kib: int) -> Object:
    """A suspended job of so many KiB, made by `kubectl apply`: half of them are its copy in an annotation."""
    part = ["abcdefgh" * 128, [{"at": 0.125 * number, "of": []} for number in range(128)]]
    kwargs = {f"part{n}": part for n in range(kib * 512 // len(json.dumps(part)))}
    found = job(name, suspend=True, environment={"id": "Hopper-v5", "kwargs": kwargs})
    copy = json.dumps(found)
    found["metadata"] = {
        "name": name,
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": copy},
    }
    return found


def owner_reference(obj: Object) -> Object:
    meta = obj["metadata"]
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
    }


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


def install_knative(server: ApiServer, version: str = "1.23.0") -> None:
    """Make the server serve both kinds."""
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
        self.metrics_port, self.health_port = free_ports(2)
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
            "HOSTNAME": f"operator-{self.health_port}",  # as a pod's name, which outlives the process
            "NITRO_LAMBDA_ENDPOINTS": "127.0.0.1",
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

    def start(self, *, ready: bool = True) -> None:
        """Start it, and return when it works; with `ready=False` at once."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "nitro_operator"], env=self._environment, stdout=log, stderr=log
            )
        if not ready:
            return
        eventually(
            lambda: self.get(self.health_port, "/readyz"),
            seconds=240,  # a killed operator of another test may hold the Lease
            what=f"the operator's start, see {self._log}",
        )

    def kill(self) -> None:
        """As a node that fails: no clean-up."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def get(self, port: int, path: str) -> str:
        """Body of the answer; empty if there is none, or an error."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    def metrics(self) -> str:
        return self.get(self.metrics_port, "/metrics")

    def memory_mib(self, field: str = "VmRSS") -> float:
        """Memory of the process: VmRSS is what it has now, VmHWM the most that it had. Unit: MiB."""
        found = re.search(rf"^{field}:\s+(\d+) kB", Path(f"/proc/{self.pid}/status").read_text(), re.M)
        assert found is not None
        return int(found[1]) / 1024

    def requests(self, verb: str) -> float:
        """Requests to the API server so far."""
        found = re.findall(
            rf'^nitro_operator_api_requests_total{{.*verb="{verb}".*}} (\S+)', self.metrics(), re.M
        )
        return sum(map(float, found))

    def log(self) -> str:
        return self._log.read_text()

    def wait_for_resyncs(self, times: int) -> None:
        """Return when every job has been taken up anew so often."""
        for _ in range(times):
            before = self._resynced()
            eventually(lambda before=before: self._resynced() > before, what="the next resync")

    def _resynced(self) -> float:
        found = re.search(r"^nitro_operator_resync_timestamp_seconds (\S+)", self.metrics(), re.MULTILINE)
        return float(found[1]) if found else 0.0

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(how)
            try:
                self._process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


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
