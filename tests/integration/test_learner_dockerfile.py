"""How the learner's Dockerfile installs torch: its own command, run by the real pip.

The two package indexes are on this machine. Their packages are stand-ins with the real names and pins:
PyTorch's index cannot be reached from everywhere, and PyPI has no build of torch without CUDA.
"""

from __future__ import annotations

import functools
import http.server
import json
import os
import re
import subprocess
import sys
import threading
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
INSTRUCTIONS = re.sub(r"^#.*\n", "", (ROOT / "learner-image" / "Dockerfile").read_text(), flags=re.M)


def pin(name: str) -> str:
    found = re.search(rf"^{name}==(\S+)", (ROOT / "constraints.txt").read_text(), flags=re.M)
    assert found is not None
    return found[1]


def wheel(index: Path, name: str, version: str, *needs: str) -> None:
    """Put an empty wheel into a package index, which is a folder with a folder for each project."""
    folder, stem = index / name, f"{name.replace('-', '_')}-{version}"
    folder.mkdir(parents=True, exist_ok=True)
    metadata = [
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}",
        *(f"Requires-Dist: {n}" for n in needs),
    ]
    files = {
        "METADATA": "\n".join(metadata) + "\n",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files["RECORD"] = "".join(f"{stem}.dist-info/{file},,\n" for file in [*files, "RECORD"])
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as archive:
        for file, text in files.items():
            archive.writestr(f"{stem}.dist-info/{file}", text)


@pytest.fixture(scope="module")
def indexes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server with two indexes: pypi, and cpu with one newer torch and one older sympy."""
    root = tmp_path_factory.mktemp("indexes")
    torch, sympy = pin("torch"), pin("sympy")
    wheel(root / "pypi", "torch", torch, "cuda-toolkit", "sympy")
    wheel(root / "pypi", "cuda-toolkit", pin("cuda-toolkit"))
    wheel(root / "pypi", "sympy", sympy)
    wheel(root / "cpu", "torch", f"{torch}+cpu", "sympy")
    wheel(root / "cpu", "torch", "99.0+cpu", "sympy")
    wheel(root / "cpu", "sympy", "0.1")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(root))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def run_of(words: str) -> str:
    """The shell command of the one RUN instruction that has these words."""
    (found,) = [run for run in re.findall(r"^RUN ((?:.*\\\n)*.*)", INSTRUCTIONS, flags=re.M) if words in run]
    return str(found)


def install(folder: Path, indexes: str, torch_index: str) -> dict[str, str]:
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
            "PIP_INDEX_URL": f"{indexes}/pypi",
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


def test_without_an_index_torch_is_pypis_with_cuda(tmp_path: Path, indexes: str) -> None:
    assert install(tmp_path, indexes, "") == {
        "torch": pin("torch"),
        "cuda-toolkit": pin("cuda-toolkit"),
        "sympy": pin("sympy"),
    }


def test_from_an_index_of_cpu_builds_comes_torch_alone_in_the_pinned_version(
    tmp_path: Path, indexes: str
) -> None:
    installed = install(tmp_path, indexes, f"{indexes}/cpu")
    assert installed == {"torch": f"{pin('torch')}+cpu", "sympy": pin("sympy")}
