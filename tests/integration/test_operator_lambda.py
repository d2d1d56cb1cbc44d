"""The operator's process with a Lambda job, killed with SIGKILL while AWS makes and removes the function."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from apiserver import ApiServer
from aws_support import CREDENTIALS, FakeAws, lambda_backend, secret
from cluster_support import Cluster
from operator_support import OperatorProcess, eventually, job

KEY = CREDENTIALS["AWS_SECRET_ACCESS_KEY"]


@pytest.fixture(scope="module")
def apiserver(own_apiserver: ApiServer) -> ApiServer:
    """One that serves none of Knative's kinds."""
    return own_apiserver


@pytest.fixture
def operator(apiserver: ApiServer, tmp_path: Path) -> Iterator[OperatorProcess]:
    with OperatorProcess(apiserver.kubeconfig, tmp_path / "operator.log") as process:
        yield process


def kill_at(service: FakeAws, operator: OperatorProcess, method: str) -> None:
    """Kill the operator when AWS has carried out a call of that method, before it is answered."""

    def watch(called: str, path: str) -> None:
        if called == method and "/functions" in path:
            service.before_answer = lambda *_: None
            operator.kill()

    service.before_answer = watch


@pytest.mark.slow
def test_a_lambda_job_from_its_creation_to_its_deletion(
    apiserver: ApiServer, namespace: str, aws_service: FakeAws, operator: OperatorProcess
) -> None:
    cluster, service = Cluster(apiserver, namespace), aws_service
    name = f"nitro-{namespace}_hopper"
    service.pending_looks = 2
    kill_at(service, operator, "POST")
    cluster.apply(secret("aws", **CREDENTIALS), job("hopper", backend=lambda_backend(service)))
    eventually(lambda: name in service.functions(), what="the function")
    assert cluster.get("job", "hopper-learner") is None, "no GPU waits for AWS"
    operator.start()

    learner = eventually(lambda: cluster.get("job", "hopper-learner"), what="the learner's Job")
    assert service.calls.count("POST /2015-03-31/functions") == 1
    environment = {e["name"] for e in learner["spec"]["template"]["spec"]["containers"][0]["env"]}
    assert {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "NITRO_TOKEN"} <= environment
    assert cluster.get("service", "hopper-redis") is None
    credentials = cluster.credentials("hopper")
    assert credentials["data"].keys() == {"token"}
    token = base64.b64decode(credentials["data"]["token"])
    made = service.client().get_function_configuration(FunctionName=name)["Environment"]["Variables"]
    assert made["NITRO_TOKEN_SHA256"] == hashlib.sha256(token).hexdigest()
    cluster.start_learner("hopper")
    eventually(lambda: cluster.condition("hopper", "Ready").get("status") == "True", what="Ready")
    assert cluster.status("hopper")["actors"] == {"requested": 8, "granted": 8, "ready": 8, "podSeconds": 0}

    kill_at(service, operator, "DELETE")
    cluster.kubectl("delete", "ntj", "hopper", "--wait=false")
    eventually(lambda: name not in service.functions(), what="the function is removed")
    operator.start()
    eventually(lambda: cluster.get("ntj", "hopper") is None, what="the job goes")
    cluster.collect_job("hopper")

    told = operator.log() + json.dumps([cluster.list("events"), cluster.list("ntj")])
    assert KEY not in told
    assert token.decode() not in told + str(service.calls)
    assert KEY not in str(service.calls)
