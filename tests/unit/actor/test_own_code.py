"""The job's code on the module path: checked before it is imported, and behind what is installed."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

LOOK = """\
import nitro_actor.entry_points as e
e.find_code()
import gymnasium, mine
print(gymnasium.__version__, mine.PLACE)
try:
    e.load("mine:missing.attribute")
except Exception as error:
    print(error)
try:
    e.load("gymnasium:Mine")
except Exception as error:
    print(error)
try:
    e.load("needs:Thing")
except Exception as error:
    print(error)
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    path = tmp_path / "code.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mine.py", "PLACE = __file__\n")
        archive.writestr("gymnasium.py", "raise RuntimeError('not the installed one')\n")
        archive.writestr("needs.py", "import no_such_requirement\n")
    return path


def run(words: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], env={**os.environ, **variables}, capture_output=True, text=True
    )


def test_a_package_with_its_digest_is_found_behind_what_is_installed(package: Path) -> None:
    digest = hashlib.sha256(package.read_bytes()).hexdigest()
    said = run(["-c", LOOK], NITRO_CODE=str(package), NITRO_CODE_SHA256=digest, KUBERNETES_SERVICE_HOST="x")
    first, wrong, taken, missing = said.stdout.splitlines()
    assert first.endswith(f" {package}/mine.py")
    assert "correct what stands after the colon" in wrong
    assert "gymnasium/__init__.py is installed, and goes before the module of the job's code" in taken
    assert f"No module named 'no_such_requirement' ({package}/needs.py:1" in missing
    assert "pack no_such_requirement too, with `nitro code`, or, if it is not yours, install it" in missing
    assert "spec.code brings only your own files" in missing


@pytest.mark.parametrize("program", [["-c", LOOK], ["-m", "nitro_actor.server"]])
def test_a_package_with_another_digest_is_never_imported(
    package: Path, tmp_path: Path, program: list[str]
) -> None:
    wanted = hashlib.sha256(package.read_bytes()).hexdigest()
    with zipfile.ZipFile(package, "a") as archive:
        archive.writestr("later.py", "X = 1\n")
    actual = hashlib.sha256(package.read_bytes()).hexdigest()
    given = '{"id": "x", "entryPoint": "later:X"}'
    said = run(program, NITRO_CODE=str(package), NITRO_CODE_SHA256=wanted, NITRO_ENVIRONMENT=given)
    assert said.returncode == 1
    told = said.stdout + said.stderr
    assert f"has the digest {actual}, and the job says {wanted}; nothing of it is imported" in told
    assert "delete the ConfigMap" in told
    gone = run(program, NITRO_CODE=str(tmp_path / "none"), NITRO_CODE_SHA256=wanted, NITRO_ENVIRONMENT=given)
    assert gone.returncode == 1
    assert "cannot be read (No such file or directory)" in gone.stdout + gone.stderr
