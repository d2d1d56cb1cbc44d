"""Actors that cannot sleep, on a real API server: they stay awake, and a condition says once why."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from apiserver import ApiServer
from cluster_support import Cluster
from kubelet_support import AWAKE, Kubelet
from operator_support import Object, OperatorProcess, eventually
from sleep_support import Learner, actors, running

RULES = Path(__file__).parents[2] / "charts" / "nitro" / "templates" / "_rules.tpl"
GUARANTEED: Object = {"cpu": AWAKE, "memory": "64Mi"}
LIMIT_RANGE: Object = {
    "apiVersion": "v1",
    "kind": "LimitRange",
    "metadata": {"name": "large"},
    "spec": {"limits": [{"type": "Container", "min": {"cpu": "10m"}}]},
}


def stays_awake(cluster: Cluster, name: str, learner: Learner, kubelet: Kubelet, reason: str) -> str:
    """The message with which a condition says, once in several gaps, why no actor sleeps."""
    for _ in range(3):
        learner.samples()
        eventually(lambda: actors(cluster, name)["awake"] == 4, what="all work")
        learner.updates(seconds=20)
        eventually(lambda: cluster.condition(name, "ActorsReady")["reason"] == reason, what=reason)
    condition = cluster.condition(name, "ActorsReady")
    assert condition["status"] == "True", "they are ready, and held in a short gap"
    assert cluster.scale(name)[0] == "4"
    assert kubelet.cpus() == [AWAKE] * 4
    eventually(lambda: "addresses" not in actors(cluster, name), what="no addresses")
    events = cluster.kubectl("get", "events", "-o", "json")
    assert events.count(f'"reason": "{reason}"') == 1
    message: str = condition["message"]
    return message


@pytest.mark.parametrize(
    ("container", "others", "reason", "words"),
    [
        pytest.param(
            None, [LIMIT_RANGE], "ResizeRefused", "minimum cpu usage per Container is 10m", id="LimitRange"
        ),
        pytest.param(
            {"resources": {"requests": GUARANTEED, "limits": GUARANTEED}},
            [],
            "ResizeRefused",
            "Pod QOS Class may not change",
            id="Guaranteed",
        ),
        pytest.param(
            {"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]},
            [],
            "ResizeRestarts",
            "resizePolicy RestartContainer",
            id="RestartContainer",
        ),
    ],
)
def test_where_something_forbids_sleep(
    cluster: Cluster, container: Object | None, others: list[Object], reason: str, words: str
) -> None:
    for one in others:
        cluster.apply(one)
    with running(cluster, "awake", container=container) as (learner, kubelet):
        assert words in stays_awake(cluster, "awake", learner, kubelet, reason)


def test_without_the_right_long_gaps_are_let_go(
    apiserver: ApiServer, cluster: Cluster, operator: OperatorProcess, tmp_path: Path
) -> None:
    account = "without-resize"
    kubeconfig = apiserver.kubeconfig_of(account, cluster.namespace)
    name = f"{cluster.namespace}-{account}"
    role: Object = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}
    role |= {"metadata": {"name": name}, "rules": rules_of_the_chart(but="pods/resize")}
    apiserver.kubectl("apply", "-f", "-", input=json.dumps(role))
    subject = f"--serviceaccount={cluster.namespace}:{account}"
    apiserver.kubectl("create", "clusterrolebinding", name, f"--clusterrole={name}", subject)
    operator.stop()
    try:
        with (
            OperatorProcess(kubeconfig, tmp_path / "log"),
            running(cluster, "forbidden") as (learner, kubelet),
        ):
            message = stays_awake(cluster, "forbidden", learner, kubelet, "ResizeForbidden")
            assert 'cannot patch resource "pods/resize"' in message
            assert "Grant it" in message
            learner.samples()
            learner.updates(seconds=5000)
            eventually(lambda: cluster.scale("forbidden")[0] == "0", what="a gap of more than a cycle")
    finally:
        operator.start()


def rules_of_the_chart(but: str) -> list[Object]:
    """What the chart grants with all switches on, but for one resource."""
    text = RULES.read_text().partition('define "nitro.rules" -}}')[2].partition("{{- end -}}")[0]
    found = yaml.safe_load(re.sub(r"\{\{.*?\}\}", "", text))
    assert any(but in rule["resources"] for rule in found)
    leases = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}
    leases["verbs"] = ["list", "create", "patch"]
    kinds = {"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"]}
    kinds["verbs"] = ["get", "list", "watch"]
    return [leases, kinds, *(rule for rule in found if but not in rule["resources"])]
