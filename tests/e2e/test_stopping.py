"""Jobs that are to stop while something is in the way: a finalizer, a webhook that is away, no rights."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from harness import KNATIVE, Cluster, Object, kubectl, phase_of, round_of, says
from jobs import hopper
from monitoring import until
from namespaces import Start, new_namespace
from volumes import Disks

FEW = (2, 2, 2)
HOLDER = "drill.example/x"
ROUNDS_WITHOUT_RIGHTS = 30
RBAC = "rbac.authorization.k8s.io/v1"


@pytest.fixture(scope="module")
def training(cluster: Cluster, disks: Disks, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace with jobs that train, all started at once, because their tests mostly wait."""
    with new_namespace(cluster, disks, request.node) as (namespace, start):
        for name in ("held", "stuck", "without"):
            begin(start, name)
        yield namespace


def begin(start: Start, name: str) -> None:
    start(name, hopper(rounds=100_000, actors=FEW, scaling={"scaler": "fixed"}))


def finalizers(cluster: Cluster, namespace: str, name: str, *found: str) -> None:
    body = {"metadata": {"finalizers": list(found)}}
    merge = "application/merge-patch+json"
    cluster.jobs.patch(namespace=namespace, name=name, body=body, content_type=merge)


def paid(job: Object) -> Object | None:
    """The job once the operator has corrected its cost, which it does when the last pod is gone."""
    charged, existed = (job["status"][part]["podSeconds"] for part in ("cost", "actors"))
    return job if charged >= existed - 0.1 else None


def pods_left(cluster: Cluster, namespace: str, name: str) -> list[str]:
    """Pods that run. One that has ended costs nothing while its object goes."""
    pods = [pod for part in ("learner", "actor") for pod in cluster.pods(namespace, name, part)]
    ended = ("Succeeded", "Failed")
    return [pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] not in ended]


def test_a_deleted_job_that_a_finalizer_holds_stops_at_once(cluster: Cluster, training: str) -> None:
    cluster.until_round(training, "held", 2)
    finalizers(cluster, training, "held", HOLDER)
    cluster.jobs.delete(namespace=training, name="held")
    try:
        cluster.until_phase(training, "held", "Deleting")
        deleted = cluster.until_says(training, "held", "Deleted", HOLDER)
        assert deleted["type"] == "Ready"
        cluster.until_says(training, "held", "Deleted", "Its learner and its actors are gone.")
        assert pods_left(cluster, training, "held") == []
        stopped = cluster.until_job(training, "held", paid, what="its pods are paid")
        assert stopped["status"]["actors"]["podSeconds"] > 0
        assert stopped["status"]["actors"]["granted"] == 0
        assert stopped["status"]["training"]["round"] >= 2
        others = round_of(cluster.job(training, "stuck"))
        cluster.until_round(training, "stuck", others + 5)
        later = cluster.job(training, "held")
        for field in ("training", "cost"):
            assert later["status"].get(field) == stopped["status"].get(field), "nothing runs"
        assert later["status"]["actors"]["podSeconds"] == stopped["status"]["actors"]["podSeconds"]
    finally:
        finalizers(cluster, training, "held")


def test_a_job_is_not_called_suspended_while_knatives_webhook_is_away(
    cluster: Cluster, training: str
) -> None:
    cluster.until_round(training, "stuck", 2)
    with webhook_away(cluster):
        cluster.patch_job(training, "stuck", {"suspend": True})
        said = cluster.until_says(training, "stuck", "2 of the actors' pods are left", "webhook")
        assert said["status"] == "False"
        cluster.until_no_pods(training, "stuck", "learner")
        job = cluster.job(training, "stuck")
        assert phase_of(job) == "Stopping"
        assert job["status"]["actors"]["ready"] == 2
        assert len(cluster.pods(training, "stuck", "actor")) == 2
    left: list[str] = []

    def suspended(job: Object) -> bool:
        if phase_of(job) != "Suspended":
            return False
        left.extend(pods_left(cluster, training, "stuck"))
        return True

    cluster.until_job(training, "stuck", suspended, what="phase Suspended")
    assert left == [], "it is called suspended when its pods are gone"


def test_an_operator_without_rights_asks_seldom_and_goes_on_later(cluster: Cluster, training: str) -> None:
    cluster.until_round(training, "without", 2)
    operator = ("--namespace", cluster.namespace, "--selector", cluster.operator, "--tail=-1")
    with without_rights(cluster):
        begun, since = time.monotonic(), time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())

        def tries() -> int:
            log = kubectl("logs", *operator, f"--since-time={since}")
            return len(re.findall(rf"reconcile {training}/without failed", log))

        until(lambda: tries() > 0, "a write that is refused")
        done = round_of(cluster.job(training, "without"))
        cluster.until_round(training, "without", done + ROUNDS_WITHOUT_RIGHTS)
        failed, seconds = tries(), time.monotonic() - begun
    # The pauses after the tries are at least 0.5, 1, 2, 4 ... 30 s. With each round comes a report.
    assert failed <= 2 + math.log2(2 * seconds + 1) + seconds / 30, f"{failed} tries in {seconds:.0f} s"
    cluster.patch_job(training, "without", {"suspend": True})
    cluster.until_phase(training, "without", "Suspended")
    assert says(cluster.job(training, "without"), "Suspended")


@contextmanager
def webhook_away(cluster: Cluster) -> Iterator[None]:
    """Knative's webhook does not answer, as after a lost node."""
    scale(cluster, 0)
    try:
        yield
    finally:
        scale(cluster, 1)
        kubectl("--namespace", KNATIVE, "rollout", "status", "deployment/webhook", "--timeout=100s")


def scale(cluster: Cluster, replicas: int) -> None:
    kubectl("--namespace", KNATIVE, "scale", "deployment/webhook", f"--replicas={replicas}")
    cluster.until(
        cluster.kind("v1", "Pod"),
        lambda pods: len(pods) == replicas,
        namespace=KNATIVE,
        what=f"{replicas} of the webhook's pods",
        selector="app=webhook",
    )


@contextmanager
def without_rights(cluster: Cluster) -> Iterator[None]:
    """The operator's ClusterRoleBinding is deleted. Its Leases have rights of their own."""
    kind = cluster.kind(RBAC, "ClusterRoleBinding")
    bindings = kind.get(label_selector=cluster.operator.split(",")[0]).items
    saved = [binding.to_dict() for binding in bindings]
    assert saved, "the operator has no ClusterRoleBinding"
    for binding in saved:
        kind.delete(name=binding["metadata"]["name"])
        kept = ("name", "labels", "annotations")
        binding["metadata"] = {name: binding["metadata"].get(name) for name in kept}
    try:
        yield
    finally:
        for binding in saved:
            cluster.create(binding)
