"""Finds kube-apiserver, etcd and kubectl for the tests that need a real API server, or gets them.

In this order: the folder KUBEBUILDER_ASSETS; what an earlier run left in the cache; the official envtest
download; a build from the Go modules, which takes about ten minutes once. `python
tests/support/kube_assets.py` does just this.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import yaml

KUBERNETES = "v1.34"
GO_KUBERNETES, GO_ETCD = "v1.34.4", "v3.6.5"
INDEX = "https://raw.githubusercontent.com/kubernetes-sigs/controller-tools/HEAD/envtest-releases.yaml"
PROGRAMS = ("etcd", "kube-apiserver", "kubectl")
CONNECT_SECONDS = 10
WORK = "work-"
BUILD_SECONDS = 3600
REMEDY = (
    "set KUBEBUILDER_ASSETS to a folder with kube-apiserver, etcd and kubectl (`setup-envtest use -p path` "
    "prints one), or let `python tests/support/kube_assets.py` download or build them"
)


class AssetsMissing(Exception):  # noqa: N818
    """The programs cannot be had here; the message says why and what to do."""


def cache_folder() -> Path:
    """Where downloaded and built programs are kept."""
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "nitro-envtest" / GO_KUBERNETES


def find_assets() -> Path:
    """The folder with the programs, got by whatever way works first. Raises AssetsMissing."""
    if configured := os.environ.get("KUBEBUILDER_ASSETS"):
        missing = [name for name in PROGRAMS if not os.access(Path(configured) / name, os.X_OK)]
        if missing:
            raise AssetsMissing(
                f"KUBEBUILDER_ASSETS={configured} has no {', '.join(missing)}; correct it, or unset it"
            )
        return Path(configured)
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder / ".lock"):
        if not _complete(folder):
            _obtain(folder)
    return folder


def _obtain(folder: Path) -> None:
    for left_by_a_killed_run in folder.glob(f"{WORK}*"):
        shutil.rmtree(left_by_a_killed_run)
    reasons = []
    for way in (download, build):
        try:
            way(folder)
            return
        except AssetsMissing as error:
            reasons.append(str(error))
    raise AssetsMissing(f"no kube-apiserver and etcd ({'; '.join(reasons)}): {REMEDY}")


def download(folder: Path, index_url: str = INDEX) -> None:
    """Fetch the newest envtest release of KUBERNETES, check its hash, unpack it. Raises AssetsMissing."""
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    suffix = f"-{platform.system().lower()}-{machine}.tar.gz"
    try:
        releases = yaml.safe_load(_fetch(index_url))["releases"]
        patches = [
            name
            for name in releases
            if name.startswith(f"{KUBERNETES}.") and name.rpartition(".")[2].isdigit()
        ]
        newest = max(patches, key=lambda name: int(name.rpartition(".")[2]))
        archive = releases[newest][f"envtest-{newest}{suffix}"]
        data = _fetch(archive["selfLink"])
    except (OSError, KeyError, ValueError, TypeError, yaml.YAMLError) as error:
        raise AssetsMissing(f"the envtest download failed: {error or type(error).__name__}") from None
    if hashlib.sha512(data).hexdigest() != archive["hash"]:
        raise AssetsMissing(f"the envtest download {archive['selfLink']} does not have the published hash")
    with tempfile.TemporaryDirectory(dir=folder, prefix=WORK) as work:
        packed = Path(work) / "envtest.tar.gz"
        packed.write_bytes(data)
        with tarfile.open(packed) as archive_file:
            for member in archive_file:
                if Path(member.name).name in PROGRAMS and member.isfile():
                    member.name = Path(member.name).name
                    archive_file.extract(member, work, filter="data")
        _place(Path(work), folder)


def build(folder: Path) -> None:
    """Build the programs from their Go modules. Raises AssetsMissing."""
    if not shutil.which("go"):
        raise AssetsMissing("there is no `go` to build them with")
    print(
        f"building kube-apiserver, etcd and kubectl into {folder} (once, about ten minutes)",
        file=sys.__stderr__,
        flush=True,
    )
    with tempfile.TemporaryDirectory(dir=folder, prefix=WORK) as work:
        kube, etcd, out = Path(work) / "kube", Path(work) / "etcd", Path(work) / "out"
        for module in (kube, etcd, out):
            module.mkdir()
        _go(etcd, "mod", "init", "assets")
        _go(etcd, "get", f"go.etcd.io/etcd/server/v3@{GO_ETCD}")
        _go(etcd, "build", "-ldflags=-s -w", "-o", f"{out}/etcd", "go.etcd.io/etcd/server/v3")
        _require_kubernetes(kube)
        for program in ("kube-apiserver", "kubectl"):
            source = f"k8s.io/kubernetes/cmd/{program}"
            _go(kube, "build", f"-ldflags=-s -w {_version_flags()}", "-o", f"{out}/{program}", source)
        _place(out, folder)


def _require_kubernetes(module: Path) -> None:
    """Make a Go module that depends on k8s.io/kubernetes.

    That takes its own libraries from its source tree; outside of it they are modules of version v0.x.
    """
    _go(module, "mod", "init", "assets")
    described = json.loads(_go(module, "mod", "download", "-json", f"k8s.io/kubernetes@{GO_KUBERNETES}"))
    lines = Path(described["GoMod"]).read_text().splitlines()
    libraries = [line.split()[-3] for line in lines if "=> ./staging/src/" in line]
    version = GO_KUBERNETES.replace("v1.", "v0.", 1)
    replacements = [f"-replace={library}={library}@{version}" for library in libraries]
    _go(module, "mod", "edit", f"-require=k8s.io/kubernetes@{GO_KUBERNETES}", *replacements)


def _version_flags() -> str:
    """What a release's linker writes into the programs: without it they call themselves v0.0.0."""
    major, minor, _ = GO_KUBERNETES.removeprefix("v").split(".")
    values = {"gitVersion": GO_KUBERNETES, "gitMajor": major, "gitMinor": minor}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(f"-X {package}.{key}={value}" for package in packages for key, value in values.items())


def _go(folder: Path, *arguments: str) -> str:
    environment = {
        **os.environ,
        "CGO_ENABLED": "0",
        "GOFLAGS": "-mod=mod -buildvcs=false -trimpath",
        "GOCACHE": str(folder.parent / "go-cache"),  # three gigabytes, which go with the build
    }
    try:
        done = subprocess.run(
            ["go", *arguments],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise AssetsMissing(f"`go {arguments[0]}` took longer than {BUILD_SECONDS} s") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no output"]
        raise AssetsMissing(f"`go {arguments[0]}` failed: {lines[-1]}")
    return done.stdout


def _fetch(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=CONNECT_SECONDS) as answer:
        return bytes(answer.read())


def _complete(folder: Path) -> bool:
    return all(os.access(folder / name, os.X_OK) for name in PROGRAMS)


def _place(built: Path, folder: Path) -> None:
    """Move whole programs into the cache, so that an interrupted run leaves none that is cut."""
    for name in PROGRAMS:
        if not (built / name).is_file():
            raise AssetsMissing(f"the archive holds no {name}")
        (built / name).chmod(0o755)
        (built / name).replace(folder / name)


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold the lock file: parallel test processes get the programs once."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    try:
        print(find_assets())
    except AssetsMissing as missing:
        sys.exit(str(missing))
