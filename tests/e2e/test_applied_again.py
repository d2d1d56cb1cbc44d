"""A job that is deleted and applied again: the new run trains, and has no trace of the former one."""

from __future__ import annotations

import base64
import random
import time
from collections import defaultdict
from datetime import datetime
from pathlib import Path

import pytest
from harness import Cluster, Object, kubectl, of_component, phase_of, round_of, training
from jobs import hopper
from kubernetes import client
from namespaces import Start
from prometheus_client.parser import text_string_to_metric_families

FEW = (1, 2, 3)
RETAINED: Object = {"checkpoint": {"pvc": {"retain": True}}}
"""The claim stays, so that the next job of the name finds its volume."""
LONG = hopper(rounds=1000, actors=FEW, learner=RETAINED)


def delete(cluster: Cluster, namespace: str, name: str, policy: str) -> Object:
    """Delete a job as kubectl does with this --cascade, and return it as it was once its name is free."""
    former = cluster.job(namespace, name)
    options = client.V1DeleteOptions(propagation_policy=policy)
    cluster.jobs.delete(namespace=namespace, name=name, body=options)
    cluster.until(cluster.jobs, lambda jobs: not jobs, namespace=namespace, what="the deletion", name=name)
    return former


def until_it_trains_anew(cluster: Cluster, namespace: str, name: str, former: Object) -> None:
    """The job of that name does two rounds of its own, with one learner that never failed."""
    job = cluster.until_round(namespace, name, 2)
    uid = job["metadata"]["uid"]
    assert uid != former["metadata"]["uid"]
    rounds = [entry["round"] for entry in training(job)["history"]]
    assert rounds == list(range(1, rounds[-1] + 1)), "it began with its own first round"
    assert round_of(job) == rounds[-1]
    (learner,) = cluster.pods(namespace, name, "learner")
    assert learner["metadata"]["labels"]["nitro.dev/run"] == uid
    # The former job's cost would be the first entry's, too.
    assert job["status"]["cost"]["total"] <= sum(entry["cost"] for entry in training(job)["history"]) * 1.01
    actors = cluster.pods(namespace, name, "actor")
    assert {pod["metadata"]["labels"]["nitro.dev/run"] for pod in actors} == {uid}
    assert_metrics_are_its_own(cluster, namespace, name, learner["metadata"]["name"])


def assert_metrics_are_its_own(cluster: Cluster, namespace: str, name: str, learner: str) -> None:
    """What the operator and the learner export of this job is no more than the job has done by now."""
    (operator,) = cluster.core.list_namespaced_pod(cluster.namespace, label_selector=cluster.operator).items
    told = exported(cluster.namespace, f"{operator.metadata.name}:8080", name, namespace)
    of_learner = exported(namespace, f"{learner}:9090", name, namespace)

    def caught_up(job: Object) -> Object | None:
        return job if round_of(job) > of_learner["nitro_round"] else None

    job = cluster.until_job(namespace, name, caught_up, what="a report after the metrics")
    status = job["status"]
    assert 0 < told["nitro_job_status_round"] <= round_of(job)
    assert 0 < of_learner["nitro_env_steps_total"] <= training(job)["envSteps"]
    for cost in (told["nitro_job_status_cost_dollars_total"], of_learner["nitro_job_cost_dollars_total"]):
        assert 0 < cost <= status["cost"]["total"] * 1.01
    age = time.time() - datetime.fromisoformat(job["metadata"]["creationTimestamp"]).timestamp()
    assert told["nitro_job_status_pod_seconds_total"] <= FEW[-1] * age
    assert told["nitro_actor_pods_started_total"] <= status["actors"]["started"]


def exported(namespace: str, pod: str, job: str, job_namespace: str) -> dict[str, float]:
    """The metrics of one job that a pod ("name:port") exports, each summed over its other labels."""
    text = kubectl("get", "--raw", f"/api/v1/namespaces/{namespace}/pods/{pod}/proxy/metrics")
    found: dict[str, float] = defaultdict(float)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = sample.labels
            if (labels.get("job_name"), labels.get("namespace")) == (job, job_namespace):
                found[sample.name] += sample.value
    return found


@pytest.mark.full
def test_a_job_applied_again_and_a_secret_that_is_replaced(
    cluster: Cluster, namespace: str, start: Start
) -> None:
    """The operator looks for a Secret every two minutes; meanwhile another job is deleted and applied."""
    start("secret", LONG)
    start("again", LONG)
    cluster.until_round(namespace, "secret", 1)
    before = secret_of(cluster, namespace, "secret")
    # New pods would start: the kubelet still has the Secret for them.
    cluster.delete("v1", "Secret", namespace, before["metadata"]["name"])
    for policy in ("Background", "Orphan"):
        cluster.until_round(namespace, "again", 2)
        former = delete(cluster, namespace, "again", policy)
        cluster.create_job(namespace, "again", LONG)
        until_it_trains_anew(cluster, namespace, "again", former)
    learner = cluster.until(
        cluster.kind("v1", "Pod"),
        lambda pods: next(
            (pod for pod in pods if runs(pod) and secret_name(pod) != before["metadata"]["name"]), None
        ),
        namespace=namespace,
        what="a learner with another Secret",
        selector=of_component("secret", "learner"),
    )
    after = secret_of(cluster, namespace, "secret")
    pod = ("exec", "--namespace", namespace, learner["metadata"]["name"], "-c", "learner", "--")
    token = kubectl(*pod, "printenv", "NITRO_TOKEN").strip()
    assert token == base64.b64decode(after["data"]["token"]).decode()
    assert after["data"]["token"] != before["data"]["token"]
    reached = round_of(cluster.job(namespace, "secret"))
    cluster.until_round(namespace, "secret", reached + 2)  # its actors know the token, too


def runs(pod: Object) -> bool:
    statuses = pod["status"].get("containerStatuses") or []
    return any("running" in (one.get("state") or {}) for one in statuses)


def secret_name(pod: Object) -> str:
    (learner,) = (one for one in pod["spec"]["containers"] if one["name"] == "learner")
    (token,) = (one for one in learner["env"] if one["name"] == "NITRO_TOKEN")
    name: str = token["valueFrom"]["secretKeyRef"]["name"]
    return name


def secret_of(cluster: Cluster, namespace: str, job: str) -> Object:
    """The one Secret of a job."""
    found = cluster.kind("v1", "Secret").get(namespace=namespace, label_selector=f"nitro.dev/job={job}")
    (secret,) = (one.to_dict() for one in found.items)
    return dict(secret)


@pytest.mark.full
def test_twenty_times_at_random_moments(
    cluster: Cluster, namespace: str, start: Start, report_folder: Path
) -> None:
    """Before the learner's pod, while it starts, in its first rounds, or while it waits for actors."""
    draw = random.Random(39)
    told = ["turn moment policy seconds-until-it-trained"]
    start("often", LONG)
    for turn in range(20):
        moment = draw.choice(["created", "scheduled", "round 1", "round 3", "suspended"])
        if moment == "scheduled":
            cluster.until(
                cluster.kind("v1", "Pod"),
                lambda pods: bool(pods),
                namespace=namespace,
                what="the learner's pod",
                selector=of_component("often", "learner"),
            )
        elif moment.startswith("round"):
            cluster.until_round(namespace, "often", int(moment[-1]))
        elif moment == "suspended":
            cluster.patch_job(namespace, "often", {"suspend": True})
            cluster.until_job(namespace, "often", lambda job: phase_of(job) == "Suspended", what="Suspended")
        policy = draw.choice(["Background", "Foreground", "Orphan"])
        former = delete(cluster, namespace, "often", policy)
        began = time.monotonic()
        cluster.create_job(namespace, "often", LONG)
        trained = ""
        if turn % 4 == 3 or draw.random() < 0.5:
            until_it_trains_anew(cluster, namespace, "often", former)
            trained = f"{time.monotonic() - began:.0f}"
        told.append(f"{turn} {moment} {policy} {trained}")
        print(told[-1])
        (report_folder / "turns.txt").write_text("\n".join(told) + "\n")
    until_it_trains_anew(cluster, namespace, "often", former)
