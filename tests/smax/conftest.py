"""SMAX's programs are compiled once for all tests, into a folder of their own."""

import os

import pytest

from nitro_actor.agents.smax.programs import FOLDER


@pytest.fixture(scope="session", autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep compiled programs apart from those of the machine."""
    os.environ[FOLDER] = str(tmp_path_factory.mktemp("programs"))
