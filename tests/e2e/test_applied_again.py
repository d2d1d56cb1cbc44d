"""A job that is deleted and applied again: the new run trains, and has no trace of the former one."""

from __future__ import annotations

import base64
import random

import pytest
from harness import Cluster, Object, kubectl, of_component, phase_of, round_of, training
from jobs import hopper
from kubernetes import client
from namespaces import Start

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
def test_twenty_times_at_random_moments(cluster: Cluster, namespace: str, start: Start) -> None:
    """Before the learner's pod, while it starts, in its first rounds, or while it waits for actors."""
    draw = random.Random(39)
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
        cluster.create_job(namespace, "often", LONG)
        if turn % 4 == 3 or draw.random() < 0.5:
            until_it_trains_anew(cluster, namespace, "often", former)
    until_it_trains_anew(cluster, namespace, "often", former)
