"""Copies of this tree, to change and to release from."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def copy_of_the_tree(folder: Path) -> Path:
    """Copy the files that git has or would take into a new folder, without tests and result pages."""
    command = ["git", "-C", ROOT, "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True)
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file() and not name.startswith(("experiments/results/", "tests/")):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


def git(folder: Path, *arguments: str) -> None:
    """Run git in a folder, as a user of its own."""
    who = ["-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", folder, *who, *arguments], check=True, capture_output=True, timeout=120)


def committed(folder: Path) -> Path:
    """The copy of the tree as a commit of a repository of its own."""
    copy_of_the_tree(folder)
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "all")
    return folder
