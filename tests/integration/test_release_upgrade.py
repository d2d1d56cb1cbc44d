"""From the former release to the present one and back, on a real API server. Its CRD and operator are git's.

Two jobs run and one is suspended. Nothing of them is lost, replaced or restarted.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import former_release
from apiserver import CRD_FILE, ApiServer
from cluster_support import Cluster
from operator_support import JOB, OperatorProcess, eventually, install_knative, job

ROOT = Path(__file__).parents[2]
LASTING = ("job", "pod", "secret", "pvc", "service", "serviceaccount", "services.serving.knative.dev")
REVISIONS = "revisions.serving.knative.dev"
FOLLOWING = {**JOB["spec"]["scaling"], "hold": 0}
"""Actors follow the requests at once."""

Change = Callable[[str], OperatorProcess]


@pytest.fixture
def change(apiserver: ApiServer, tmp_path: Path) -> Iterator[Change]:
    """Ends the operator that runs; then the CRD and the operator of the named release take its place."""
    install_knative(apiserver)
    running: list[OperatorProcess] = []
    former, packages = former_release.tree(), former_release.packages("crds", "operator")

    def to(release: str) -> OperatorProcess:
        for operator in running:
            operator.stop()
        old = release == "old"
        # As `helm upgrade` does: the new definition comes before the new operator.
        apiserver.define(former / "crds" / CRD_FILE.name if old else CRD_FILE)
        path = {"PYTHONPATH": packages} if old else {}
        assert Path(origin(path)).is_relative_to(former if old else ROOT)
        operator = OperatorProcess(
            apiserver.kubeconfig,
            tmp_path / f"operator-{len(running)}-{release}.log",
            NITRO_ACTOR_IMAGE=f"registry.test/actor:{release}",
            NITRO_LEARNER_IMAGE=f"registry.test/learner:{release}",
            **path,
        )
        running.append(operator)
        operator.start()
        return operator

    yield to
    for operator in running:
        operator.stop()
    apiserver.define(CRD_FILE)


def origin(environment: dict[str, str]) -> str:
    """The file of the operator's package that a process with these variables runs."""
    command = [sys.executable, "-c", "import nitro_operator; print(nitro_operator.__file__)"]
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def lasting(cluster: Cluster) -> dict[str, tuple[str, int | None]]:
    """What a restart would replace or change: identity, and version of the spec, of each child and pod."""
    return {
        f"{one['kind']}/{one['metadata']['name']}": (
            one["metadata"]["uid"],
            one["metadata"].get("generation"),
        )
        for one in cluster.list(*LASTING, REVISIONS)
    }


def run(cluster: Cluster, name: str, round: int, actors: int) -> None:
    """A job that trains: its learner and one actor are there, and it has reported."""
    cluster.start_learner(name)
    cluster.start_knative(name)
    cluster.start_actor(name)
    cluster.report(name, round=round, requestedActors=actors)
    eventually(lambda: cluster.scale(name) == (str(actors), str(actors)), what=f"actors of {name}")
    eventually(lambda: cluster.status(name).get("phase") == "Running", what=f"{name} runs")


def stop(cluster: Cluster, name: str) -> None:
    cluster.patch_spec(name, suspend=True)
    cluster.collect_job(name)
    for pod in cluster.list("pods"):  # as Knative does
        if pod["metadata"]["labels"]["nitro.dev/job"] == name:
            cluster.delete_pod(pod)
    eventually(lambda: cluster.status(name).get("phase") == "Suspended", what=f"{name} is suspended")


def kept(cluster: Cluster, name: str) -> tuple[object, ...]:
    """What a user would miss: progress, cost, and when the job started."""
    status = cluster.status(name)
    return (status["training"]["round"], status.get("cost"), status["startTime"])


def assert_untouched(
    cluster: Cluster, operator: OperatorProcess, before: dict[str, tuple[str, int | None]], rounds: int
) -> None:
    """Nothing was replaced, and the running jobs are scaled by what their old learners report."""
    operator.wait_for_resyncs(2)
    for number, name in enumerate(("first", "second")):
        wanted = rounds + number
        cluster.report(name, round=rounds, requestedActors=wanted)
        eventually(lambda name=name, n=wanted: cluster.scale(name) == (str(n), str(n)), what="scaling")
        assert cluster.status(name)["phase"] == "Running"
        eventually(lambda name=name: cluster.condition(name, "Ready").get("status") == "True", what="Ready")
    assert cluster.status("paused")["phase"] == "Suspended"
    assert lasting(cluster) == before


@pytest.mark.slow
def test_an_upgrade_and_a_rollback_touch_no_job(apiserver: ApiServer, namespace: str, change: Change) -> None:
    cluster = Cluster(apiserver, namespace)
    change("old")
    cluster.apply(*(job(name, scaling=FOLLOWING) for name in ("first", "second", "paused")))
    for number, name in enumerate(("first", "second", "paused")):
        run(cluster, name, round=3, actors=5 + number)
    stop(cluster, "paused")
    specs = {one["metadata"]["name"]: one["spec"] for one in cluster.list("ntj")}
    before, reported = lasting(cluster), {name: kept(cluster, name) for name in ("first", "second", "paused")}

    upgraded = change("new")
    assert fields(apiserver) == fields_of(CRD_FILE)
    now = {one["metadata"]["name"]: one["spec"] for one in cluster.list("ntj")}
    assert now == specs, "the new CRD changes no stored job"
    assert {name: kept(cluster, name) for name in reported} == reported
    assert_untouched(cluster, upgraded, before, rounds=8)

    rolled_back = change("old")
    assert fields(apiserver) == fields_of(former_release.tree() / "crds" / CRD_FILE.name)
    assert_untouched(cluster, rolled_back, before, rounds=12)

    change("new")
    cluster.patch_spec("paused", suspend=False)
    cluster.collect_service("paused")
    resumed = eventually(lambda: cluster.get("job", "paused-learner"), what="the suspended job goes on")
    (container,) = resumed["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "registry.test/learner:new"
    assert kept(cluster, "paused") == reported["paused"]
    claim = "PersistentVolumeClaim/paused-checkpoint"
    assert lasting(cluster)[claim] == before[claim]


def fields(apiserver: ApiServer) -> set[str]:
    """Fields of spec that the API server knows."""
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/nitrotrainingjobs.nitro.dev"
    return _fields(apiserver.request("GET", path))


def fields_of(path: Path) -> set[str]:
    return _fields(yaml.safe_load(path.read_text()))


def _fields(definition: Any) -> set[str]:
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return set(schema["properties"]["spec"]["properties"])
