"""What goes wrong ends in a condition that names cause and remedy, and heals when the cause goes."""

from __future__ import annotations

from collections.abc import Callable

from harness import Cluster, Object
from jobs import hopper

Start = Callable[[str, Object], Object]


def test_an_actor_image_that_crashes(cluster: Cluster, namespace: str, start: Start) -> None:
    # The operator's image, without its configuration, ends with an error at once.
    start("crash", hopper(actor={"image": cluster.images["operator"]}))
    found = cluster.until_says(namespace, "crash", "actor", "NITRO_ACTOR_IMAGE")
    assert found["status"] == "False"


def test_a_learner_image_that_cannot_be_pulled(cluster: Cluster, namespace: str, start: Start) -> None:
    start("pull", hopper(learner={"image": "dev.local/no-such-image:1"}))
    found = cluster.until_says(namespace, "pull", "dev.local/no-such-image:1")
    assert found["status"] == "False"


def test_an_actor_with_too_little_memory(cluster: Cluster, namespace: str, start: Start) -> None:
    little = {"requests": {"cpu": "5m", "memory": "24Mi"}, "limits": {"memory": "24Mi"}}
    start("small", hopper(actor={"resources": little}))
    found = cluster.until_says(namespace, "small", "OOMKilled")
    assert "spec.actor.resources" in found["message"]


def test_a_quota_of_three_pods(cluster: Cluster, namespace: str, start: Start) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few"},
        "spec": {"hard": {"pods": "3"}},
    }
    cluster.create(quota, namespace)
    start("quota", hopper(rounds=3))
    cluster.until_says(namespace, "quota", "quota")
    cluster.delete("v1", "ResourceQuota", namespace, "few")
    cluster.until_phase(namespace, "quota", "Succeeded")


def test_a_secret_that_is_deleted_by_hand(cluster: Cluster, namespace: str, start: Start) -> None:
    start("secret", hopper(rounds=16))
    cluster.until_round(namespace, "secret", 2)
    cluster.delete("v1", "Secret", namespace, "secret-credentials")
    cluster.until_phase(namespace, "secret", "Succeeded")
