"""Files that are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

BEST = "best.safetensors"
"""The file of the policy with the best evaluation, beside the checkpoints of rounds."""


class CheckpointError(Exception):
    """A checkpoint could not be written or read; the message names the file and the remedy."""


class NoCheckpointError(CheckpointError):
    """There is no checkpoint at the place that somebody named."""


def without_best(run: str) -> NoCheckpointError:
    """The error of a run that has no best policy."""
    return NoCheckpointError(
        f"{run}: no checkpoints/{BEST} in it: the run was not evaluated yet (spec.evaluation.everyRounds). "
        "Ask for the newest checkpoint, which is the default."
    )


def write(path: Path, data: bytes, what: str) -> None:
    """Write a file beside its final name, flush it to disk and rename it. Folders are created.

    Args:
        what: says in the error what the file is.

    Raises:
        CheckpointError: the disk is full or the folder cannot be written; what was there is untouched.
    """
    temporary = path.with_suffix(".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace(path, temporary, data)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise CheckpointError(
            f"{path}: {what} ({len(data) / 1e6:.1f} MB) could not be written: "
            f"{error.strerror or error}. Earlier checkpoints are whole: make room and resume."
        ) from error


def replace(path: Path, temporary: Path, data: bytes) -> None:
    """Write data under a temporary name, flush it to disk and rename it, so that a power cut leaves the old
    file or the new one. Raises OSError."""
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    descriptor = os.open(path.parent, os.O_RDONLY)  # the rename itself must last, too
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
