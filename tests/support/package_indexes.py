"""Package indexes on this machine: PyPI and PyTorch's own, with empty wheels for torch and what it brings.

PyTorch's index cannot be reached from everywhere, and PyPI has no build of torch without CUDA.
"""

from __future__ import annotations

import contextlib
import functools
import http.server
import re
import ssl
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lambda_support import self_signed

ROOT = Path(__file__).parents[2]
PYTORCH = "download.pytorch.org"


def pin(name: str) -> str:
    """The version that constraints.txt has of a package."""
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


class Indexes:
    """Serves the folders `pypi` and `whl` of a root; `whl` is download.pytorch.org's, through a proxy."""

    def __init__(self, root: Path, url: str, certificate: Path, asked: list[str]) -> None:
        self.root = root
        self.pypi = f"{url}/pypi"
        self.cpu = f"{url}/whl/cpu"
        self.proxy = url
        self.certificate = certificate
        """Of the stand-in for download.pytorch.org: a client must trust it."""
        self.asked = asked
        """The hosts that the proxy was asked for."""


class _Handler(http.server.SimpleHTTPRequestHandler):
    """A file server that is a proxy, too: whatever host a client names, these files are what it has."""

    protocol_version = "HTTP/1.1"

    def __init__(self, *args: Any, context: ssl.SSLContext, asked: list[str], **options: Any) -> None:
        self._context, self._asked = context, asked
        super().__init__(*args, **options)

    def do_CONNECT(self) -> None:
        self._asked.append(self.path)
        self.send_response(200)
        self.end_headers()
        self.connection = self._context.wrap_socket(self.connection, server_side=True)
        self.rfile, self.wfile = self.connection.makefile("rb"), self.connection.makefile("wb", 0)
        self.close_connection = False


@contextlib.contextmanager
def indexes(root: Path) -> Iterator[Indexes]:
    """PyPI with torch that brings CUDA, and PyTorch's with a newer torch, too, and an older sympy."""
    torch, sympy = pin("torch"), pin("sympy")
    wheel(root / "pypi", "torch", torch, "cuda-toolkit", "sympy")
    wheel(root / "pypi", "cuda-toolkit", pin("cuda-toolkit"))
    wheel(root / "pypi", "sympy", sympy)
    for backend in ("cpu", "cu126"):
        wheel(root / "whl" / backend, "torch", f"{torch}+{backend}", "sympy")
        wheel(root / "whl" / backend, "torch", f"99.0+{backend}", "sympy")
        wheel(root / "whl" / backend, "sympy", "0.1")
    self_signed(root / "ca.crt", root / "key", PYTORCH)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(root / "ca.crt", root / "key")
    asked: list[str] = []
    handler = functools.partial(_Handler, context=context, asked=asked, directory=str(root))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Indexes(root, f"http://127.0.0.1:{server.server_port}", root / "ca.crt", asked)
        server.shutdown()
