"""What goes wrong ends in a condition that names cause and remedy, and heals when the cause goes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from harness import Cluster, training
from jobs import hopper
from namespaces import Start, new_namespace
from volumes import Disks

FEW = (1, 2, 3)
LITTLE = {"requests": {"cpu": "5m", "memory": "24Mi"}, "limits": {"memory": "24Mi"}}

MAPS = {
    "volumes": [{"name": "maps", "configMap": {"name": "maps"}}],
    "volumeMounts": [{"name": "maps", "mountPath": "/maps", "readOnly": True}],
}
"""A volume of a ConfigMap that nobody has made."""


@pytest.fixture(scope="class")
def ill(cluster: Cluster, disks: Disks, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace with jobs that cannot run, all started at once, because their tests mostly wait."""
    with new_namespace(cluster, disks, request.node) as (namespace, start):
        # The operator's image, without its configuration, ends with an error at once.
        start("crash", hopper(actors=FEW, actor={"image": cluster.images["operator"]}))
        start("pull", hopper(actors=FEW, learner={"image": "dev.local/no-such-image:1"}))
        start("small", hopper(actors=FEW, actor={"resources": LITTLE}))
        start("held", hopper(actors=FEW, learner=MAPS, actor=MAPS))
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

    def test_pods_of_which_a_volume_is_missing(self, cluster: Cluster, ill: str) -> None:
        for part in ("the learner", "an actor"):
            found = cluster.until_says(ill, "held", "PodNotStarted", f"of {part} cannot begin")
            assert 'configmap "maps" not found' in found["message"]

    def test_a_learner_image_without_rllib_says_what_is_missing(self, cluster: Cluster, ill: str) -> None:
        job = cluster.until_phase(ill, "rllib", "Failed")
        (failed,) = [one for one in job["status"]["conditions"] if one["type"] == "Failed"]
        assert "needs Ray's RLlib, which is not installed" in failed["message"]
        assert "--build-arg EXTRAS=rllib" in failed["message"]


LIMITS = {
    "limits.cpu": "64",
    "limits.memory": "64Gi",
    "requests.cpu": "4",
    "requests.memory": "16Gi",
}
"""What a namespace's pods may have together. Each container must name its own."""
DEFAULTS = {
    "type": "Container",
    "default": {"cpu": "1", "memory": "256Mi", "ephemeral-storage": "1Gi"},
    "defaultRequest": {"cpu": "25m", "memory": "64Mi"},
    "maxLimitRequestRatio": {"memory": "4"},
}
"""The LimitRange of docs/operations.md, for Knative's queue-proxy, and a bound for everybody."""
NOWHERE = "http://192.0.2.1:3128"
"""An address of which the standard says that nobody has it."""


def given(cpu: str, memory: str) -> dict[str, dict[str, str]]:
    """Resources with all limits that such a quota wants."""
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"cpu": "1", "memory": "1Gi"}}


def test_quotas_of_pods_and_limits_and_a_dead_proxy(cluster: Cluster, namespace: str, start: Start) -> None:
    for name, hard in (("few", {"pods": "3"}), ("limits", LIMITS)):
        body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}}
        cluster.create(body | {"spec": {"hard": hard}}, namespace)
    body = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "defaults"}}
    cluster.create(body | {"spec": {"limits": [DEFAULTS]}}, namespace)
    dead = [{"name": name, "value": NOWHERE} for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY")]
    learner = {"resources": given("10m", "512Mi"), "env": dead}
    spec = hopper(rounds=3, actor={"resources": given("5m", "256Mi")}, learner=learner)
    start("quota", spec)
    cluster.until_says(namespace, "quota", "quota", "requested: pods=1")
    cluster.delete("v1", "ResourceQuota", namespace, "few")
    job = cluster.until_phase(namespace, "quota", "Succeeded")
    assert [entry["round"] for entry in training(job)["history"]] == [1, 2, 3]
