"""A stand-in for a kubelet that resizes pods, for a bare API server."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from typing import Any

from cluster_support import Cluster
from nitro_api.quantities import amount_of
from nitro_operator.kube.kinds import POD_METRICS
from nitro_operator.observation.observed import container, terminating

Object = dict[str, Any]
NODE = "no-such-node"
MEASURE_SECONDS = 2.0
AWAKE, ASLEEP = "250m", "1m"
"""CPU of an actor: what the operator requests by default, and of a sleeper."""


class Kubelet:
    """Starts the actor pods of one job, resizes them as their specs say, and ends those that are deleted.

    Usage::

        with Kubelet(cluster, "hopper") as kubelet:
            kubelet.start(4)
            eventually(lambda: kubelet.cpus() == [ASLEEP] * 4)
    """

    def __init__(self, cluster: Cluster, job: str, room: float = 1e6) -> None:
        self._cluster = cluster
        self._job = job
        self.room = room
        """CPU that actors may have together. Unit: vCPU."""
        self.carries_out = True
        """Whether resizes are carried out, or seem to hang."""
        self.infeasible = False
        """Whether no pod can ever have more CPU than it has."""
        self.used: float | None = None
        """CPU that the metrics API says of each actor; None = it has not measured them. Unit: vCPU."""
        self._measured_at = 0.0
        self._addresses = 0
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> Kubelet:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def start(self, pods: int = 1, container: Object | None = None, *, ready: bool = True) -> list[Object]:
        """Start actor pods that are awake, and ready or still being started. `container` is what somebody
        else has set in them."""
        return [self._start(container, ready) for _ in range(pods)]

    def pods(self) -> list[Object]:
        """The actor pods, the oldest first."""
        found = [
            pod
            for pod in self._cluster.list("pods")
            if pod["metadata"]["labels"].get("app.kubernetes.io/component") == "actor"
        ]
        return sorted(
            found, key=lambda pod: [int(part) for part in pod["status"].get("podIP", "0").split(".")]
        )

    def cpus(self) -> list[str]:
        """What the actors have."""
        return [_granted(pod) for pod in self.pods()]

    def addresses(self) -> list[str]:
        return sorted(pod["status"]["podIP"] for pod in self.pods())

    def _start(self, container: Object | None, ready: bool) -> Object:
        pod = self._cluster.add_actor(self._job, node=NODE, cpu=AWAKE, container=container)
        self._addresses += 1
        address = f"10.0.{self._addresses // 250}.{self._addresses % 250 + 1}"
        state = {"state": {"running" if ready else "waiting": {}}, "ready": ready, "started": ready}
        about = {"name": "actor", "image": "x", "imageID": "", "restartCount": 0}
        status = {**about, **state, **_granting(AWAKE)}
        told = {"podIP": address, "podIPs": [{"ip": address}], "containerStatuses": [status]}
        if ready:
            self._cluster.report_actor(pod, **told)
        else:
            self._cluster.set_pod(pod, phase="Pending", containers={"actor": {"waiting": {}}}, **told)
        return pod

    def _work(self) -> None:
        while not self._ends.is_set():
            pods = self.pods()
            taken = sum(amount_of(_granted(pod)) for pod in pods)
            for pod in pods:
                if terminating(pod):
                    self._cluster.delete_pod(pod)
                elif self.carries_out and pod["status"].get("podIP"):
                    taken += self._resize(pod, taken)
            if self.used is not None and time.monotonic() - self._measured_at > MEASURE_SECONDS:
                self._measured_at = time.monotonic()
                self._measure(self.used)
            time.sleep(0.1)

    def _measure(self, used: float) -> None:
        """As a metrics server does."""
        usage = {"cpu": f"{round(used * 1e9)}n", "memory": "64Mi"}
        for pod in self.pods():
            named = {key: pod["metadata"][key] for key in ("name", "labels")}
            measured = {
                "apiVersion": POD_METRICS.api_version,
                "kind": POD_METRICS.kind,
                "metadata": named,
                "timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
                "window": "15s",
                "containers": [
                    {"name": "actor", "usage": usage},
                    {"name": "queue-proxy", "usage": {"cpu": "1"}},
                ],
            }
            self._cluster.put(POD_METRICS, measured)

    def _resize(self, pod: Object, taken: float) -> float:
        """Have a pod's CPU as its spec says, if there is room. Returns what it takes more than before."""
        wanted, granted = cpu_of(pod), _granted(pod)
        more = amount_of(wanted) - amount_of(granted)
        if wanted == granted:
            return 0.0
        if not (more > 0 and self.infeasible) and taken + more <= self.room:
            self._grant(pod, wanted)
            return more
        if not any(one["type"] == "PodResizePending" for one in pod["status"]["conditions"]):
            pending = {"type": "PodResizePending", "status": "True"}
            pending["reason"] = "Infeasible" if self.infeasible else "Deferred"
            pending["message"] = "Node didn't have enough resource: cpu"
            self._set(pod, conditions=[*pod["status"]["conditions"], pending])
        return 0.0

    def _grant(self, pod: Object, cpu: str) -> None:
        name = pod["metadata"]["name"]
        current = self._cluster.get("pod", name) or pod
        (status,) = current["status"]["containerStatuses"]
        status |= _granting(cpu)
        kept = [one for one in current["status"]["conditions"] if one["type"] != "PodResizePending"]
        self._set(pod, containerStatuses=[status], conditions=kept)

    def _set(self, pod: Object, **status: Any) -> None:
        self._cluster.patch("pod", pod["metadata"]["name"], {"status": status}, status=True)


def cpu_of(pod: Object | None) -> str:
    """What the spec of a pod requests for its actor."""
    assert pod is not None
    found: str = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    return found


def _granting(cpu: str) -> Object:
    return {"allocatedResources": {"cpu": cpu}, "resources": {"requests": {"cpu": cpu}}}


def _granted(pod: Object) -> str:
    status = container(pod, "actor") or {}
    return str((status.get("allocatedResources") or {}).get("cpu", AWAKE))
