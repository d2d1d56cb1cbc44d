"""The former release from git's history: its tree, and its packages.

No release was published yet, so it is the last commit before files began anew as version 1.
"""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMIT = "9b12a9f4eaa9297ab25bfd7dc4d84264f53d562b"
FOLDERS = ("actor-image", "charts", "crds", "learner-image", "operator", "scripts", "constraints.txt")
PACKAGES = {
    "actor": ("actor-image",),
    "learner": ("crds", "actor-image", "learner-image"),
    "operator": ("crds", "operator"),
}
"""Of each image."""
BUILD_SECONDS = 600


def tree() -> Path:
    """Its tree, kept outside the clone. Skips the test where git's history lacks the release."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "nitro-releases"
    folder = cache / f"{COMMIT[:12]}-tree"
    if not folder.is_dir():
        archive = subprocess.run(
            ["git", "-C", ROOT, "archive", COMMIT, *FOLDERS], capture_output=True, check=False
        )
        if archive.returncode != 0:
            pytest.skip(f"the former release ({COMMIT[:7]}) is not in git's history: clone without --depth")
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as unpacked:
            found = Path(unpacked) / "tree"
            with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
                files.extractall(found, filter="data")
            if not folder.exists():
                found.rename(folder)
    return folder


def packages(*names: str) -> str:
    """A PYTHONPATH of its packages, which run without installation."""
    return os.pathsep.join(str(tree() / name) for name in names)
