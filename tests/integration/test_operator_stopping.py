"""Jobs that stop, on a real API server: deleted ones that a finalizer holds, and suspended ones."""

from __future__ import annotations

import json
import time

import pytest

from apiserver import ApiServer
from cluster_support import Cluster
from operator_support import Object, OperatorProcess, eventually, job

SERVICE, REVISION = "services.serving.knative.dev", "revisions.serving.knative.dev"
HOLDER = "drill.example/x"
NODE = "no-such-node"
"""Pods of a node end when its kubelet says so, and there is none."""


def running(cluster: Cluster, name: str, **metadata: object) -> list[Object]:
    """A job that trains with two actors; returns their pods."""
    made = job(name, scaling={"hold": 0})
    made["metadata"] |= metadata
    cluster.apply(made)
    cluster.start_learner(name)
    cluster.start_knative(name)
    pods = [cluster.start_actor(name, node=NODE) for _ in range(2)]
    eventually(lambda: cluster.status(name).get("phase") == "Running", what="phase Running")
    eventually(lambda: cluster.status(name)["actors"]["ready"] == 2, what="two ready actors")
    return pods


def ready_says(cluster: Cluster, name: str, *words: str) -> None:
    eventually(
        lambda: all(word in cluster.condition(name, "Ready").get("message", "") for word in words),
        what=f"Ready says {words}",
    )


def test_a_deleted_job_that_a_finalizer_holds_is_stopped_and_metered_to_its_end(cluster: Cluster) -> None:
    pods = running(cluster, "held", finalizers=[HOLDER])
    cluster.kubectl("delete", "ntj", "held", "--wait=false")
    eventually(lambda: cluster.get(SERVICE, "held-actors") is None, what="its actors' Service is deleted")
    eventually(
        lambda: "deletionTimestamp" in (cluster.get("job", "held-learner") or {})["metadata"],
        what="its learner is stopped",
    )
    eventually(lambda: cluster.status("held")["phase"] == "Deleting")
    ready_says(cluster, "held", HOLDER, "the learner's pod is left: held-learner-", "2 of the actors' pods")
    assert cluster.condition("held", "Ready")["reason"] == "Deleted"

    # A report of its learner, which writes a last checkpoint, starts nothing.
    training = {"round": 7, "requestedActors": 24}
    cluster.patch("ntj", "held", {"status": {"training": training}}, status=True)
    cluster.collect_job("held")
    cluster.delete_pod(pods[0])
    ready_says(cluster, "held", "1 of the actors' pods is left")
    before = cluster.status("held")["actors"]["podSeconds"]
    # The status is rounded to tenths of a second, so the last pod stays for two of them.
    read = time.monotonic()
    eventually(lambda: time.monotonic() > read + 0.2)
    cluster.delete_pod(pods[1])
    ready_says(cluster, "held", "Its learner and its actors are gone.")
    actors = cluster.status("held")["actors"]
    assert (actors["requested"], actors["granted"], actors["ready"], actors["draining"]) == (0, 0, 0, 0)
    assert actors["podSeconds"] > before, "it was metered until its last pod was gone"
    assert cluster.get("job", "held-learner") is None
    assert cluster.get(SERVICE, "held-actors") is None
    events = cluster.kubectl("get", "events", "-o", "jsonpath={.items[*].reason}")
    assert "Deleted" in events.split(), "somebody else keeps it, which a person should know"
    cluster.patch("ntj", "held", {"metadata": {"finalizers": None}})
    eventually(lambda: cluster.get("ntj", "held") is None)


def test_a_job_that_is_deleted_without_its_children_leaves_them(
    cluster: Cluster, operator: OperatorProcess
) -> None:
    running(cluster, "orphan")
    cluster.kubectl("delete", "ntj", "orphan", "--cascade=orphan", "--wait=false")
    operator.wait_for_resyncs(2)
    assert "deletionTimestamp" not in (cluster.get("job", "orphan-learner") or {})["metadata"]
    assert cluster.get(SERVICE, "orphan-actors") is not None
    cluster.patch("ntj", "orphan", {"metadata": {"finalizers": None}})


def test_a_job_is_suspended_when_its_pods_are_seen_to_be_gone(cluster: Cluster) -> None:
    pods = running(cluster, "paused")
    charged = {"learner": 1.0, "actors": 0.5, "total": 1.5, "podSeconds": 0.5, "estimated": 0.25}
    cluster.patch("ntj", "paused", {"status": {"cost": charged}}, status=True)
    cluster.patch_spec("paused", suspend=True)
    eventually(lambda: cluster.scale("paused") == ("0", "1"))
    ready_says(cluster, "paused", "the learner's pod is left: paused-learner-", "2 of the actors' pods")
    assert cluster.status("paused")["phase"] == "Stopping"
    said = cluster.condition("paused", "Suspended")
    assert (said["status"], said["reason"]) == ("False", "Stopping")
    cluster.collect_job("paused")
    ready_says(
        cluster, "paused", "2 of the actors' pods are left", "Knative has not asked all of them to end"
    )
    assert cluster.status("paused")["phase"] == "Stopping"
    # As Knative's autoscaler does; the kubelet, which would end them, is away.
    for pod in pods:
        cluster.kubectl("delete", "pod", pod["metadata"]["name"], "--wait=false")
    ready_says(cluster, "paused", "it has until", f"kubectl delete node {NODE}")
    actors = cluster.status("paused")["actors"]
    assert (actors["granted"], actors["ready"], actors["draining"]) == (0, 0, 2)
    for pod in pods:
        assert cluster.status("paused")["phase"] == "Stopping"
        assert cluster.status("paused")["cost"] == charged, "its pods are not gone"
        cluster.delete_pod(pod)
    eventually(lambda: cluster.status("paused")["phase"] == "Suspended")
    assert cluster.condition("paused", "Suspended")["status"] == "True"

    # What its pods took after the learner had charged them is charged, and nothing is estimated any more.
    eventually(lambda: "estimated" not in cluster.status("paused")["cost"])
    cost = cluster.status("paused")["cost"]
    eventually(lambda: cluster.status("paused")["actors"]["podSeconds"] == cost["podSeconds"])
    more = (cost["podSeconds"] - 0.5) * 1.66667e-5
    assert more > 0
    rounding = 0.05 * 1.66667e-5 + 1e-6  # of the status: to tenths of a second and millionths of a dollar
    assert cost["actors"] - 0.5 == pytest.approx(more, abs=rounding)
    assert cost["total"] - 1.5 == pytest.approx(more, abs=rounding)


def test_a_job_whose_actors_cannot_be_released_is_not_called_suspended(
    apiserver: ApiServer, cluster: Cluster
) -> None:
    """Knative's webhook is away: it admits every change of a Revision."""
    pods = running(cluster, "stuck")
    webhook = f"{cluster.namespace}.knative.test"
    rule = {"apiGroups": ["serving.knative.dev"], "apiVersions": ["v1"], "operations": ["UPDATE"]}
    hook = {
        "name": webhook,
        "rules": [rule | {"resources": ["revisions"]}],
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": cluster.namespace}},
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    away = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": webhook},
        "webhooks": [hook],
    }
    apiserver.kubectl("apply", "-f", "-", input=json.dumps(away))
    change = {"metadata": {"annotations": {"touched": "yes"}}}
    eventually(lambda: refused(cluster, change), what="the webhook is asked")
    cluster.patch_spec("stuck", suspend=True)
    cluster.collect_job("stuck")
    ready_says(cluster, "stuck", "2 of the actors' pods are left", webhook)
    assert cluster.status("stuck")["phase"] == "Stopping"
    assert cluster.status("stuck")["actors"]["ready"] == 2
    assert cluster.condition("stuck", "Suspended")["status"] == "False"
    assert cluster.scale("stuck") != ("0", "1")

    apiserver.kubectl("delete", "validatingwebhookconfiguration", webhook)
    eventually(lambda: cluster.scale("stuck") == ("0", "1"), what="it is tried again by itself")
    for pod in pods:
        cluster.delete_pod(pod)
    eventually(lambda: cluster.status("stuck")["phase"] == "Suspended")


def refused(cluster: Cluster, change: Object) -> bool:
    try:
        cluster.patch(REVISION, "stuck-actors-v1", change)
    except Exception as error:
        return "webhook" in str(error)
    return False
