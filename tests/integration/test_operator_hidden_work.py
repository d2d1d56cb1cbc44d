"""Work that a learner hides from the operator: sleepers that work are found by what the cluster measures."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from apiserver import ApiServer
from cluster_support import Cluster
from kubelet_support import ASLEEP, AWAKE
from nitro_operator.kube.kinds import POD_METRICS
from operator_support import Object, OperatorProcess, eventually
from sleep_support import actors, exhaust_quota, sleeping, states

IDLE, WORKING = 0.003, 0.2
"""What an actor uses that waits for a request, and one that samples. Unit: vCPU."""


@pytest.fixture(scope="module", autouse=True)
def metrics_api(apiserver: ApiServer) -> Iterator[None]:
    """The metrics API, without a server of its own behind it: its objects are stored like others."""
    names = {"plural": POD_METRICS.plural, "singular": "podmetrics", "kind": POD_METRICS.kind}
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version: Object = {"name": POD_METRICS.version, "served": True, "storage": True}
    version["schema"] = {"openAPIV3Schema": anything}
    meta = {
        "name": f"{POD_METRICS.plural}.{POD_METRICS.group}",
        "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
    }
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": meta,
        "spec": {"group": POD_METRICS.group, "scope": "Namespaced", "names": names, "versions": [version]},
    }
    apiserver.kubectl("apply", "-f", "-", input=json.dumps(definition))
    eventually(lambda: apiserver.request("GET", POD_METRICS.path("default")), what="the metrics API")
    # kubectl checks objects against it, and a busy server is long about making it anew.
    eventually(lambda: apiserver.kubectl("get", "--raw", "/openapi/v2"), what="the schemas of all kinds")
    yield
    apiserver.kubectl("delete", "crd", meta["name"])


def awake_seconds(cluster: Cluster, name: str) -> float:
    """What was metered as awake. Unit: vCPU-seconds."""
    found: float = actors(cluster, name)["vcpuSeconds"]["awake"]
    return found


def test_a_learner_that_always_says_zero_has_its_sleepers_metered_and_kept_awake(cluster: Cluster) -> None:
    """It never says that a round has ended, either."""
    with sleeping(cluster, "hides") as (_, kubelet):
        kubelet.used = WORKING
        eventually(lambda: kubelet.cpus() == [AWAKE] * 4, what="awake, and so limited by the grant")
        eventually(lambda: states(cluster, "hides") == (4, 0, 0), what="the numbers")
        condition = cluster.condition("hides", "ActorsReady")
        assert (condition["status"], condition["reason"]) == ("True", "SleepersWork")
        assert "without saying so" in condition["message"]
        events = cluster.kubectl("get", "events", "-o", "json")
        assert events.count('"reason": "SleepersWork"') == 1


def test_work_of_sleepers_that_cannot_wake_is_metered_as_awake(cluster: Cluster) -> None:
    """Their learner names it: it is as many as it was granted."""
    with sleeping(cluster, "named") as (learner, kubelet):
        exhaust_quota(cluster, "4m", "4m")
        learner.samples()
        eventually(lambda: states(cluster, "named") == (0, 4, 4), what="no room in the quota")
        before = awake_seconds(cluster, "named")
        kubelet.used = WORKING
        eventually(lambda: awake_seconds(cluster, "named") > before + 20, what="two looks at four pods")
        assert kubelet.cpus() == [ASLEEP] * 4
        assert cluster.condition("named", "ActorsReady")["reason"] == "WakeDeferred"


def test_idle_sleepers_are_left_alone(cluster: Cluster, operator: OperatorProcess) -> None:
    with sleeping(cluster, "idles") as (_, kubelet):
        eventually(lambda: states(cluster, "idles") == (0, 4, 0), what="all sleep")
        before = awake_seconds(cluster, "idles")
        kubelet.used = IDLE
        looks = operator.requests("GET")
        eventually(lambda: operator.requests("GET") >= looks + 4, what="looks at the sleepers")
        assert awake_seconds(cluster, "idles") < before + 4, "and not the 15 that a look would add"
        assert kubelet.cpus() == [ASLEEP] * 4
