"""A release's wheels on a machine that has neither a clone nor a network: they install, and CartPole trains.

Nothing is downloaded. What Nitro needs of others is in this environment: each such package has a wheel of its
metadata alone, by which uv decides. Its files, which are gigabytes of all packages, are linked afterwards.
"""

from __future__ import annotations

import csv
import os
import shlex
import subprocess
import venv
import zipfile
from importlib.metadata import Distribution, distribution, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import release
from docs_blocks import SMALL, blocks
from nitro_api import load_job
from release_support import ROOT, copy_of_the_tree

PAGE = ROOT / "docs" / "install.md"
NOT_PACKED = ("INSTALLER", "REQUESTED", "RECORD", "direct_url.json")


def needed(name: str, *extras: str) -> list[Distribution]:
    """What a package needs of others, by the requirements of what is installed here."""
    found: dict[str, Distribution] = {}
    seen, todo = set(), [(name, extra) for extra in ("", *extras)]
    while todo:
        name, extra = todo.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        package = distribution(name)
        if not name.startswith("nitro-"):
            found[name] = package
        for requirement in map(Requirement, package.requires or ()):
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                todo += [(canonicalize_name(requirement.name), one) for one in ("", *requirement.extras)]
    return list(found.values())


def describe(package: Distribution, folder: Path) -> None:
    """Make a wheel of an installed package that has its metadata alone."""
    files = [file for file in package.files or () if file.parts[0].endswith(".dist-info")]
    (info,) = {file.parts[0] for file in files}
    kept = [file for file in files if file.name not in NOT_PACKED]
    with zipfile.ZipFile(folder / f"{info.removesuffix('.dist-info')}-py3-none-any.whl", "w") as wheel:
        for file in kept:
            wheel.write(file.locate(), file.as_posix())
        record = f"{info}/RECORD"
        wheel.writestr(record, "".join(f"{name},,\n" for name in [*map(str, kept), record]))


def link(package: Distribution, site: Path) -> None:
    """Link the files of an installed package into another environment."""
    for top in {file.parts[0] for file in package.files or ()}:
        place = site / top
        if top != ".." and not place.exists():
            place.symlink_to(Path(str(package.locate_file(top))))


def of_the_page(start: str) -> list[str]:
    """The words of the page's one command that begins so."""
    (line,) = [
        words for block in blocks(PAGE) for words in block.lines if shlex.join(words).startswith(start)
    ]
    return line


def test_wheels_install_without_a_network_and_train_without_a_clone(tmp_path: Path) -> None:
    wheels, python = tmp_path / "wheels", tmp_path / "venv" / "bin" / "python"
    source = copy_of_the_tree(tmp_path / "source")
    release.build_packages(source, wheels, epoch="1700000000")
    packages = needed("nitro-learner", "train", "local")
    for package in packages:
        describe(package, wheels)
    venv.create(tmp_path / "venv", with_pip=False)
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("UV_", "PYTHON"))}
    command = of_the_page("pip install --no-index")
    done = subprocess.run(
        [release.BIN / "uv", "pip", "install", "--python", python, *command[2:]],
        cwd=tmp_path,
        env=clean | {"UV_NO_CONFIG": "1", "UV_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (site,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    installed = {canonicalize_name(package.name) for package in distributions(path=[str(site)])}
    for package in packages:
        if canonicalize_name(package.name) in installed:
            link(package, site)

    work = tmp_path / "work"
    work.mkdir()
    (job,) = [block.text for block in blocks(PAGE) if block.language == "yaml"]
    assert load_job(job) == load_job(ROOT / "examples" / "cartpole.yaml")
    (work / "cartpole.yaml").write_text(job)
    (line,) = [of_the_page("nitro train")]
    small = [part for path, value in SMALL.items() for part in ("--set", f"{path}={value}")]
    done = subprocess.run(
        [python.with_name("nitro"), *line[1:], *small, "--run-dir", "run"],
        cwd=work,
        env=clean,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with (work / "run" / "metrics.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert int(row["env_steps"]) > 0
    assert (work / "run" / "result.png").exists()
