"""Actor pods as what is paid: those that start and drain too, against a real API server's own history."""

from __future__ import annotations

import contextlib
import json
import statistics
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import urllib3

from apiserver import ApiServer
from cluster_support import Cluster
from nitro_operator.kube.kinds import POD
from operator_support import Object, OperatorProcess, eventually, install_knative, job

LIMIT = 12
NODE = "no-such-node"


@pytest.fixture(scope="module")
def operator(apiserver: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorProcess]:
    install_knative(apiserver)
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    with OperatorProcess(apiserver.kubeconfig, log, NITRO_PLATFORM_MAX_ACTORS=str(LIMIT)) as process:
        yield process


class PodHistory:
    """Every actor pod of a namespace, from the API server's own watch: when it came and when it was gone."""

    def __init__(self, server: ApiServer, namespace: str) -> None:
        self._came: dict[str, float] = {}
        self._asked: dict[str, float] = {}
        self._gone: dict[str, float] = {}
        pool = urllib3.PoolManager(
            ca_certs=str(server.ca), headers={"Authorization": f"Bearer {server.token}"}
        )
        query = "watch=true&labelSelector=app.kubernetes.io/component%3Dactor"
        url = f"{server.url}{POD.path(namespace)}?{query}"
        self._answer = pool.request("GET", url, preload_content=False, timeout=280)
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        rest = b""
        with contextlib.suppress(urllib3.exceptions.HTTPError):  # the API server ends before this process
            for chunk in self._answer.stream(amt=None):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    self._take(json.loads(line))

    def _take(self, event: Object) -> None:
        uid = event["object"]["metadata"]["uid"]
        started = (event["object"].get("status") or {}).get("startTime")
        if started is not None:
            self._came[uid] = datetime.fromisoformat(started).timestamp()
        if event["type"] == "DELETED":
            self._gone[uid] = time.time()
        elif "deletionTimestamp" in event["object"]["metadata"]:
            self._asked.setdefault(uid, time.time())

    @property
    def ended(self) -> int:
        return len(self._gone)

    def drains(self) -> list[float]:
        """Seconds that pods took to go which were asked to."""
        return [self._gone[uid] - asked for uid, asked in self._asked.items()]

    def seconds(self) -> float:
        return sum(gone - self._came[uid] for uid, gone in self._gone.items())


def running(cluster: Cluster, name: str, **spec: object) -> None:
    cluster.apply(job(name, **spec))
    cluster.start_learner(name)
    cluster.start_knative(name)
    eventually(lambda: cluster.status(name)["phase"] == "Running", what="phase Running")


def actors(cluster: Cluster, name: str) -> Object:
    found: Object = cluster.status(name)["actors"]
    return found


def ask_to_go(cluster: Cluster, pod: Object) -> None:
    cluster.kubectl("delete", "pod", pod["metadata"]["name"], "--wait=false")


def end(cluster: Cluster, pod: Object) -> None:
    """As the kubelet does when all containers have ended."""
    cluster.kubectl("delete", "pod", pod["metadata"]["name"], "--force", "--grace-period=0")


def test_what_is_paid_is_what_the_api_s_pod_history_adds_up_to(
    cluster: Cluster, apiserver: ApiServer
) -> None:
    history = PodHistory(apiserver, cluster.namespace)
    running(cluster, "paid")
    pods = [cluster.add_actor("paid", node=NODE) for _ in range(3)]
    began = time.monotonic()
    eventually(lambda: time.monotonic() > began + 4)
    for pod in pods:  # as on a busy node, whose kubelet reports late
        cluster.report_actor(pod, startTime=pod["metadata"]["creationTimestamp"])
    eventually(lambda: actors(cluster, "paid")["ready"] == 3)
    assert actors(cluster, "paid")["started"] == 3
    for pod in pods[:2]:
        ask_to_go(cluster, pod)
    eventually(lambda: actors(cluster, "paid")["draining"] == 2)
    assert actors(cluster, "paid")["ready"] == 1, "a pod that is going takes no requests, and is paid"
    began = time.monotonic()
    eventually(lambda: time.monotonic() > began + 3)
    for pod in pods:
        end(cluster, pod)
    eventually(lambda: history.ended == 3 and actors(cluster, "paid")["draining"] == 0)
    cluster.report("paid", round=1, requestedActors=9, busySeconds=2.0)
    eventually(lambda: actors(cluster, "paid")["requested"] == 9)
    found = actors(cluster, "paid")
    assert found["podSeconds"] == pytest.approx(history.seconds(), abs=6), "to two seconds a pod"
    assert found["idlePercent"] == pytest.approx(100 * (1 - 2 / found["podSeconds"]), abs=1)
    drain = statistics.median(history.drains())
    assert found["drainSeconds"] == pytest.approx(drain, abs=3), (
        "measured, in whole seconds, of this very job"
    )


def test_a_restarted_operator_goes_on_from_the_counts_in_the_status(
    cluster: Cluster, operator: OperatorProcess
) -> None:
    running(cluster, "counted")
    first = cluster.start_actor("counted", node=NODE)
    eventually(lambda: actors(cluster, "counted").get("started") == 1)
    operator.kill()
    written = datetime.now(UTC)
    eventually(lambda: datetime.now(UTC) >= written + timedelta(seconds=2), what="whole seconds differ")
    second = cluster.start_actor("counted", node=NODE)
    operator.start()
    eventually(lambda: actors(cluster, "counted")["started"] == 2)
    for pod in (first, second):
        end(cluster, pod)


def test_pods_that_are_going_delay_another_job_and_take_nothing_away(cluster: Cluster) -> None:
    running(cluster, "leaving", scaling={"scaler": "nitro", "minActors": 8, "maxActors": 8})
    pods = [cluster.start_actor("leaving", node=NODE) for _ in range(8)]
    eventually(lambda: actors(cluster, "leaving")["ready"] == 8)
    for pod in pods:
        ask_to_go(cluster, pod)
    eventually(lambda: actors(cluster, "leaving")["draining"] == 8)
    assert actors(cluster, "leaving")["granted"] == 8
    cluster.kubectl("delete", "ntj", "leaving", "--cascade=background", "--wait=false")
    scaling = {"scaler": "nitro", "minActors": 4, "initialActors": 8, "maxActors": 8}
    cluster.apply(job("coming", scaling=scaling))
    cluster.start_learner("coming")
    cluster.start_knative("coming")
    eventually(lambda: actors(cluster, "coming")["granted"] == 4, what="twelve less the eight that are going")
    for pod in pods:
        end(cluster, pod)
    eventually(lambda: actors(cluster, "coming")["granted"] == 8, what="they are gone")
