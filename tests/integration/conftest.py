"""Fixtures of the tests that need real servers."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from apiserver import ApiServer
from kube_assets import AssetsMissing, find_assets

_ASSETS = pytest.StashKey[Path]()
_MISSING = pytest.StashKey[str]()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Get the API server before the first test, because a build takes longer than a test may."""
    wanted = any("apiserver" in getattr(item, "fixturenames", ()) for item in session.items)
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
def apiserver(pytestconfig: pytest.Config) -> Iterator[ApiServer]:
    """A real kube-apiserver that serves NitroTrainingJob: `.kubeconfig`, `.kubectl(...)`, `.get(...)`."""
    if missing := pytestconfig.stash.get(_MISSING, None):
        if os.environ.get("NITRO_REQUIRE_APISERVER") == "1":
            pytest.fail(f"NITRO_REQUIRE_APISERVER=1, but {missing}", pytrace=False)
        pytest.skip(missing)
    with ApiServer(pytestconfig.stash[_ASSETS]) as server:
        server.apply_crd()
        yield server


@pytest.fixture
def namespace(apiserver: ApiServer) -> Iterator[str]:
    """A fresh namespace. No controller empties it afterwards; it goes with the server."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    apiserver.kubectl("create", "namespace", name)
    yield name
    apiserver.kubectl("delete", "nitrotrainingjobs", "--all", "-n", name, "--wait=false")
