"""Sleepers on a node whose other pods use all cores: a lasting sleep, and the first request after it."""

from __future__ import annotations

import pytest
from harness import Cluster, Object, is_ready, round_of
from jobs import merged
from namespaces import Start
from napping import ASLEEP, napping, until_cpus

ACTORS = 16
BURNING_SECONDS = 120


def sleeping_long() -> Object:
    """A job of many actors whose update lasts longer than the node is busy."""
    few = {"minActors": ACTORS, "initialActors": ACTORS, "maxActors": ACTORS, "hold": 3600}
    slow = {"hyperparameters": {"epochs": 400, "minibatchSize": 8}}
    small = {"resources": {"requests": {"cpu": "50m"}}}
    return merged(napping(), {"scaling": few, "algorithm": slow, "actor": small})


def burner(cluster: Cluster, namespace: str, number: int) -> Object:
    """A pod that computes for BURNING_SECONDS, and is ended then."""
    rights = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True}
    rights |= {"runAsUser": 1000, "seccompProfile": {"type": "RuntimeDefault"}}
    container = {
        "name": "burner",
        "image": cluster.images["actor"],
        "command": ["python", "-c", "while True: pass"],
        "resources": {"requests": {"cpu": "5m", "memory": "32Mi"}},
        "securityContext": rights,
    }
    spec = {"containers": [container], "restartPolicy": "Never", "activeDeadlineSeconds": BURNING_SECONDS}
    meta = {"name": f"burner-{number}", "namespace": namespace, "labels": {"app": "burner"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


@pytest.mark.full
def test_sleepers_stay_ready_on_a_busy_node_and_the_first_request_after_it_is_answered(
    cluster: Cluster, namespace: str, start: Start
) -> None:
    start("naps", sleeping_long())
    cluster.until_round(namespace, "naps", 1)
    asleep = until_cpus(cluster, namespace, "naps", [ASLEEP] * ACTORS, "all sleep in an update")
    (node,) = {pod["spec"]["nodeName"] for pod in asleep}
    cores = int(cluster.core.read_node(node).status.capacity["cpu"])
    for number in range(2 * cores):
        cluster.create(burner(cluster, namespace, number))
    names, unready = {name_of(pod) for pod in asleep}, []

    def burnt(pods: list[Object]) -> bool:
        unready.extend(name_of(pod) for pod in pods if name_of(pod) in names and not is_ready(pod))
        ended = [pod["status"]["phase"] == "Failed" for pod in pods if name_of(pod).startswith("burner-")]
        return len(ended) == 2 * cores and all(ended)

    cluster.until(cluster.kind("v1", "Pod"), burnt, namespace=namespace, what="two minutes of work")
    assert unready == []
    done = round_of(cluster.job(namespace, "naps"))

    def goes_on(job: Object) -> bool:
        return round_of(job) > done

    cluster.until_job(namespace, "naps", goes_on, timeout=1200, what="a round after it")
    last = cluster.job(namespace, "naps")["status"]["training"]["history"][-1]
    assert (last["actors"], last["ready"]) == (ACTORS, ACTORS), "each was asked once"
    pods = cluster.pods(namespace, "naps", "actor")
    assert {pod["metadata"]["uid"] for pod in pods} == {pod["metadata"]["uid"] for pod in asleep}
    assert sum(one["restartCount"] for pod in pods for one in pod["status"]["containerStatuses"]) == 0


def name_of(pod: Object) -> str:
    name: str = pod["metadata"]["name"]
    return name
