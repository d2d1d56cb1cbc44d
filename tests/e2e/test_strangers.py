"""A pod of another namespace without any credential, where nothing enforces NetworkPolicies."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from harness import Cluster, Object, is_ready, of_component, round_of
from jobs import hopper
from namespaces import RESTRICTED, Start

ATTACK_SECONDS = 75.0
"""Time of the attack. It takes half a minute to open all connections where nothing keeps them out."""
SOURCE = (Path(__file__).parents[1] / "support" / "strangers.py").read_text()
HELD = 12_000


@pytest.fixture
def elsewhere(cluster: Cluster) -> Iterator[str]:
    """Another namespace, with nothing in it."""
    name = f"e2e-{uuid.uuid4().hex[:6]}"
    cluster.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": RESTRICTED}}
    )
    yield name
    cluster.core.delete_collection_namespaced_pod(name, grace_period_seconds=0)
    cluster.core.delete_namespace(name)


def stranger(cluster: Cluster, targets: list[tuple[str, int, int]]) -> Object:
    """A pod that attacks: a container for each host, port and number of connections that it holds."""
    secure = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "stranger-"},
        "spec": {
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [
                {
                    "name": f"at-{index}",
                    "image": cluster.images["actor"],
                    "command": ["python", "-c", SOURCE, host, str(port), "", str(held), "0"],
                    "stdin": True,  # it ends when that does
                    "resources": {"requests": {"cpu": "5m", "memory": "32Mi"}},
                    "securityContext": secure,
                }
                for index, (host, port, held) in enumerate(targets)
            ],
        },
    }


def restarts(pods: list[Object]) -> dict[str, int]:
    """Pods by name, with the number of times that their containers were started again."""
    return {
        pod["metadata"]["name"]: sum(
            one.get("restartCount", 0)
            for kind in ("containerStatuses", "initContainerStatuses")
            for one in pod["status"].get(kind) or []
        )
        for pod in pods
    }


@pytest.mark.full
def test_strangers_stop_neither_a_run_nor_the_operator(
    cluster: Cluster, namespace: str, start: Start, elsewhere: str
) -> None:
    start("strange", hopper(rounds=2000, actors=(2, 3, 4)))
    cluster.until_round(namespace, "strange", 2)
    operators = cluster.kind("v1", "Pod").get(namespace=cluster.namespace, label_selector=cluster.operator)
    (learner,) = cluster.pods(namespace, "strange", "learner")
    (operator,) = [one.to_dict() for one in operators.items]
    # Others may still be on their way to a node.
    actor = next(pod for pod in cluster.pods(namespace, "strange", "actor") if is_ready(pod))
    redis = f"strange-redis.{namespace}.svc"
    before = restarts([learner, operator])
    for targets in (
        [(redis, 6379, HELD), (learner["status"]["podIP"], 9090, HELD)],
        [(redis, 6379, 100), (learner["status"]["podIP"], 9090, 100)],
        [(operator["status"]["podIP"], 8080, HELD), (operator["status"]["podIP"], 8081, HELD)],
        [(actor["status"]["podIP"], 8080, HELD)],
    ):
        cluster.create(stranger(cluster, targets), elsewhere)
    cluster.until(
        cluster.kind("v1", "Pod"),
        lambda pods: len(pods) == 4 and all(pod["status"].get("phase") == "Running" for pod in pods),
        namespace=elsewhere,
        what="the strangers are at work",
    )
    end = time.monotonic() + ATTACK_SECONDS
    while time.monotonic() < end:
        begun = round_of(cluster.job(namespace, "strange"))
        cluster.kill(namespace, of_component("strange", "actor"))  # the next ones must log in
        cluster.until_round(namespace, "strange", begun + 10)
    cluster.patch_job(namespace, "strange", {"stop": {"rounds": begun + 12}})
    cluster.until_phase(namespace, "strange", "Succeeded")
    seen = cluster.kind("v1", "Pod").get(namespace=cluster.namespace, label_selector=cluster.operator)
    ends = [*cluster.pods(namespace, "strange", "learner"), *(one.to_dict() for one in seen.items)]
    assert restarts(ends) == before, "nothing was started again, and one learner did it all"
