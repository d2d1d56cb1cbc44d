"""Fixtures of the end-to-end tests: the cluster of the current KUBECONFIG and the release in it."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import outcome
import pytest
import volumes
from harness import PATIENCE_SECONDS, Cluster, Object, kubectl
from jobs import hopper
from kubernetes.client.exceptions import ApiException
from outcome import Outcome

REPORTS = Path(os.environ.get("NITRO_E2E_REPORTS", "build/e2e"))
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
FAILED = pytest.StashKey[bool]()


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    return Cluster(os.environ.get("RELEASE", "nitro"), os.environ.get("NAMESPACE", "nitro-system"))


@pytest.fixture
def namespace(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """A new namespace that admits only restricted pods; what happened in it is kept when the test fails."""
    name = f"e2e-{uuid.uuid4().hex[:6]}"
    cluster.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": RESTRICTED}}
    )
    cluster.until_operator_ready()
    yield name
    if request.node.stash.get(FAILED, False):
        describe(cluster, name, REPORTS / request.node.name)
    # Pods would take the next test's CPU while they drain: the jobs go first, so that nobody makes new ones.
    cluster.jobs.delete(namespace=name, field_selector=f"metadata.namespace={name}")
    cluster.core.delete_namespace(name)
    cluster.core.delete_collection_namespaced_pod(name, grace_period_seconds=0)
    cluster.until(
        cluster.kind("v1", "Pod"),
        lambda pods: not pods,
        namespace=name,
        what="an empty namespace",
    )
    volumes.remove(cluster, name)


@pytest.fixture
def start(cluster: Cluster, namespace: str) -> Callable[[str, Object], Object]:
    """start(name, spec): a volume for the job's checkpoints, and the job."""

    def run(name: str, spec: Object) -> Object:
        volumes.provide(cluster, namespace, f"{name}-checkpoint")
        return cluster.create_job(namespace, name, spec)

    return run


@pytest.fixture
def report_folder(request: pytest.FixtureRequest) -> Path:
    """Where the test keeps what a person may want to see."""
    folder: Path = REPORTS / request.node.name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def report(report_folder: Path) -> Callable[[str, str], None]:
    """report(name, text): a table for the test's folder and the terminal."""

    def write(name: str, text: str) -> None:
        (report_folder / name).write_text(text + "\n")
        print(text)

    return write


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """The job that several tests run on the cluster, run on this machine."""
    return outcome.local(hopper(), tmp_path_factory.mktemp("reference"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(
            pytest.mark.timeout(3 * PATIENCE_SECONDS)
        )  # a slow cluster is told by the waits, which say for what


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    result = yield
    if result.get_result().failed:  # type: ignore[attr-defined]
        item.stash[FAILED] = True


def describe(cluster: Cluster, namespace: str, folder: Path) -> None:
    """Write all that kubectl can tell about a namespace and the operator, and print where."""
    shutil.rmtree(folder / "failure", ignore_errors=True)
    (folder / "failure").mkdir(parents=True)

    def keep(name: str, *arguments: str) -> None:
        (folder / "failure" / name).write_text(kubectl(*arguments))

    here = ("--namespace", namespace)
    kinds = "ntj,jobs,pods,services,pvc,ksvc,revisions,podautoscalers,resourcequotas"
    keep("objects.txt", "get", kinds, *here, "-o", "wide")
    keep("jobs.yaml", "get", "ntj", *here, "-o", "yaml")
    keep("describe.txt", "describe", "ntj,pods", *here)
    keep("events.txt", "get", "events", *here, "--sort-by=.lastTimestamp")
    operator = ("--namespace", cluster.namespace, "--selector", cluster.operator, "--tail=2000")
    keep("operator.log", "logs", *operator)
    keep("operator-previous.log", "logs", *operator, "--previous")
    for pod in cluster.core.list_namespaced_pod(namespace).items:
        for container in [*(pod.spec.init_containers or []), *pod.spec.containers]:
            file = f"{pod.metadata.name}.{container.name}.log"
            try:
                keep(file, "logs", *here, pod.metadata.name, "-c", container.name, "--tail=500")
            except ApiException:
                continue
    print(f"what was seen of {namespace} is in {folder / 'failure'}")
    print(kubectl("describe", "ntj", *here)[-6000:])
