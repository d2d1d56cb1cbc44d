"""What a ResourceQuota refuses is named with a remedy, and made as soon as there is room."""

from __future__ import annotations

import json

import pytest

from cluster_support import Cluster
from operator_support import Object, eventually, job

CLAIM, OBJECT = "delete a claim that nobody needs", "delete an object of that kind that nobody needs"


def full(cluster: Cluster, counted: str) -> None:
    """A quota that leaves no room for what it counts. No controller is here that would fill in its status."""
    hard = {counted: "0"}
    body: Object = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}}
    cluster.apply(body | {"spec": {"hard": hard}})
    used = json.dumps({"status": {"hard": hard, "used": hard}})
    cluster.kubectl("patch", "resourcequota", "none", "--subresource=status", "--type=merge", "-p", used)


@pytest.mark.parametrize(
    ("counted", "refused", "remedy"),
    [
        ("persistentvolumeclaims", "crowded-checkpoint", CLAIM),
        ("count/persistentvolumeclaims", "crowded-checkpoint", CLAIM),
        ("requests.storage", "crowded-checkpoint", "spec.learner.checkpoint.pvc.size"),
        ("count/secrets", "-credentials", OBJECT),
        ("count/serviceaccounts", "crowded-learner", OBJECT),
        ("services", "crowded-redis", OBJECT),
        ("count/jobs.batch", "crowded-learner", OBJECT),
        ("count/services.serving.knative.dev", "crowded-actors", OBJECT),
    ],
)
def test_a_quota_on_objects_names_what_it_refuses_and_what_to_do(
    cluster: Cluster, counted: str, refused: str, remedy: str
) -> None:
    full(cluster, counted)
    cluster.apply(job("crowded"))
    part = "ActorsReady" if "knative" in counted else "LearnerReady"

    def told() -> Object | None:
        found = cluster.condition("crowded", part)
        return found if found.get("reason") == "QuotaExceeded" else None

    said = eventually(told, what="QuotaExceeded")["message"]
    for words in (refused, f"{counted}=", "Raise the quota", remedy, "tried again by itself"):
        assert words in said
    cluster.kubectl("delete", "resourcequota", "none")
    cluster.start_learner("crowded")
    eventually(lambda: cluster.status("crowded")["phase"] == "Running")


def test_a_job_needs_no_configmap(cluster: Cluster) -> None:
    full(cluster, "count/configmaps")
    cluster.apply(job("frugal"))
    cluster.start_learner("frugal")
    cluster.start_knative("frugal")
    eventually(lambda: cluster.condition("frugal", "Ready").get("status") == "True")
