"""Pods that have a node and cannot begin there: a kubelet says why in events alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from cluster_support import Cluster
from operator_support import Object, OperatorProcess, eventually, job

MISSING = 'MountVolume.SetUp failed for volume "maps" : configmap "maps" not found'
ROOT = 'MountVolume.SetUp failed for volume "api-token" : configmap "kube-root-ca.crt" not found'
CODE = 'MountVolume.SetUp failed for volume "nitro-code" : configmap "nitro-code-0123456789abcdef" not found'
CREATING = {"waiting": {"reason": "ContainerCreating"}}


def held(cluster: Cluster, pod: Object, container: str, *, seconds: float) -> None:
    """The pod as a kubelet tells of it that has had it for so long."""
    since = (datetime.now(UTC) - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
    conditions = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": since},
        {"type": "PodReadyToStartContainers", "status": "False", "lastTransitionTime": since},
        {"type": "Ready", "status": "False"},
    ]
    cluster.set_pod(pod, phase="Pending", containers={container: CREATING}, conditions=conditions)


def tell(cluster: Cluster, pod: Object, reason: str, message: str) -> None:
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    about = {"kind": "Pod", "name": pod["metadata"]["name"], "namespace": cluster.namespace}
    cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{pod['metadata']['name']}.{reason.lower()}",
                "namespace": cluster.namespace,
            },
            "involvedObject": about | {"uid": pod["metadata"]["uid"]},
            "reason": reason,
            "message": message,
            "type": "Warning",
            "firstTimestamp": at,
            "lastTimestamp": at,
        }
    )


@pytest.mark.parametrize(
    ("reason", "message", "remedy"),
    [
        ("FailedMount", MISSING, "Create the Secret, ConfigMap or claim that is missing"),
        ("FailedMount", ROOT, "see whether a ResourceQuota on ConfigMaps leaves it no room"),
        ("FailedMount", CODE, "Apply what `nitro code` writes"),
        ("FailedCreatePodSandBox", "plugin type=bridge failed", "the node's network"),
    ],
)
def test_a_learner_that_cannot_begin_says_why(
    cluster: Cluster, reason: str, message: str, remedy: str
) -> None:
    cluster.apply(job("held"))
    learner = cluster.start_learner("held")
    tell(cluster, learner, "FailedScheduling", "0/1 nodes are available")  # which was overcome
    tell(cluster, learner, reason, message)
    held(cluster, learner, "learner", seconds=60)

    def told() -> Object | None:
        found = cluster.condition("held", "LearnerReady")
        return found if found.get("reason") == "PodNotStarted" else None

    said = eventually(told, what="PodNotStarted")["message"]
    for words in (learner["metadata"]["name"], "of the learner", message, remedy):
        assert words in said
    cluster.set_pod(learner, phase="Running", containers={"learner": {"running": {}}})
    eventually(lambda: cluster.condition("held", "LearnerReady").get("status") == "True")


def test_an_actor_that_cannot_begin_says_why(cluster: Cluster) -> None:
    cluster.apply(job("acting"))
    cluster.start_learner("acting")
    cluster.start_knative("acting")
    actor = cluster.start_actor("acting")
    tell(cluster, actor, "FailedMount", MISSING)
    held(cluster, actor, "actor", seconds=60)

    def told() -> Object | None:
        found = cluster.condition("acting", "ActorsReady")
        return found if found.get("reason") == "PodNotStarted" else None

    said = eventually(told, what="PodNotStarted")["message"]
    assert f"the pod {actor['metadata']['name']} of an actor cannot begin on its node: {MISSING}" in said


def test_a_pod_that_takes_its_time_is_no_problem(cluster: Cluster, operator: OperatorProcess) -> None:
    cluster.apply(job("slow"))
    learner = cluster.start_learner("slow")
    held(cluster, learner, "learner", seconds=60)  # no event
    operator.wait_for_resyncs(2)
    assert cluster.condition("slow", "LearnerReady")["reason"] == "Starting"
    tell(cluster, learner, "FailedMount", MISSING)
    held(cluster, learner, "learner", seconds=-60)  # its node is new
    operator.wait_for_resyncs(2)
    assert cluster.condition("slow", "LearnerReady")["reason"] == "Starting"
