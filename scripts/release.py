"""Build a release into dist/: wheels, source archives, constraints, the chart, bills of materials, checksums.

    python scripts/release.py                                       # of the commit that is checked out
    python scripts/release.py --registry registry.example.com/you   # the chart takes its images from there
    python scripts/release.py --tag v0.2.0                          # and the tag is checked, too

Two builds of one commit are equal to the byte, by the programs of `make environment`. `make release-images`
builds the images. With TORCH_INDEX in the environment, as for `make images`, the chart has nitro-learner-cpu,
unless LEARNERS leaves it out.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import version

ROOT = Path(__file__).parents[1]
PACKAGES = ("crds", "actor-image", "learner-image", "rllib", "experiments", "operator")
IMAGES = {
    "actor-image": ("nitro_actor[lambda,agents]",),
    "learner-image": ("nitro_learner[train,local]", "nitro_actor", "nitro_api"),
    "operator": ("nitro_operator", "nitro_api"),
}
"""Of each image's folder what its Dockerfile installs of ours."""
CYCLONEDX = "cyclonedx-bom==7.5.0"
BIN = Path(sys.executable).parent


def _run(*command: object, **environment: str) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
        timeout=1800,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed with exit code {done.returncode}")
    return done.stdout


def _git(root: Path, *arguments: str) -> str:
    return _run("git", "-C", root, *arguments).strip()


def problems(root: Path, tag: str | None = None) -> list[str]:
    """What forbids a release of the commit that is checked out; a sentence for each.

    Args:
        root: the checkout.
        tag: the tag that the release is to have; None = the commit's own, if it has one.
    """
    found = []
    number = version.read(root)
    if changed := _git(root, "status", "--porcelain"):
        found.append(f"the tree has changes that are not committed:\n{changed}")
    changelog = (root / "CHANGELOG.md").read_text()
    if not re.search(rf"^## {re.escape(number)}(?: - \d{{4}}-\d\d-\d\d)?\n+(?!## )\S", changelog, flags=re.M):
        found.append(f"CHANGELOG.md has nothing under `## {number}`: rename *Unreleased*, or correct VERSION")
    tags = [tag] if tag else [one for one in _git(root, "tag", "--points-at").split() if one.startswith("v")]
    wrong = [one for one in tags if one != f"v{number}"]
    return [*found, *(f"the tag is {one}, but VERSION says {number}: it must be v{number}" for one in wrong)]


def export(root: Path, folder: Path) -> str:
    """Put the commit's files into `folder`, with the licence in each package.

    Returns:
        the commit's time, in seconds since 1970.
    """
    folder.mkdir(parents=True)
    archive = subprocess.run(["git", "-C", root, "archive", "HEAD"], stdout=subprocess.PIPE, check=True)
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
    for package in PACKAGES:
        shutil.copy(folder / "LICENSE", folder / package)
    return _git(root, "show", "--no-patch", "--format=%ct", "HEAD")


def build_packages(source: Path, into: Path, epoch: str) -> None:
    """Build the wheel and the source archive of each package, and add the versions they were tested with."""
    for package in PACKAGES:
        command = [BIN / "uv", "build", "--quiet", "--no-build-isolation", "--python", sys.executable]
        command += ["--no-create-gitignore", "--out-dir", into, source / package]
        _run(*command, SOURCE_DATE_EPOCH=epoch)
    shutil.copy(source / "constraints.txt", into)


def learners() -> list[str]:
    """The learner's images that `make images` builds with this environment: see scripts/common.sh."""
    usual = "cuda cpu" if os.environ.get("TORCH_INDEX") else "cuda"
    return (os.environ.get("LEARNERS") or usual).split()


def build_chart(source: Path, into: Path, epoch: str, registry: str | None) -> None:
    """Package the chart, whose images come from `registry` if that is given."""
    chart = source / "charts" / "nitro"
    values = {}
    if registry:
        values[r"^(  registry: )dev\.local$"] = registry
    if "cpu" in learners():
        values[r'^(  learnerCpu:\n    registry: ""\n    repository: )""$'] = "nitro-learner-cpu"
    text = (chart / "values.yaml").read_text()
    for place, value in values.items():
        text, times = re.subn(place, rf"\g<1>{value}", text, flags=re.M)
        if times != 1:
            raise SystemExit(f"charts/nitro/values.yaml: {times} places are like {place}, not one")
    (chart / "values.yaml").write_text(text)
    _run("helm", "lint", "--strict", "--quiet", chart)
    _run("helm", "package", chart, "--destination", into)
    (package,) = into.glob("nitro-*.tgz")
    _without_times(package, int(epoch))


def _without_times(package: Path, epoch: int) -> None:
    """Give all files of an archive one time and one owner, in order: Helm takes the time of day."""
    with tarfile.open(package) as files:
        members = [(member.name, files.extractfile(member)) for member in files.getmembers()]
        contents = {name: file.read() for name, file in members if file is not None}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as files:
        for name in sorted(contents):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode = len(contents[name]), epoch, 0o644
            files.addfile(entry, io.BytesIO(contents[name]))
    package.write_bytes(gzip.compress(buffer.getvalue(), mtime=epoch))


def build_bills(source: Path, wheels: Path, work: Path) -> None:
    """Write what is installed in each image, in CycloneDX's form.

    The wheels are installed with their dependencies into environments in `work`, on this kind of machine.
    """

    def wheel(part: str) -> str:
        name, bracket, extras = part.partition("[")
        (file,) = wheels.glob(f"{name}-*.whl")
        return f"{file}{bracket}{extras}"

    for image, parts in IMAGES.items():
        python = work / image / "bin" / "python"
        _run(BIN / "uv", "venv", "--quiet", "--python", sys.executable, work / image)
        constraints = ("--constraints", source / "constraints.txt")
        _run(BIN / "uv", "pip", "install", "--quiet", "--python", python, *constraints, *map(wheel, parts))
        for file in (work / image).rglob("nitro_*.dist-info/direct_url.json"):
            file.unlink()  # it holds the wheel's path on this machine
        bill = wheels / f"nitro-{image.removesuffix('-image')}-{version.read(source)}.cdx.json"
        tool = (BIN / "uv", "tool", "run", "--quiet", "--from", CYCLONEDX, "cyclonedx-py")
        project = ("--pyproject", source / image / "pyproject.toml")
        _run(*tool, "environment", python, *project, "--output-reproducible", "--output-file", bill)


def write_checksums(folder: Path) -> None:
    """Write SHA256SUMS, which `sha256sum --check` reads."""
    files = sorted(file for file in folder.iterdir() if file.name != "SHA256SUMS")
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (folder / "SHA256SUMS").write_text("".join(lines))


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument(
        "--registry", help="where the images are pushed to; default: the chart keeps dev.local"
    )
    parser.add_argument("--tag", help="the release's tag; default: the one that the commit has, if any")
    given = parser.parse_args()
    if found := problems(ROOT, given.tag):
        print("no release:", *found, sep="\n- ", file=sys.stderr)
        sys.exit(2)
    if not shutil.which("helm"):
        sys.exit("helm is needed and not on PATH; it packages the chart")
    work = ROOT / "build" / "release"
    shutil.rmtree(work, ignore_errors=True)
    source, built = work / "source", work / "dist"
    epoch = export(ROOT, source)
    print("wheels and source archives", file=sys.stderr)
    build_packages(source, built, epoch)
    print("chart", file=sys.stderr)
    build_chart(source, built, epoch, given.registry)
    print("bills of materials", file=sys.stderr)
    build_bills(source, built, work)
    write_checksums(built)
    shutil.rmtree(ROOT / "dist", ignore_errors=True)
    built.rename(ROOT / "dist")
    shutil.rmtree(work)
    print((ROOT / "dist" / "SHA256SUMS").read_text(), end="")
    print(f"dist/ has release {version.read(ROOT)}; its tag is v{version.read(ROOT)}", file=sys.stderr)


if __name__ == "__main__":
    main()
