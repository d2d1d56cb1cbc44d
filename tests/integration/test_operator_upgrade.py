"""An upgrade of the operator on a real API server: a running job keeps its learner and its actors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from apiserver import ApiServer
from aws_support import CREDENTIALS, ROLE, FakeAws, lambda_backend, secret
from cluster_support import Cluster
from nitro_api import PROTOCOL_VERSION
from operator_support import Object, OperatorProcess, eventually, install_knative, job

KNATIVE, REVISIONS = "services.serving.knative.dev", "revisions.serving.knative.dev"


class Start(Protocol):
    def __call__(self, release: int, **variables: str) -> OperatorProcess: ...


@pytest.fixture
def start(apiserver: ApiServer, tmp_path: Path) -> Iterator[Start]:
    """Ends the operator that runs and starts one of the given release: its number is its images' tag."""
    install_knative(apiserver)
    running: list[OperatorProcess] = []

    def of_release(release: int, **variables: str) -> OperatorProcess:
        for operator in running:
            operator.stop()
        operator = OperatorProcess(
            apiserver.kubeconfig,
            tmp_path / f"operator-{release}.log",
            NITRO_ACTOR_IMAGE=f"registry.test/actor:{release}",
            NITRO_LEARNER_IMAGE=f"registry.test/learner:{release}",
            **variables,
        )
        running.append(operator)
        operator.start()
        return operator

    yield of_release
    for operator in running:
        operator.stop()


@pytest.fixture
def cluster(apiserver: ApiServer, namespace: str) -> Cluster:
    return Cluster(apiserver, namespace)


def images(cluster: Cluster, name: str) -> tuple[str, str]:
    """The images of a job's learner and actors."""
    learner, actors = cluster.get("job", f"{name}-learner"), cluster.get(KNATIVE, f"{name}-actors")
    assert learner is not None
    assert actors is not None
    return _image(learner), _image(actors)


def _image(child: Object) -> str:
    return str(child["spec"]["template"]["spec"]["containers"][0]["image"])


def specs(cluster: Cluster, name: str) -> list[tuple[str, Object]]:
    found = [cluster.get("job", f"{name}-learner"), cluster.get(KNATIVE, f"{name}-actors")]
    return [(one["metadata"]["uid"], one["spec"]) for one in found if one is not None]


def test_a_running_job_keeps_learner_and_actors_until_it_is_resumed(cluster: Cluster, start: Start) -> None:
    start(1)
    cluster.apply(job("hopper", scaling={"hold": 0}))
    cluster.start_learner("hopper")
    cluster.start_knative("hopper")
    cluster.report("hopper", round=1, requestedActors=5)
    eventually(lambda: cluster.scale("hopper") == ("5", "5"))
    before = specs(cluster, "hopper")

    operator = start(2)
    cluster.report("hopper", round=2, requestedActors=7)
    eventually(lambda: cluster.scale("hopper") == ("7", "7"), what="scaling by the old learner's report")
    operator.wait_for_resyncs(2)
    assert specs(cluster, "hopper") == before
    assert cluster.status("hopper")["phase"] == "Running"
    eventually(lambda: cluster.condition("hopper", "Ready").get("status") == "True")

    cluster.patch_spec("hopper", suspend=True)
    cluster.collect_job("hopper")
    cluster.patch_spec("hopper", suspend=False)
    cluster.collect_service("hopper")
    eventually(lambda: cluster.get("job", "hopper-learner"), what="the resumed learner")
    assert images(cluster, "hopper") == ("registry.test/learner:2", "registry.test/actor:2")


PROFILE = "container.apparmor.security.beta.kubernetes.io/"
SOUND = {"protocol": PROTOCOL_VERSION, "id": "Hopper-v5", "envs": 8}
"""What a function says of itself."""


def test_a_running_job_with_a_forbidden_annotation_goes_on_and_a_new_or_changed_one_is_refused(
    cluster: Cluster, start: Start
) -> None:
    """The release before took every annotation."""

    def weaker(name: str) -> Object:
        return job(name, learner={"annotations": {f"{PROFILE}learner": "unconfined"}})

    def refused(name: str) -> None:
        ready = eventually(
            lambda: says(cluster, name, "MetadataForbidden", "False"), what=f"{name} is refused"
        )
        assert f"'{PROFILE}learner'" in ready["message"]
        assert cluster.get("job", f"{name}-learner") is None

    start(1, NITRO_ANNOTATION_PREFIXES=PROFILE)
    cluster.apply(weaker("old"))
    cluster.start_learner("old")
    cluster.start_knative("old")
    cluster.report("old", round=1, requestedActors=5)
    eventually(lambda: cluster.scale("old") == ("8", "8"), what="the actors of the first round are held")
    before = specs(cluster, "old")

    operator = start(2)
    warned = eventually(lambda: says(cluster, "old", "MetadataForbidden", "True"), what="a warning condition")
    assert warned["message"].startswith("the job was started before this was forbidden")
    cluster.report("old", round=2, requestedActors=12)
    eventually(lambda: cluster.scale("old") == ("12", "12"), what="it is scaled")
    operator.wait_for_resyncs(2)
    assert specs(cluster, "old") == before
    assert cluster.status("old")["phase"] == "Running"
    events = [one for one in cluster.list("events") if one["reason"] == "MetadataForbidden"]
    assert [one["type"] for one in events] == ["Warning"]

    cluster.apply(weaker("new"))
    refused("new")
    cluster.patch_spec("old", suspend=True)
    cluster.collect_job("old")
    other = {f"{PROFILE}learner": None, f"{PROFILE}redis": "unconfined"}
    cluster.patch_spec("old", learner={"annotations": other})
    cluster.patch_spec("old", suspend=False)
    eventually(lambda: f"'{PROFILE}redis'" in cluster.condition("old", "Ready").get("message", ""))
    assert cluster.get("job", "old-learner") is None
    cluster.patch_spec("old", suspend=True)
    cluster.patch_spec("old", learner={"annotations": None})
    cluster.patch_spec("old", suspend=False)
    eventually(lambda: cluster.get("service", "old-redis"), what="it goes on without the annotation")


def says(cluster: Cluster, name: str, reason: str, status: str) -> Object | None:
    """The condition Ready of a job, once it has that reason and status."""
    found = cluster.condition(name, "Ready")
    return found if (found.get("reason"), found.get("status")) == (reason, status) else None


def test_a_job_whose_learner_was_not_started_gets_actors_of_the_new_release(
    cluster: Cluster, start: Start
) -> None:
    hard = {"count/jobs.batch": "0"}
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none"},
        "spec": {"hard": hard},
    }
    cluster.apply(quota)
    used = json.dumps({"status": {"hard": hard, "used": hard}})
    cluster.kubectl("patch", "resourcequota", "none", "--subresource=status", "--type=merge", "-p", used)
    start(1)
    cluster.apply(job("waits"))
    eventually(lambda: cluster.condition("waits", "LearnerReady").get("reason") == "QuotaExceeded")
    assert cluster.get(KNATIVE, "waits-actors") is not None

    start(2)
    cluster.collect_service("waits")
    cluster.kubectl("delete", "resourcequota", "none")
    eventually(lambda: cluster.get("job", "waits-learner"), what="the learner")
    assert images(cluster, "waits") == ("registry.test/learner:2", "registry.test/actor:2")


@pytest.mark.slow
def test_a_running_job_keeps_its_own_lambda_function_of_another_protocol_until_it_is_resumed(
    cluster: Cluster, start: Start, aws_service: FakeAws
) -> None:
    name = f"theirs-{cluster.namespace}"
    aws_service.client().create_function(
        FunctionName=name, Role=ROLE, PackageType="Image", Code={"ImageUri": "theirs:1"},
        MemorySize=512, Timeout=60,
    )  # fmt: skip
    backend = lambda_backend(
        aws_service,
        **{"image": None, "roleArn": None, "memoryMiB": 512},
        manage=False,
        functionName=name,
        region="us-east-2",
    )
    invocation = f"POST /2015-03-31/functions/{name}/invocations"
    aws_service.answers[name] = {"status": 200, "body": SOUND}
    start(1)
    cluster.apply(secret("aws", **CREDENTIALS), job("hopper", backend=backend))
    cluster.start_learner("hopper")
    eventually(lambda: cluster.condition("hopper", "Ready").get("status") == "True", what="Ready")

    # To the next operator the function speaks the protocol of the release before.
    aws_service.answers[name] = {"status": 200, "body": {"protocol": PROTOCOL_VERSION - 1, "id": "Hopper-v5"}}
    checks = aws_service.calls.count(invocation)
    operator = start(2)
    eventually(lambda: aws_service.calls.count(invocation) > checks, what="the new operator's check")
    operator.wait_for_resyncs(2)
    assert cluster.status("hopper")["phase"] == "Running"
    eventually(lambda: cluster.condition("hopper", "Ready").get("status") == "True")
    cluster.report("hopper", round=2, requestedActors=7)
    eventually(lambda: cluster.status("hopper")["actors"]["ready"] == 7, what="the request is granted")
    assert not [event for event in cluster.list("events") if event["reason"] == "ProtocolMismatch"]

    cluster.patch_spec("hopper", suspend=True)
    cluster.collect_job("hopper")
    cluster.patch_spec("hopper", suspend=False)
    eventually(lambda: cluster.condition("hopper", "Ready").get("reason") == "ProtocolMismatch")
    message = cluster.condition("hopper", "Ready")["message"]
    assert f"speaks protocol {PROTOCOL_VERSION - 1}" in message
    assert "an actor image of this release" in message
    assert cluster.get("job", "hopper-learner") is None
