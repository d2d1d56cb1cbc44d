"""What a job's conditions say of an end is about that end, and when they say that it goes on is true."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from harness import Cluster, Object, kubectl, of_component, round_of, says
from jobs import hopper
from kubernetes import client
from namespaces import Start


@pytest.mark.full
def test_a_drain_after_a_failure_is_told_as_itself_with_the_next_start(
    cluster: Cluster, namespace: str, start: Start
) -> None:
    start("moved", hopper(rounds=1000, actors=(1, 1, 1), scaling={"scaler": "fixed"}))
    cluster.until_round(namespace, "moved", 1)
    (first,) = cluster.pods(namespace, "moved", "learner")
    terminate = ("python", "-c", "import os; os.kill(1, 15)")
    kubectl("exec", "--namespace", namespace, first["metadata"]["name"], "-c", "learner", "--", *terminate)
    told = cluster.until_job(
        namespace,
        "moved",
        lambda job: says(job, "LearnerCrashed", "exit code 75", "at about"),
        what="the end",
    )
    second = next_learner(cluster, namespace, {first["metadata"]["name"]})
    assert begun(second) >= due(told, second) - timedelta(seconds=1), "no earlier than was said"

    cluster.until_job(
        namespace, "moved", lambda job: says_true(job, "LearnerReady"), what="the second learner runs"
    )
    (second,) = [
        pod for pod in cluster.pods(namespace, "moved", "learner") if pod["status"]["phase"] == "Running"
    ]
    done = round_of(cluster.job(namespace, "moved"))
    with cordoned(second["spec"]["nodeName"]):  # an eviction from a cordoned node is what a drain does
        eviction = client.V1Eviction(metadata=client.V1ObjectMeta(name=second["metadata"]["name"]))
        cluster.core.create_namespaced_pod_eviction(second["metadata"]["name"], namespace, eviction)
        told = cluster.until_job(
            namespace, "moved", lambda job: says(job, "LearnerDisrupted", "at about"), what="the eviction"
        )
        assert second["metadata"]["name"] in told["message"]
        assert "EvictionByEvictionAPI" in told["message"]
        assert "exit code" not in told["message"], "that was the first pod's end"
        names = {pod["metadata"]["name"] for pod in (first, second)}
        third = next_learner(cluster, namespace, names)
        assert begun(third) >= due(told, third) - timedelta(seconds=1)
        if len(cluster.core.list_node().items) == 1:
            cluster.until_says(namespace, "moved", "Unschedulable", "the learner", "kubectl uncordon")
    cluster.until_round(namespace, "moved", done + 2)
    print("started after the time that was told, in seconds:", begun(third) - due(told, third))


@contextmanager
def cordoned(node: str) -> Iterator[None]:
    kubectl("cordon", node)
    try:
        yield
    finally:
        kubectl("uncordon", node)


def says_true(job: Object, kind: str) -> bool:
    conditions = job.get("status", {}).get("conditions") or []
    return any(one["type"] == kind and one["status"] == "True" for one in conditions)


def next_learner(cluster: Cluster, namespace: str, others: set[str]) -> Object:
    def new(pods: list[Object]) -> Object | None:
        return next((pod for pod in pods if pod["metadata"]["name"] not in others), None)

    return cluster.until(
        cluster.kind("v1", "Pod"),
        new,
        namespace=namespace,
        what="the next learner",
        selector=of_component("moved", "learner"),
    )


def begun(pod: Object) -> datetime:
    return datetime.fromisoformat(pod["metadata"]["creationTimestamp"]).astimezone(UTC)


def due(told: Object, pod: Object) -> datetime:
    """The time of the day that a condition names, on the day of the pod."""
    found = re.search(r"at about (\d\d):(\d\d):(\d\d) UTC", told["message"])
    assert found is not None, told["message"]
    hour, minute, second = map(int, found.groups())
    day = begun(pod).replace(hour=hour, minute=minute, second=second)
    return day if day - begun(pod) < timedelta(hours=12) else day - timedelta(days=1)
