"""Fixtures of the tests that need real servers."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import needs
from apiserver import ApiServer
from cluster_support import Cluster
from kube_assets import AssetsMissing, find_assets
from nitro_operator.kube.kinds import POD, TRAINING_JOB
from operator_support import OperatorProcess, install_knative

if TYPE_CHECKING:
    from aws_support import FakeAws
    from functions_support import World

_ASSETS = pytest.StashKey[Path]()
_MISSING = pytest.StashKey[str]()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Get the API server before the first test, because a build takes longer than a test may."""
    wanted = any("apiserver_assets" in getattr(item, "fixturenames", ()) for item in session.items)
    if not wanted or session.config.option.collectonly:
        return
    try:
        session.config.stash[_ASSETS] = find_assets()
    except AssetsMissing as missing:
        session.config.stash[_MISSING] = str(missing)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say in one line, which nobody overlooks, that tests were left out."""
    if missing := config.stash.get(_MISSING, None):
        terminalreporter.write_line(f"NO API SERVER, its tests did not run: {missing}", red=True, bold=True)


@pytest.fixture(scope="session")
def apiserver_assets(pytestconfig: pytest.Config) -> Path:
    """The folder with the programs of a real API server."""
    if missing := pytestconfig.stash.get(_MISSING, None):
        needs.without(missing, "NITRO_REQUIRE_APISERVER")
    return pytestconfig.stash[_ASSETS]


@pytest.fixture(scope="session")
def apiserver(apiserver_assets: Path) -> Iterator[ApiServer]:
    """A real kube-apiserver that serves NitroTrainingJob: `.kubeconfig`, `.kubectl(...)`, `.get(...)`."""
    with ApiServer(apiserver_assets) as server:
        server.apply_crd()
        yield server


@pytest.fixture(scope="module")
def own_apiserver(apiserver_assets: Path) -> Iterator[ApiServer]:
    """One for a file whose tests take Knative's kinds away. The API server removes a kind only after its last
    object, and an object of another file's test may keep a finalizer that nobody here removes."""
    with ApiServer(apiserver_assets) as server:
        server.apply_crd()
        yield server


@pytest.fixture
def fresh_apiserver(apiserver_assets: Path) -> Iterator[ApiServer]:
    """One for this test alone, without the CRD."""
    with ApiServer(apiserver_assets) as server:
        yield server


@pytest.fixture
def namespace(apiserver: ApiServer) -> Iterator[str]:
    """A fresh namespace. No controller empties it afterwards, and no kubelet ends its pods, which would count
    towards the limit of other files' operators."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    apiserver.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    apiserver.request("DELETE", TRAINING_JOB.path(name))
    apiserver.request("DELETE", POD.path(name), {"gracePeriodSeconds": 0})


@pytest.fixture(scope="module")
def operator(apiserver: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorProcess]:
    """The operator's process for the tests of a file, beside the kinds of Knative."""
    install_knative(apiserver)
    log = tmp_path_factory.mktemp("operator") / "operator.log"
    with OperatorProcess(apiserver.kubeconfig, log) as process:
        yield process


@pytest.fixture
def cluster(operator: OperatorProcess, apiserver: ApiServer, namespace: str) -> Cluster:
    """The test's namespace, in which an operator is at work."""
    assert operator
    return Cluster(apiserver, namespace)


@pytest.fixture(scope="module")
def s3_endpoint() -> Iterator[str]:
    """The URL of moto: the stand-in for Amazon's own S3, which cannot be reached from a test."""
    from moto.server import ThreadedMotoServer  # moto takes seconds to load

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(scope="module")
def aws_service() -> Iterator[FakeAws]:
    """A stand-in for AWS Lambda's control plane, see aws_support."""
    from aws_support import fake_aws  # moto takes seconds to load

    with fake_aws() as running:
        yield running


@pytest.fixture
async def world(apiserver: ApiServer, namespace: str, aws_service: FakeAws) -> AsyncIterator[World]:
    """The controller of Lambda functions between the API server and the stand-in for AWS."""
    from functions_support import World

    world = await World.between(apiserver, aws_service, namespace)
    yield world
    await world.close()
