"""The operator away, killed, without Knative, and short of actors: nothing is doubled, lost or exceeded."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from apiserver import ApiServer
from cluster_support import Cluster
from operator_support import (
    JOB,
    Object,
    OperatorProcess,
    eventually,
    install_knative,
    job,
    knative_definitions,
)

LIMIT = 20
RESYNCED = "\nnitro_operator_resync_timestamp_seconds "
KNATIVE = "services.serving.knative.dev"


@pytest.fixture(scope="module")
def apiserver(own_apiserver: ApiServer) -> ApiServer:
    """One whose Knative is installed and removed."""
    return own_apiserver


@pytest.fixture(scope="module")
def start_operator(
    apiserver: ApiServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., OperatorProcess]]:
    """Starts operators and ends them after the module."""
    started: list[OperatorProcess] = []

    def start(*, ready: bool = True, **environment: str) -> OperatorProcess:
        log = tmp_path_factory.mktemp("operator") / "operator.log"
        process = OperatorProcess(
            apiserver.kubeconfig, log, NITRO_PLATFORM_MAX_ACTORS=str(LIMIT), **environment
        )
        process.start(ready=ready)
        started.append(process)
        return process

    yield start
    for process in started:
        process.stop()


@pytest.fixture
def cluster(apiserver: ApiServer, namespace: str) -> Cluster:
    return Cluster(apiserver, namespace)


def remove_knative(apiserver: ApiServer) -> None:
    names = [definition["metadata"]["name"] for definition in knative_definitions()]
    apiserver.kubectl("delete", "crd", *names)


FOLLOWING = {**JOB["spec"]["scaling"], "hold": 0}
"""Actors follow the requests at once: these tests are not about how long idle ones are held."""


def running(cluster: Cluster, name: str, **spec: object) -> Object:
    cluster.apply(job(name, **spec))
    pod = cluster.start_learner(name)
    cluster.start_knative(name)
    eventually(lambda: cluster.status(name)["phase"] == "Running")
    return pod


def uids(cluster: Cluster) -> set[str]:
    kinds = (
        "jobs",
        "services",
        "secrets",
        "serviceaccounts",
        "roles",
        "rolebindings",
        "networkpolicies",
        "pvc",
    )
    found = cluster.list(*kinds, KNATIVE, "revisions.serving.knative.dev")
    return {f"{child['kind']}/{child['metadata']['name']}/{child['metadata']['uid']}" for child in found}


def test_knative_missing_old_installed_and_removed(
    apiserver: ApiServer, cluster: Cluster, start_operator: Callable[..., OperatorProcess]
) -> None:
    operator = start_operator()
    cluster.apply(job("early"))
    eventually(lambda: cluster.condition("early", "Ready").get("reason") == "KnativeMissing")
    said = cluster.condition("early", "Ready")["message"]
    assert "1.21 or newer" in said
    assert cluster.status("early")["phase"] == "Pending"
    assert cluster.get("job", "early-learner") is None, "no GPU is taken for a run that cannot start"
    install_knative(apiserver, "1.20.2")
    eventually(lambda: cluster.condition("early", "Ready").get("reason") == "KnativeTooOld")
    assert "1.20.2" in cluster.condition("early", "Ready")["message"]
    install_knative(apiserver)
    eventually(lambda: cluster.get("job", "early-learner"), what="start once Knative is there")
    cluster.start_learner("early")
    cluster.start_knative("early")
    eventually(lambda: cluster.scale("early") == ("8", "8"))
    pid = operator.pid
    remove_knative(apiserver)
    eventually(lambda: cluster.condition("early", "ActorsReady").get("reason") == "KnativeMissing")
    assert cluster.status("early")["phase"] == "Running"
    install_knative(apiserver)
    eventually(lambda: cluster.get(KNATIVE, "early-actors"))
    cluster.start_knative("early")
    cluster.report("early", round=1, requestedActors=8)  # its heartbeat may be overdue by now
    eventually(lambda: cluster.condition("early", "Ready").get("status") == "True")
    assert operator.pid == pid
    assert operator.get(operator.health_port, "/healthz"), operator.log()[-3000:]
    operator.stop()


def test_an_operator_that_is_killed_again_and_again_changes_nothing(
    apiserver: ApiServer, cluster: Cluster, start_operator: Callable[..., OperatorProcess]
) -> None:
    install_knative(apiserver)
    operator = start_operator()
    running(cluster, "steady", scaling=FOLLOWING)
    eventually(lambda: cluster.scale("steady") == ("8", "8"))
    operator.wait_for_resyncs(2)
    before = uids(cluster)
    versions = {
        c["metadata"]["name"]: c["metadata"]["resourceVersion"]
        for c in cluster.list("services", "roles", "secrets")
    }
    for turn in range(4):
        operator.kill()
        # What happens while nobody looks is acted on afterwards.
        cluster.report("steady", round=turn + 1, requestedActors=5 + turn, boostingScore=0.5)
        operator.start()
        wanted = str(5 + turn)
        eventually(lambda wanted=wanted: cluster.scale("steady") == (wanted, wanted))
        assert cluster.status("steady")["phase"] == "Running"
        operator.wait_for_resyncs(turn % 2)  # it is killed at once, or when it has looked at all again
    assert uids(cluster) == before
    after = {
        c["metadata"]["name"]: c["metadata"]["resourceVersion"]
        for c in cluster.list("services", "roles", "secrets")
    }
    assert after == versions, "a restart writes nothing that is there already"
    operator.stop()


def test_a_job_can_be_deleted_while_the_operator_is_away_and_made_again(
    apiserver: ApiServer, cluster: Cluster, start_operator: Callable[..., OperatorProcess]
) -> None:
    install_knative(apiserver)
    operator = start_operator()
    pod = running(cluster, "gone")
    eventually(lambda: 'nitro_job_status_actors_granted{job_name="gone"' in operator.metrics())
    operator.kill()
    cluster.kubectl("delete", "ntj", "gone", "--timeout=120s")
    assert cluster.get("ntj", "gone") is None
    operator.start()
    assert 'job_name="gone"' not in operator.metrics()
    # A new job of the same name waits for the old one's learner to go, then starts its own.
    old = (cluster.get("job", "gone-learner") or {})["metadata"]["uid"]
    cluster.apply(job("gone"))
    eventually(lambda: "deleted job" in cluster.condition("gone", "LearnerReady").get("message", ""))
    cluster.kubectl("delete", "job", "gone-learner", "--cascade=background")
    cluster.kubectl("delete", KNATIVE, "gone-actors")
    cluster.kubectl("delete", "revisions.serving.knative.dev", "gone-actors-v1")
    cluster.kubectl("delete", "pod", pod["metadata"]["name"], "--force", "--grace-period=0")
    new = eventually(lambda: cluster.get("job", "gone-learner"))
    assert new["metadata"]["uid"] != old
    owner = (cluster.get("service", "gone-redis") or {})["metadata"]["ownerReferences"]
    assert [ref["uid"] for ref in owner] == [(cluster.get("ntj", "gone") or {})["metadata"]["uid"]]
    operator.stop()


def test_two_jobs_share_the_limit_in_every_observation(
    apiserver: ApiServer, cluster: Cluster, start_operator: Callable[..., OperatorProcess]
) -> None:
    install_knative(apiserver)
    operator = start_operator()
    scaling = {"scaler": "nitro", "minActors": 4, "initialActors": 8, "maxActors": 16}
    for name in ("one", "two"):
        running(cluster, name, scaling=scaling)
    cluster.apply(job("three", scaling={"minActors": 14, "initialActors": 14, "maxActors": 16}))
    eventually(lambda: cluster.condition("three", "Ready").get("reason") == "PlatformLimit")
    assert cluster.status("three")["phase"] == "Pending"
    requests = [(16, 4, 0.9, 0.1), (4, 16, 0.1, 0.9), (16, 16, 0.2, 0.8), (4, 4, 0.5, 0.5)]
    for turn, (first, second, score_one, score_two) in enumerate(requests):
        cluster.report("one", round=turn, requestedActors=first, boostingScore=score_one)
        cluster.report("two", round=turn, requestedActors=second, boostingScore=score_two)
        settled = {"requested": [first, second]} | ({"granted": [4, 16]} if turn == 2 else {})
        looks_after, deadline = 20, time.monotonic() + 280
        while looks_after:
            actors = {
                j["metadata"]["name"]: j.get("status", {}).get("actors", {}) for j in cluster.list("ntj")
            }
            granted = [of_job.get("granted", 0) for of_job in actors.values()]
            assert sum(granted) <= LIMIT, granted
            scales = [r["metadata"]["annotations"] for r in cluster.list("revisions.serving.knative.dev")]
            held = [int(a["autoscaling.knative.dev/min-scale"]) for a in scales]
            assert sum(held) <= LIMIT, held
            if all([actors[n].get(key) for n in ("one", "two")] == value for key, value in settled.items()):
                looks_after -= 1
            assert time.monotonic() < deadline, (settled, actors)
    cluster.patch_spec("two", suspend=True)
    eventually(lambda: cluster.get("job", "three-learner"), what="the third starts when the second has gone")
    operator.stop()


@pytest.fixture
def newer_definition(apiserver: ApiServer) -> Iterator[None]:
    """The definition of a later release: it has a field that this operator does not know."""

    def add(schema: Any) -> None:
        schema["properties"]["spec"]["properties"]["novelty"] = {"type": "integer"}

    with apiserver.changed_schema(add):
        yield


@pytest.mark.usefixtures("newer_definition")
def test_a_running_job_that_the_operator_cannot_read_keeps_its_grant_until_it_is_suspended(
    apiserver: ApiServer, cluster: Cluster, start_operator: Callable[..., OperatorProcess]
) -> None:
    install_knative(apiserver)
    operator = start_operator()
    running(cluster, "later", scaling=FOLLOWING)
    eventually(lambda: cluster.scale("later") == ("8", "8"))

    def unreadable() -> bool:
        cluster.patch_spec("later", novelty=1)  # the new schema may not be served yet
        return bool(cluster.condition("later", "Ready").get("reason") == "InvalidSpec")

    eventually(unreadable)
    assert "spec.novelty" in cluster.condition("later", "Ready")["message"]
    cluster.apply(job("next", scaling={"minActors": 14, "initialActors": 14, "maxActors": 16}))
    eventually(lambda: cluster.condition("next", "Ready").get("reason") == "PlatformLimit")
    for _ in range(2):
        operator.wait_for_resyncs(2)
        assert cluster.status("later")["phase"] == "Running"
        assert cluster.status("later")["actors"]["granted"] == 8
        assert cluster.scale("later") == ("8", "8")
        assert cluster.get("job", "next-learner") is None, "the limit is not exceeded"
        operator.kill()
        operator.start()  # as an operator that was older than the stored jobs from the start
    cluster.patch_spec("later", suspend=True)
    eventually(lambda: cluster.get("job", "next-learner"), what="the next job starts in its place")
    assert cluster.scale("later") == ("0", "1")
    assert "deletionTimestamp" in (cluster.get("job", "later-learner") or {})["metadata"]
    operator.stop()


def test_of_two_operators_one_writes_and_a_node_that_comes_back_does_not(
    apiserver: ApiServer, cluster: Cluster, start_operator: Callable[..., OperatorProcess], tmp_path: Path
) -> None:
    install_knative(apiserver)
    first = start_operator()
    running(cluster, "kept", scaling=FOLLOWING)
    eventually(lambda: cluster.scale("kept") == ("8", "8"))
    second = OperatorProcess(apiserver.kubeconfig, tmp_path / "second.log")
    second.start(ready=False)
    eventually(lambda: "waits for its Lease" in second.log())
    assert RESYNCED in first.metrics()
    waiting = second.metrics()
    assert "nitro_operator_queued_jobs" in waiting
    assert RESYNCED not in waiting, "it is not stuck, and not the operator that works"
    os.kill(first.pid, signal.SIGSTOP)  # its node is lost
    try:
        eventually(lambda: second.get(second.health_port, "/readyz"), what="the second takes over")
        assert RESYNCED in second.metrics()
        cluster.report("kept", round=1, requestedActors=6)
        eventually(lambda: cluster.scale("kept") == ("6", "6"))
    finally:
        os.kill(first.pid, signal.SIGCONT)  # and comes back
    # It would undo what is done behind its back, and it must not.
    eventually(lambda: "this operator writes nothing any more" in first.log())
    before = first.requests("PATCH"), first.requests("POST")
    cluster.report("kept", round=2, requestedActors=7)
    eventually(lambda: cluster.scale("kept") == ("7", "7"))
    second.stop()
    cluster.report("kept", round=3, requestedActors=5)
    first.wait_for_resyncs(2)
    assert cluster.scale("kept") == ("7", "7"), "nobody writes"
    assert (first.requests("PATCH"), first.requests("POST")) == before
    assert not first.get(first.health_port, "/healthz"), "the kubelet starts it again"
    first.stop()


def test_an_operator_of_the_whole_cluster_and_one_of_a_namespace_exclude_each_other(
    apiserver: ApiServer, cluster: Cluster, start_operator: Callable[..., OperatorProcess]
) -> None:
    install_knative(apiserver)
    whole = start_operator()
    part = start_operator(ready=False, NITRO_WATCH_NAMESPACES=cluster.namespace)
    eventually(lambda: "so it serves the whole cluster" in part.log())
    cluster.apply(job("kept"))
    eventually(lambda: cluster.get("job", "kept-learner"))
    assert part.requests("POST") == 0
    whole.stop()
    eventually(lambda: part.get(part.health_port, "/readyz"), what="the other one takes over")
    whole.start(ready=False)
    eventually(lambda: f"so it serves namespace {cluster.namespace}" in whole.log())
    cluster.kubectl("delete", "service", "kept-redis")
    eventually(lambda: cluster.get("service", "kept-redis"))
    assert not whole.get(whole.health_port, "/readyz")
    part.stop()
    eventually(lambda: whole.get(whole.health_port, "/readyz"))
    whole.stop()


def test_where_learners_may_connect_is_limited_and_opened_again_while_jobs_run(
    apiserver: ApiServer, cluster: Cluster, start_operator: Callable[..., OperatorProcess]
) -> None:
    def policy() -> Object:
        found: Object = (cluster.get("networkpolicy", "met-learner") or {})["spec"]
        return found

    install_knative(apiserver)
    named = {"to": [{"ipBlock": {"cidr": "169.254.170.23/32"}}], "ports": [{"port": 80}]}
    limited = start_operator(NITRO_LEARNER_EGRESS=json.dumps([named]))
    running(cluster, "met")
    assert policy()["policyTypes"] == ["Ingress", "Egress"]
    assert policy()["egress"][-1] == {**named, "ports": [{"port": 80, "protocol": "TCP"}]}
    limited.stop()
    opened = start_operator()
    eventually(lambda: policy()["policyTypes"] == ["Ingress"])
    opened.stop()


def test_metrics_report_jobs_requests_and_scaling(
    apiserver: ApiServer, cluster: Cluster, start_operator: Callable[..., OperatorProcess]
) -> None:
    install_knative(apiserver)
    operator = start_operator()
    running(cluster, "seen", scaling=FOLLOWING)
    cluster.report("seen", round=3, requestedActors=6, boostingScore=0.25, rewardMean=12.5)
    eventually(lambda: cluster.scale("seen") == ("6", "6"))
    labels = f'{{job_name="seen",namespace="{cluster.namespace}"}}'
    for line in (
        f"nitro_job_status_round{labels} 3.0",
        f"nitro_job_status_reward_mean{labels} 12.5",
        f"nitro_job_status_boosting_score{labels} 0.25",
        f"nitro_operator_platform_limit_actors {LIMIT}.0",
    ):
        eventually(lambda line=line: line in operator.metrics(), what=line)
    text = operator.metrics()
    assert 'nitro_jobs{phase="Running"}' in text
    count = next(x for x in text.splitlines() if x.startswith("nitro_operator_score_to_scale_seconds_count"))
    assert float(count.split()[1]) >= 1
    cluster.kubectl("delete", "ntj", "seen")
    eventually(lambda: 'job_name="seen"' not in operator.metrics())
    operator.stop()
