"""Marks in folders that this program writes, so that it never overwrites other files; and locks, which keep
a second process out.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

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


@contextmanager
def held(lock: Path, busy: Exception) -> Iterator[None]:
    """Hold the lock of a file that stays; the lock ends with the process, however that dies.

    Raises:
        Exception: another process holds it; `busy` itself.
    """
    with lock.open("a") as file:
        _take(file, busy)
        yield


@contextmanager
def held_beside(path: Path, busy: Exception) -> Iterator[None]:
    """Hold a lock for work on one file of a folder that may hold others' files, too. A hidden file beside it
    carries the lock, and goes away with it.

    Raises:
        Exception: another process holds it; `busy` itself.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = path.with_name(f".{path.name}.lock")
    while True:
        with lock.open("a") as file:
            _take(file, busy)
            if not _is_at(file, lock):  # its last holder has removed it, and a third process may make it anew
                continue
            try:
                yield
            finally:
                lock.unlink(missing_ok=True)
            return


def _take(file: IO[str], busy: Exception) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise busy from None


def _is_at(file: IO[str], path: Path) -> bool:
    """Whether the open file is the one that has this path now."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


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
