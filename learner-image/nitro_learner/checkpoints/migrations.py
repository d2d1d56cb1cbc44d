"""The version of a checkpoint's state, and how states of earlier versions become those of today.

A change of what a state holds raises `VERSION` by one, and adds to `MIGRATIONS` how a state of the version
before becomes one of the new version. A state may have some of its parts only.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from nitro_learner.checkpoints.files import CheckpointError

State = dict[str, Any]

VERSION = 1
MIGRATIONS: dict[int, Callable[[State], State]] = {}
"""From a version to the next one."""


def migrated(path: Path, version: object, state: State) -> State:
    """The state as today's version has it.

    Args:
        path: of the checkpoint.
        version: that the file tells.

    Raises:
        CheckpointError: it tells none, or one that this release does not know.
    """
    if not isinstance(version, int):
        raise CheckpointError(f"{path}: the checkpoint does not tell its version. Train the job anew.")
    if not 1 <= version <= VERSION:
        raise CheckpointError(
            f"{path}: the checkpoint has version {version}, and this release reads 1 to {VERSION}. Use a "
            "release that is as new as the one that wrote it."
        )
    for number in range(version, VERSION):
        state = MIGRATIONS[number](state)
    return state
