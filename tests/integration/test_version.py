"""The version, which stands in one file, and what is written from it."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import version
from release_support import copy_of_the_tree

NEW = "7.8.9-rc.1"
OTHERS = (
    "CHANGELOG.md",
    "constraints.txt",
    "hashes.txt",
    "docs/performance.md",
    "crds/nitro_api/rules/",
    "crds/nitrotrainingjobs.yaml",
    "charts/nitro/files/nitrotrainingjobs.yaml",
)
"""Files that name older releases, other packages, or an image as an example."""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return copy_of_the_tree(tmp_path / "copy")


def test_all_places_have_the_version(copy: Path) -> None:
    assert version.write(copy) == [], "run `make generate`"


def test_another_version_reaches_every_file(copy: Path) -> None:
    old = version.read()
    done = subprocess.run(
        [sys.executable, copy / "scripts" / "version.py", NEW], capture_output=True, text=True, check=True
    )
    assert "charts/nitro/Chart.yaml" in done.stdout
    assert version.write(copy) == []
    left = []
    for file in sorted(one for one in copy.rglob("*") if one.is_file()):
        name = str(file.relative_to(copy))
        if name.startswith(OTHERS):
            continue
        text = file.read_bytes().decode(errors="replace")
        left += [
            f"{name}: {line}"
            for line in text.splitlines()
            if re.search(rf"(?<![\d.]){re.escape(old)}(?![\d.]*\d)", line)
        ]
    assert left == [], "a place that scripts/version.py does not know"
    for folder in ("crds", "actor-image", "learner-image", "rllib", "experiments", "operator"):
        assert tomllib.loads((copy / folder / "pyproject.toml").read_text())["project"]["version"] == NEW
    learner = tomllib.loads((copy / "learner-image" / "pyproject.toml").read_text())["project"]
    assert f"nitro-api=={NEW}" in learner["dependencies"]
    assert f"nitro-actor=={NEW}" in learner["optional-dependencies"]["train"]
    assert f"nitro-experiments=={NEW}" in learner["optional-dependencies"]["experiments"]
    chart = yaml.safe_load((copy / "charts" / "nitro" / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (NEW, NEW)


@pytest.mark.parametrize("wrong", ["v1.2.3", "1.2", "1.2.3rc1", "1.2.3-dev", ""])
def test_what_helm_or_pip_would_refuse_is_no_version(copy: Path, wrong: str) -> None:
    command = [sys.executable, copy / "scripts" / "version.py", wrong]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "write it as 1.2.3" in done.stderr
    assert version.read(copy) == version.read()


def test_a_kind_of_file_without_a_place_is_an_error(copy: Path) -> None:
    citation = copy / "CITATION.cff"
    citation.write_text(re.sub(r"^version: .*\n", "", citation.read_text(), flags=re.M))
    with pytest.raises(ValueError, match=r"no version in CITATION\.cff"):
        version.write(copy)
