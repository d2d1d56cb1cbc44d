"""Marks in folders that this program writes, so that it never overwrites other files."""

from __future__ import annotations

from pathlib import Path

LOCK = ".lock"
"""The file that carries the mark, and that a process locks while it works in the folder."""

_MARK = "nitro writes into this folder; the file marks it, and keeps a second process out.\n"
_SHOWN = 3


def mark(path: Path) -> Path:
    """Make the folder and its mark where they are missing, and return the file that carries it."""
    path.mkdir(parents=True, exist_ok=True)
    lock = path / LOCK
    with lock.open("a", encoding="utf-8") as file:
        if file.tell() == 0:
            file.write(_MARK)
    return lock


def is_marked(path: Path) -> bool:
    try:
        return (path / LOCK).read_text(encoding="utf-8") == _MARK
    except (OSError, UnicodeDecodeError):
        return False


def contents(path: Path) -> list[str]:
    """Names of everything in a folder except an empty lock: a process that is just starting has made it."""
    if not path.is_dir():
        return []
    return sorted(entry.name for entry in path.iterdir() if entry.name != LOCK or entry.stat().st_size > 0)


def shown(names: list[str]) -> str:
    """The first few names, for a message."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
