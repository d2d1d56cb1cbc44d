"""What the operator says of a learner's end is about that learner, and it ends a pod that others keep."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from cluster_support import Cluster
from operator_support import Object, OperatorProcess, eventually, job

LOCAL = {"backend": {"type": "Local"}}
EVICTION = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}


def running() -> Object:
    return {"running": {"startedAt": now()}}


def ended(code: int, message: str = "") -> Object:
    reason = "Error" if code else "Completed"
    return {"terminated": {"exitCode": code, "message": message, "reason": reason, "finishedAt": now()}}


def now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def ready(cluster: Cluster, name: str) -> Object:
    return cluster.condition(name, "LearnerReady")


def until_ready(cluster: Cluster, name: str) -> None:
    eventually(lambda: ready(cluster, name).get("status") == "True", what="LearnerReady")


def test_an_eviction_is_not_blamed_on_an_older_failure(cluster: Cluster, operator: OperatorProcess) -> None:
    cluster.apply(job("moved", **LOCAL))
    old = cluster.start_learner("moved")
    until_ready(cluster, "moved")
    cluster.set_pod(
        old, phase="Failed", containers={"redis": ended(0), "learner": ended(75, "Redis is overloaded")}
    )
    eventually(lambda: "Redis is overloaded" in ready(cluster, "moved").get("message", ""))
    assert "The next learner starts from the last checkpoint at about" in ready(cluster, "moved")["message"]
    created = datetime.fromisoformat(old["metadata"]["creationTimestamp"])
    eventually(lambda: (datetime.now(UTC) - created).total_seconds() > 4, what="times differ")
    newest = cluster.start_learner("moved", node="drained")
    until_ready(cluster, "moved")
    cluster.report("moved", round=3, requestedActors=8)
    cluster.set_pod(newest, phase="Running", containers={"learner": running()}, conditions=[EVICTION])
    cluster.kubectl("delete", "pod", newest["metadata"]["name"], "--wait=false")  # the kubelet ends it later
    eventually(lambda: ready(cluster, "moved").get("reason") == "LearnerDisrupted", what="its end is told")
    cluster.delete_pod(newest)
    told = eventually(
        lambda: ready(cluster, "moved").get("reason") == "LearnerDisrupted" and ready(cluster, "moved")
    )
    assert "EvictionByEvictionAPI: Eviction API: evicting" in told["message"]
    assert newest["metadata"]["name"] in told["message"]
    assert "overloaded" not in told["message"]
    operator.kill()
    operator.start()
    operator.wait_for_resyncs(2)
    eventually(lambda: ready(cluster, "moved")["reason"] == "Starting", what="it no longer knows that pod")
    assert "overloaded" not in ready(cluster, "moved")["message"]


def test_a_learner_that_is_done_ends_its_job_although_a_sidecar_runs_on(cluster: Cluster) -> None:
    cluster.apply(job("meshed", **LOCAL))
    pod = cluster.start_learner("meshed")
    until_ready(cluster, "meshed")
    containers = {"redis": running(), "learner": ended(0), "proxy": running()}
    cluster.set_pod(pod, phase="Running", containers=containers)
    eventually(lambda: cluster.status("meshed")["phase"] == "Succeeded")
    eventually(lambda: cluster.get("pod", pod["metadata"]["name"]) is None, what="the pod's end")
    cluster.collect_job("meshed")
    assert cluster.status("meshed")["phase"] == "Succeeded"
    assert cluster.condition("meshed", "Complete")["status"] == "True"


@pytest.mark.parametrize("code", [1, 2, 75, 137, 139])
def test_a_crashed_learners_pod_ends_although_a_sidecar_runs_on(cluster: Cluster, code: int) -> None:
    """The Job counts it by the learner's exit code. The status keeps what the pod said."""
    name = f"meshed-{code}"
    cluster.apply(job(name, **LOCAL))
    pod = cluster.start_learner(name)
    until_ready(cluster, name)
    containers = {"redis": running(), "learner": ended(code, "no room"), "proxy": running()}
    cluster.set_pod(pod, phase="Running", containers=containers)
    eventually(lambda: cluster.get("pod", pod["metadata"]["name"]) is None, what="the pod's end")
    eventually(lambda: "starts from the last checkpoint at about" in ready(cluster, name)["message"])
    told = ready(cluster, name)
    assert told["reason"] == "LearnerCrashed"
    assert f"exit code {code}" in told["message"]
    assert ("no room" in told["message"]) is (code != 137)
    learner = cluster.get("job", f"{name}-learner")
    assert learner is not None
    assert "deletionTimestamp" not in learner["metadata"], "its own retries and failure policy decide"


def test_a_quota_that_was_overcome_is_not_blamed_for_a_later_pod(cluster: Cluster) -> None:
    cluster.apply(job("room", **LOCAL))
    learner = eventually(lambda: cluster.get("job", "room-learner"), what="the Job")
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "room.1", "namespace": cluster.namespace},
        "involvedObject": {
            "kind": "Job",
            "name": "room-learner",
            "namespace": cluster.namespace,
            "uid": learner["metadata"]["uid"],
        },
        "reason": "FailedCreate",
        "message": "pods is forbidden: exceeded quota: few",
        "type": "Warning",
        "firstTimestamp": now(),
        "lastTimestamp": now(),
    }
    cluster.apply(event)
    eventually(lambda: ready(cluster, "room").get("reason") == "QuotaExceeded")
    pod = cluster.start_learner("room")
    until_ready(cluster, "room")
    created = datetime.fromisoformat(pod["metadata"]["creationTimestamp"])
    eventually(lambda: (datetime.now(UTC) - created).total_seconds() > 2, what="times differ")
    cluster.set_pod(pod, phase="Failed", containers={"redis": ended(0), "learner": ended(1, "boom")})
    eventually(lambda: ready(cluster, "room").get("reason") == "LearnerCrashed")
    finished = datetime.now(UTC)
    eventually(lambda: (datetime.now(UTC) - finished).total_seconds() > 25, what="the next pod is late")
    assert ready(cluster, "room")["reason"] == "LearnerCrashed"
    event["lastTimestamp"] = now()
    cluster.kubectl("delete", "event", "room.1")
    cluster.apply(event)
    eventually(lambda: ready(cluster, "room").get("reason") == "QuotaExceeded")
