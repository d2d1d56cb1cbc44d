"""The fixture that starts a real API server: how it finds the programs, and that it leaves nothing behind."""

from __future__ import annotations

import hashlib
import http.server
import io
import os
import platform
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml

import kube_assets
from apiserver import ApiServer
from kube_assets import PROGRAMS, AssetsMissing

HERE = Path(__file__).parent


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder that a web server on loopback serves, and its address."""
    folder = tmp_path / "site"
    folder.mkdir()
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def publish(folder: Path, url: str, *, spoilt: bool = False) -> str:
    """Put an envtest release and its index on the site; return the index's address."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name in (*PROGRAMS, "../../escaped"):
            data = f"program {name}".encode()
            member = tarfile.TarInfo(f"controller-tools/envtest/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    release = f"{kube_assets.KUBERNETES}.1"
    name = f"envtest-{release}-{platform.system().lower()}-{machine}.tar.gz"
    (folder / name).write_bytes(packed.getvalue()[: -10 if spoilt else None])
    digest = hashlib.sha512(packed.getvalue()).hexdigest()
    index = {"releases": {f"{kube_assets.KUBERNETES}.0": {}, f"{kube_assets.KUBERNETES}.9-beta.0": {}}}
    index["releases"][release] = {name: {"hash": digest, "selfLink": f"{url}/{name}"}}
    (folder / "index.yaml").write_text(yaml.safe_dump(index))
    return f"{url}/index.yaml"


def test_the_download_is_checked_and_unpacked(site: tuple[Path, str], tmp_path: Path) -> None:
    target = tmp_path / "cache"
    target.mkdir()
    kube_assets.download(target, publish(*site))
    assert sorted(path.name for path in target.iterdir()) == sorted(PROGRAMS)
    assert all(os.access(target / name, os.X_OK) for name in PROGRAMS)
    assert not list(tmp_path.rglob("escaped"))


def test_a_download_with_another_hash_is_refused(site: tuple[Path, str], tmp_path: Path) -> None:
    with pytest.raises(AssetsMissing, match="does not have the published hash"):
        kube_assets.download(tmp_path, publish(*site, spoilt=True))
    assert not (tmp_path / "etcd").exists()


@pytest.mark.parametrize("index", ["missing.yaml", "odd.yaml"])
def test_a_download_that_fails_says_so(site: tuple[Path, str], tmp_path: Path, index: str) -> None:
    (site[0] / "odd.yaml").write_text("[1, 2]")
    with pytest.raises(AssetsMissing, match="the envtest download failed"):
        kube_assets.download(tmp_path, f"{site[1]}/{index}")


def run_tests(**environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "no:cacheprovider",
            "-k",
            "listed_under_all",
            str(HERE / "test_crd.py"),
        ],
        env={**os.environ, "NITRO_REQUIRE_APISERVER": "", **environment},
        capture_output=True,
        text=True,
        timeout=600,
    )


def test_without_the_programs_tests_are_skipped_with_a_message(tmp_path: Path) -> None:
    done = run_tests(KUBEBUILDER_ASSETS=str(tmp_path))
    assert done.returncode == 0, done.stdout
    assert "1 skipped" in done.stdout
    loud = [line for line in done.stdout.splitlines() if line.startswith("NO API SERVER")]
    assert loud == [
        f"NO API SERVER, its tests did not run: KUBEBUILDER_ASSETS={tmp_path} has no etcd, kube-apiserver, "
        "kubectl; correct it, or unset it"
    ]


def test_where_an_api_server_is_required_its_lack_fails(tmp_path: Path) -> None:
    done = run_tests(KUBEBUILDER_ASSETS=str(tmp_path), NITRO_REQUIRE_APISERVER="1")
    assert done.returncode == 1, done.stdout
    assert "NITRO_REQUIRE_APISERVER=1, but KUBEBUILDER_ASSETS" in done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends processes with their parent")
def test_a_killed_test_run_leaves_no_server(apiserver: ApiServer, tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from apiserver import ApiServer\n"
        "with ApiServer(Path(sys.argv[1])) as server:\n"
        "    print(*[process.pid for process in server._processes], flush=True); time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(apiserver.assets)],
        cwd=HERE,
        # What it leaves on the disk goes with the test; the fixture has a module beside the tests.
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(HERE.parent / "support")},
        stdout=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        servers = [int(pid) for pid in run.stdout.readline().split()]
        assert len(servers) == 2
        run.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 120
    while any(Path(f"/proc/{pid}/exe").exists() and not _ended(pid) for pid in servers):
        assert time.monotonic() < deadline, "a server outlived its test run"
        time.sleep(0.1)


def _ended(pid: int) -> bool:
    """A zombie that nobody reaped has ended too."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True
