"""What goes wrong ends in a condition that names cause and remedy, and heals when the cause goes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from harness import Cluster
from jobs import hopper
from namespaces import Start, new_namespace
from volumes import Disks

FEW = (1, 2, 3)
LITTLE = {"requests": {"cpu": "5m", "memory": "24Mi"}, "limits": {"memory": "24Mi"}}


@pytest.fixture(scope="class")
def ill(cluster: Cluster, disks: Disks, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace with jobs that cannot run, all started at once, because their tests mostly wait."""
    with new_namespace(cluster, disks, request.node) as (namespace, start):
        # The operator's image, without its configuration, ends with an error at once.
        start("crash", hopper(actors=FEW, actor={"image": cluster.images["operator"]}))
        start("pull", hopper(actors=FEW, learner={"image": "dev.local/no-such-image:1"}))
        start("small", hopper(actors=FEW, actor={"resources": LITTLE}))
        start("rllib", hopper(actors=FEW, algorithm={"name": "rllib/ppo"}))
        yield namespace


class TestCannotRun:
    def test_an_actor_image_that_crashes(self, cluster: Cluster, ill: str) -> None:
        found = cluster.until_says(ill, "crash", "actor", "NITRO_ACTOR_IMAGE")
        assert found["status"] == "False"

    def test_a_learner_image_that_cannot_be_pulled(self, cluster: Cluster, ill: str) -> None:
        found = cluster.until_says(ill, "pull", "dev.local/no-such-image:1")
        assert found["status"] == "False"

    def test_an_actor_with_too_little_memory(self, cluster: Cluster, ill: str) -> None:
        found = cluster.until_says(ill, "small", "OOMKilled")
        assert "spec.actor.resources" in found["message"]

    def test_a_learner_image_without_rllib_says_what_is_missing(self, cluster: Cluster, ill: str) -> None:
        job = cluster.until_phase(ill, "rllib", "Failed")
        (failed,) = [one for one in job["status"]["conditions"] if one["type"] == "Failed"]
        assert "needs Ray's RLlib, which is not installed" in failed["message"]
        assert "--build-arg EXTRAS=rllib" in failed["message"]


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
