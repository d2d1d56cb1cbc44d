"""Attachments: arrays that many checkpoints hold and that never change, each in a file of its own.

A checkpoint names the file, and the name has a digest of its bytes. So each round of a replay buffer is
written once, even if many checkpoints hold it, and a damaged file is noticed. A file stays as long as a
checkpoint names it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load as read_tensors
from safetensors.numpy import save as save_tensors

from nitro_learner.checkpoints import files
from nitro_learner.checkpoints.files import CheckpointError

FOLDER = "attachments"
"""The folder of attachments, beside the checkpoints."""

_NAME = re.compile(r"[a-z]+-[0-9a-f]{32}\.safetensors")
Arrays = Mapping[str, NDArray[Any]]


class Attachment:
    """Arrays by name, part of a checkpoint's state.

    The maker of the state keeps this object as long as its states have these arrays, so that each array is
    written once.
    """

    def __init__(self, kind: str, arrays: Callable[[], Arrays], name: str | None = None) -> None:
        """
        Args:
            kind: lower-case letters; the file's name begins with it.
            arrays: returns them; called when they are written. They must not have changed by then.
            name: of the file, where it is written.
        """
        self.arrays = arrays
        self._kind = kind
        self._name = name

    @property
    def name(self) -> str:
        """The file's name.

        Raises:
            TypeError: it is not written yet.
        """
        if self._name is None:
            raise TypeError(
                f"an attachment ({self._kind}) must be written before the checkpoint that names it"
            )
        return self._name

    def write(self, folder: Path) -> str:
        """Write the file unless it is there, and return its name.

        Raises:
            CheckpointError: the disk is full or the folder cannot be written.
        """
        if self._name is None or not (folder / self._name).exists():
            arrays = {name: np.ascontiguousarray(array) for name, array in self.arrays().items()}
            data = bytes(save_tensors(arrays))
            self._name = f"{self._kind}-{_digest(data)}.safetensors"
            if not (folder / self._name).exists():
                files.write(folder / self._name, data, "an attachment of the checkpoint")
        return self._name

    @classmethod
    def read(cls, folder: Path, name: str) -> Attachment:
        """Check a file. Its arrays are read when they are wanted.

        Raises:
            CheckpointError: it is missing or damaged.
        """
        path = folder / name
        if not _NAME.fullmatch(name):
            raise CheckpointError(f"{path}: {name!r} is no name of an attachment.")
        try:
            data = path.read_bytes()
        except OSError as error:
            raise CheckpointError(
                f"{path}: an attachment of the checkpoint cannot be read ({error.strerror or error})."
            ) from error
        kind, _, digest = name.removesuffix(".safetensors").partition("-")
        if _digest(data) != digest:
            raise CheckpointError(
                f"{path}: an attachment of the checkpoint is damaged (its digest does not match)."
            )
        return cls(kind, lambda: read_tensors(path.read_bytes()), name)


def without_attachments(value: Any) -> Any:
    """A state with None in the place of each attachment. Its containers are new, its arrays are not."""
    if isinstance(value, Attachment):
        return None
    if isinstance(value, Mapping):
        return {key: without_attachments(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(without_attachments(item) for item in value)
    return value


def prune(folder: Path, named: set[str]) -> None:
    """Remove the attachments that no checkpoint names."""
    if folder.is_dir():
        for path in folder.iterdir():
            if _NAME.fullmatch(path.name) and path.name not in named:
                path.unlink(missing_ok=True)


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
