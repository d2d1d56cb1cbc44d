"""Fixtures of the end-to-end tests: the cluster of the current KUBECONFIG and the release in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import run_outcome
import volumes
from harness import PATIENCE_SECONDS, Cluster
from helm_release import Helm
from jobs import hopper
from namespaces import FAILED, REPORTS, Start, new_namespace
from run_outcome import LocalRun

MOST_JOBS = 80
"""That all tests start, together."""


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    return Cluster(os.environ.get("RELEASE", "nitro"), os.environ.get("NAMESPACE", "nitro-system"))


@pytest.fixture(scope="session")
def disks(cluster: Cluster) -> Iterator[volumes.Disks]:
    """Volumes for the jobs' checkpoints."""
    with volumes.disks(cluster, MOST_JOBS) as made:
        yield made


@pytest.fixture
def of_test(
    cluster: Cluster, disks: volumes.Disks, request: pytest.FixtureRequest
) -> Iterator[tuple[str, Start]]:
    with new_namespace(cluster, disks, request.node) as made:
        yield made


@pytest.fixture
def namespace(of_test: tuple[str, Start]) -> str:
    """The test's own namespace."""
    return of_test[0]


@pytest.fixture
def start(of_test: tuple[str, Start]) -> Start:
    """start(name, spec): a job in that namespace."""
    return of_test[1]


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


@pytest.fixture
def helm(cluster: Cluster, tmp_path: Path) -> Iterator[Helm]:
    """Helm for the release. The other tests find the present one again."""
    found = Helm(cluster, tmp_path)
    yield found
    found.restore()


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalRun]:
    """The job that several tests run on the cluster, run on this machine."""
    with run_outcome.local(hopper(), tmp_path_factory.mktemp("reference")) as run:
        yield run


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Last, because Knative needs a minute or more to be itself again after the API server's restart.
    items.sort(key=lambda item: item.path.name == "test_restarts.py")
    for item in items:
        item.add_marker(
            pytest.mark.timeout(3 * PATIENCE_SECONDS)
        )  # a slow cluster is told by the waits, which say for what


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    result = yield
    if result.get_result().failed:  # type: ignore[attr-defined]
        for node in item.listchain():
            node.stash[FAILED] = True
