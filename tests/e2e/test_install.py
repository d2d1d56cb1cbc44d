"""The installed release: its own test, its metrics, and what `kubectl` accepts."""

from __future__ import annotations

import subprocess

import pytest
from harness import PATIENCE_SECONDS, Cluster, Object, kubectl
from jobs import hopper
from kubernetes.client.exceptions import ApiException
from monitoring import until


def test_helm_test(cluster: Cluster) -> None:
    # Helm waits for five minutes.
    command = ["helm", "test", cluster.release, "--namespace", cluster.namespace]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Succeeded" in done.stdout


def test_the_metrics_service_answers(cluster: Cluster) -> None:
    names = kubectl(
        "get", "service", "-n", cluster.namespace, "-l", cluster.operator, "-o", "jsonpath={..metadata.name}"
    )
    path = f"/api/v1/namespaces/{cluster.namespace}/services/{names}:metrics/proxy/metrics"
    # A Service has its address a moment after its pods are ready.
    until(lambda: "nitro_jobs" in kubectl("get", "--raw", path, check=False), "the operator's metrics")


def test_a_running_job_cannot_change_its_environment(cluster: Cluster, namespace: str) -> None:
    cluster.create_job(namespace, "fixed", hopper(suspend=True))
    with pytest.raises(ApiException, match=r"spec\.environment") as refused:
        cluster.patch_job(namespace, "fixed", {"environment": {"id": "Walker2d-v5"}})
    assert refused.value.status == 422


def test_the_learners_image_trains_by_itself(cluster: Cluster, namespace: str) -> None:
    """As `docker run` has it: by a user whom the image does not know, in a folder that is mounted."""
    closed = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    container = {
        "name": "nitro",
        "image": cluster.images["learner-cpu"],
        "args": ["train", "/examples/cartpole.yaml", "--set", "spec.stop.rounds=1", "--run-dir", "run"],
        "workingDir": "/work",
        "volumeMounts": [{"name": "work", "mountPath": "/work"}],
        "securityContext": closed,
    }
    pod = {
        "restartPolicy": "Never",
        "securityContext": {
            "runAsUser": 1000,
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [{"name": "work", "emptyDir": {}}],
    }
    cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "alone"}, "spec": pod}, namespace)

    def phase(pods: list[Object]) -> str | None:
        found = pods[0].get("status", {}).get("phase") if pods else None
        return found if found in ("Succeeded", "Failed") else None

    ended = cluster.until(
        cluster.kind("v1", "Pod"), phase, namespace=namespace, what="a training", name="alone"
    )
    said = kubectl("logs", "alone", "--namespace", namespace)
    assert ended == "Succeeded", said
    assert "final return" in said
