"""The package of a folder of code: its bytes, what is in it, and folders that are refused."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nitro_learner.run.code_package import MOST_BYTES, CodeFolderError, pack

FILES = ("line.py", "parts/__init__.py", "parts/deep/more.py")


def write(folder: Path, *files: str, text: str = "X = 1\n") -> Path:
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text)
    return folder


def test_equal_files_give_equal_bytes_whatever_their_times_rights_and_order(tmp_path: Path) -> None:
    one, other = write(tmp_path / "one", *FILES), write(tmp_path / "other", *reversed(FILES))
    os.utime(one / "line.py", (1, 1))
    (one / "line.py").chmod(0o700)
    packed = pack(one)
    assert packed.data == pack(other).data
    assert packed.files == FILES
    # A new release that packed otherwise would refuse to go on with every run of the old one.
    assert packed.digest == "2dc996264af7998bd8a35e555f0489a06b55fd0c6bf1c63bc2839016b4885878"
    (other / "line.py").write_text("X = 2\n")
    assert pack(other).digest != packed.digest


def test_python_imports_what_the_config_map_holds(tmp_path: Path) -> None:
    package = pack(write(tmp_path / "mine", *FILES))
    made = package.config_map()
    assert made["immutable"] is True
    assert made["metadata"]["name"] == f"nitro-code-{package.digest[:16]}"
    data = base64.b64decode(made["binaryData"]["code.zip"])
    assert hashlib.sha256(data).hexdigest() == package.digest
    (tmp_path / "code.zip").write_bytes(data)
    words = "import parts.deep.more as more, line; print(more.X + line.X, more.__file__)"
    variables = {**os.environ, "PYTHONPATH": str(tmp_path / "code.zip")}
    said = subprocess.run([sys.executable, "-c", words], env=variables, capture_output=True, text=True)
    assert said.stdout.split() == ["2", str(tmp_path / "code.zip" / "parts/deep/more.py")], said.stderr


def test_what_is_left_out(tmp_path: Path) -> None:
    folder = write(tmp_path, *FILES, "tests/a.py", "parts/tests/b.py", "old_a.py", "parts/old.py")
    write(folder, ".venv/c.py", "env/pyvenv.cfg", "env/d.py", "__pycache__/e.py", "notes.txt", "draft.py")
    (folder / ".nitroignore").write_text("# comment\n\n/tests/\nold_?.py\nparts/o*.py\ndraft.py/\n")
    assert pack(folder).files == (
        "draft.py",
        "line.py",
        "parts/__init__.py",
        "parts/deep/more.py",
        "parts/tests/b.py",
    )
    (folder / ".nitroignore").write_text("tests/\n!tests/a.py\n")
    with pytest.raises(CodeFolderError, match=r"\.nitroignore, line 2: '!tests/a\.py' has !"):
        pack(folder)


def test_folders_that_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CodeFolderError, match="is no folder"):
        pack(tmp_path / "none")
    with pytest.raises(CodeFolderError, match="has no Python file"):
        pack(tmp_path)
    write(tmp_path, "types.py")
    with pytest.raises(CodeFolderError, match="Python has a module types of its own"):
        pack(tmp_path)
    (tmp_path / "types.py").unlink()
    write(tmp_path, "small.py", "fits.py")
    room = MOST_BYTES - len(pack(tmp_path).data)
    (tmp_path / "fits.py").write_text("#" * (room + len("X = 1\n")))
    assert len(pack(tmp_path).data) == MOST_BYTES
    (tmp_path / "fits.py").write_text("#" * (room + len("X = 1\n") + 1))
    with pytest.raises(
        CodeFolderError, match=r"901 KiB, and at most 900 KiB .* fits\.py \(900 KiB\), small\.py"
    ):
        pack(tmp_path)
