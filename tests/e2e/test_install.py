"""The installed release: its own test, its metrics, and what `kubectl` accepts."""

from __future__ import annotations

import subprocess

import pytest
from harness import PATIENCE_SECONDS, Cluster, kubectl
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
