"""Which build of torch `make environment` takes: its script with the real uv and indexes on this machine."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from package_indexes import PYTORCH, Indexes, indexes, pin

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).parent / "uv"
FOUND = "#!/bin/sh\necho 'GPU 0: NVIDIA H200 (UUID: GPU-0)'\n"
BROKEN = "#!/bin/sh\necho 'NVIDIA-SMI has failed because it could not talk to the driver.'\nexit 9\n"
NONE = "#!/bin/sh\necho 'No devices found.'\nexit 6\n"
CUDA, CPU = pin("torch"), f"{pin('torch')}+cpu"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Indexes]:
    with indexes(tmp_path_factory.mktemp("indexes")) as made:
        yield made


class Machine:
    """A machine by what its programs say, with an environment to install torch into."""

    def __init__(
        self,
        folder: Path,
        served: Indexes,
        *,
        kernel: str = "Linux",
        smi: str | None = None,
        patience: int = 240,
    ) -> None:
        self.python = folder / "venv" / "bin" / "python"
        venv.create(folder / "venv", with_pip=False)
        # The script's own limits are of seconds, which a busy machine may need for what answers at once.
        timeout = f'#!/bin/sh\nshift\nexec {shutil.which("timeout")} {patience} "$@"\n'
        programs = {"uname": f"#!/bin/sh\necho {kernel}\n", "timeout": timeout}
        programs |= {"nvidia-smi": smi} if smi else {}
        folder.joinpath("bin").mkdir()
        for name, text in programs.items():
            (folder / "bin" / name).write_text(text)
            (folder / "bin" / name).chmod(0o755)
        # Of this machine's programs only those that the script takes: it may have an nvidia-smi of its own.
        for name in ("bash", "grep", "sed"):
            (folder / "bin" / name).symlink_to(shutil.which(name) or name)
        self._environment = {
            "PATH": str(folder / "bin"),
            "HOME": str(folder),
            "UV": str(UV),
            "UV_NO_CONFIG": "1",
            "UV_CACHE_DIR": str(folder / "cache"),
            "UV_DEFAULT_INDEX": served.pypi,
            "SSL_CERT_FILE": str(served.certificate),
            "HTTPS_PROXY": served.proxy,
            "NO_PROXY": "127.0.0.1",
        }

    def install(self, **environment: str) -> str:
        """Install torch; what the script says."""
        done = subprocess.run(
            ["scripts/pip-install", self.python, "--constraints", "constraints.txt", "torch"],
            cwd=ROOT,
            env=self._environment | environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return done.stdout

    def torch(self) -> str:
        """The version that is installed."""
        command = [self.python, "-c", "from importlib.metadata import version; print(version('torch'))"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize(
    ("kernel", "smi", "said", "build"),
    [
        ("Linux", None, "PyTorch's CPU build", CPU),
        ("Linux", BROKEN, "PyTorch's CPU build", CPU),
        ("Linux", NONE, "PyTorch's CPU build", CPU),
        ("Linux", FOUND, "PyPI's build with CUDA, for the GPU", CUDA),
        ("Darwin", None, "PyPI's build\n", CUDA),
    ],
)
def test_a_machine_without_a_gpu_gets_the_cpu_build(
    kernel: str, smi: str | None, said: str, build: str, tmp_path: Path, served: Indexes
) -> None:
    machine = Machine(tmp_path, served, kernel=kernel, smi=smi)
    served.asked.clear()
    assert machine.install().startswith(f"torch: {said}")
    assert machine.torch() == build
    assert set(served.asked) == ({f"{PYTORCH}:443"} if build == CPU else set())


def test_where_pytorchs_index_is_out_of_reach_pypi_has_torch(tmp_path: Path, served: Indexes) -> None:
    """Its port is closed, or nobody answers there: a firewall may drop packets."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    (tmp_path / "closed").mkdir()
    machine = Machine(tmp_path / "closed", served)
    said = machine.install(HTTPS_PROXY=f"http://127.0.0.1:{port}")
    assert f"because PyTorch's index of CPU builds does not answer with {CUDA}" in said
    assert machine.torch() == CUDA
    (tmp_path / "mute").mkdir()
    machine = Machine(tmp_path / "mute", served, patience=3)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        assert machine.install(HTTPS_PROXY=f"http://127.0.0.1:{mute.getsockname()[1]}") == said
    assert machine.torch() == CUDA


def test_an_index_without_the_pinned_version_does_not_count(tmp_path: Path) -> None:
    with indexes(tmp_path / "indexes") as served:
        (build,) = (served.root / "whl" / "cpu" / "torch").glob(f"torch-{CPU}-*")
        build.unlink()
        machine = Machine(tmp_path, served)
        assert "does not answer" in machine.install()
    assert machine.torch() == CUDA


@pytest.mark.parametrize(("backend", "smi"), [("cpu", FOUND), ("cu126", None)])
def test_the_users_choice_of_a_build_wins(
    backend: str, smi: str | None, tmp_path: Path, served: Indexes
) -> None:
    machine = Machine(tmp_path, served, smi=smi)
    said = machine.install(UV_TORCH_BACKEND=backend)
    assert said == f"torch: the build that UV_TORCH_BACKEND={backend} names\n"
    assert machine.torch() == f"{pin('torch')}+{backend}"


def test_ci_keeps_an_environment_for_each_build_that_is_asked_for() -> None:
    """Asked for none it has one: the builds fit the same pins, and what is installed stays."""
    (line,) = re.findall(r"^key=.*$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)

    def key(backend: str | None) -> str:
        environment = {name: value for name, value in os.environ.items() if name != "UV_TORCH_BACKEND"}
        environment |= {} if backend is None else {"UV_TORCH_BACKEND": backend}
        command = ["bash", "-euo", "pipefail", "-c", f'{line}\necho "$key"']
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
        return done.stdout

    assert key(None) == key("")
    assert len({key(None), key("cpu"), key("auto")}) == 3


@pytest.mark.parametrize("again", ["", "cu126"])
def test_what_is_installed_stays(again: str, tmp_path: Path, served: Indexes) -> None:
    """An environment is built again after a change of a dependency, perhaps out of the index's reach."""
    machine = Machine(tmp_path, served)
    machine.install(UV_TORCH_BACKEND="")
    assert machine.torch() == CPU
    (tmp_path / "bin" / "uname").unlink()
    said = machine.install(HTTPS_PROXY="http://127.0.0.1:1", UV_TORCH_BACKEND=again)
    assert said.startswith(f"torch: {CPU} is installed and stays")
    assert machine.torch() == CPU
