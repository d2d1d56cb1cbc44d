"""Checkpoints: one atomic safetensors file each, no pickle, the newest few kept.

A file holds the tensors of a nested state and, under the one metadata key `nitro`, canonical JSON with the
state's structure, references to its tensors, and a digest of all of it. (safetensors writes several metadata
keys in random order, so there is one.) A checkpoint is written beside its final name, flushed to disk and
renamed, so a crash at any moment leaves the previous one whole. Data that many checkpoints hold and that
never changes lies in files of its own; see `attachments.py`.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as save_tensors

from nitro_learner.checkpoints import attachments, files, migrations
from nitro_learner.checkpoints.attachments import Attachment
from nitro_learner.checkpoints.files import BEST, CheckpointError, NoCheckpointError

__all__ = ["Checkpoint", "CheckpointError", "CheckpointStore", "NoCheckpointError", "load", "pack", "write"]

logger = logging.getLogger(__name__)

_NAME = re.compile(r"round-(\d{6,})\.safetensors")
# Markers for types that JSON does not have. A user's dictionary cannot clash: the state's keys are ours.
_TENSOR, _ARRAY, _TUPLE, _ITEMS = "$tensor", "$array", "$tuple", "$items"
_ATTACHMENT = "$attachment"
_EVALUATION = "evaluation"
"""The part of the best policy's file that other checkpoints do not have."""


@dataclass(frozen=True)
class Checkpoint:
    """A state as it was saved after `round` (0 = before the first)."""

    round: int
    state: dict[str, Any]
    path: Path


class CheckpointStore:
    """The checkpoints of one run folder.

        store = CheckpointStore(run_dir / "checkpoints", keep_last=3)
        store.save(12, state)
        store.latest()          # the newest that is whole

    Args:
        directory: created when missing.
        keep_last: how many files stay; older ones are removed after each save.

    Attributes:
        missed: why the newest checkpoint is in the directory alone, and not in the bucket that keeps the run;
            None where it is.
    """

    def __init__(self, directory: Path, keep_last: int) -> None:
        self.directory = directory
        self.keep_last = keep_last
        self.missed: str | None = None

    def path(self, round: int) -> Path:
        return self.directory / f"round-{round:06d}.safetensors"

    def rounds(self) -> list[int]:
        """Rounds with a checkpoint file, oldest first."""
        if not self.directory.is_dir():
            return []
        matches = (_NAME.fullmatch(path.name) for path in self.directory.iterdir())
        return sorted(int(match.group(1)) for match in matches if match)

    def save(self, round: int, state: Mapping[str, Any]) -> Path:
        """Write the state atomically and remove files beyond `keep_last`.

        Raises:
            CheckpointError: the disk is full or the folder cannot be written; earlier checkpoints are
                untouched.
        """
        path = self.path(round)
        write(path, round, state)
        kept = [number for number in self.rounds() if number <= round][-self.keep_last :]
        for number in self.rounds():
            if number <= round and number not in kept:
                self.path(number).unlink(missing_ok=True)
        named = {name for number in self.rounds() for name in _named(self.path(number))}
        attachments.prune(self.directory / attachments.FOLDER, named)
        return path

    def save_best(self, round: int, state: Mapping[str, Any], mean: float) -> None:
        """Replace the file of the best policy, which stays while older checkpoints of rounds are removed.

        Args:
            round: after which the policy was trained.
            state: without attachments.
            mean: return of its evaluation.

        Raises:
            CheckpointError: the disk is full or the folder cannot be written; what was there is untouched.
        """
        write(self.directory / BEST, round, {**state, _EVALUATION: {"mean": mean}})

    def best(self) -> dict[str, Any] | None:
        """`round` and `mean` return of the best policy; None where there is no whole file of it."""
        if not (self.directory / BEST).exists():
            return None
        try:
            checkpoint = load(self.directory / BEST, only=[_EVALUATION])
        except CheckpointError as error:
            logger.warning("%s", error)
            return None
        return {"round": checkpoint.round, **checkpoint.state[_EVALUATION]}

    def latest(self, *, attached: bool = True, only: Collection[str] | None = None) -> Checkpoint | None:
        """The newest checkpoint that is whole, with a warning for each newer one that is damaged; None when
        there is no file. See `load` for `attached` and `only`.

        Raises:
            CheckpointError: there are files and none is whole.
        """
        rounds = self.rounds()
        for number in reversed(rounds):
            try:
                return load(self.path(number), attached=attached, only=only)
            except CheckpointError as error:
                logger.warning("%s The one before it is used.", error)
        if rounds:
            raise CheckpointError(
                f"{self.directory}: all {len(rounds)} checkpoints are damaged. Start a new run."
            )
        return None


def write(path: Path, round: int, state: Mapping[str, Any]) -> None:
    """Write one checkpoint file atomically, after the attachments that are not on disk yet.

    Raises:
        CheckpointError: the disk is full or the folder cannot be written; what was there is untouched.
    """
    for attachment in _attachments(state):
        attachment.write(path.parent / attachments.FOLDER)
    files.write(path, pack(round, state), f"the checkpoint of round {round}")


def load(path: Path, *, attached: bool = True, only: Collection[str] | None = None) -> Checkpoint:
    """Read one checkpoint file and its attachments. Without `attached`, None is in the place of each.

    Args:
        only: the parts of the state to return, if it has them; all by default. Parts without torch's tensors
            are read without torch.

    Raises:
        CheckpointError: a file is missing, cut, altered, or of a version that cannot be read.
    """
    try:
        with safe_open(path, framework="np") as file:
            text = (file.metadata() or {})["nitro"]
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
        meta = json.loads(text)
        digest = meta.pop("digest")
    except (OSError, SafetensorError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{path}: the checkpoint is damaged or cannot be read ({error}).") from error
    if digest != _digest(meta, tensors):
        raise CheckpointError(f"{path}: the checkpoint is damaged (its digest does not match).")
    folder = path.parent / attachments.FOLDER if attached else None
    wanted = {name: part for name, part in meta["state"].items() if only is None or name in only}
    state: dict[str, Any] = _unflatten(wanted, tensors, folder)
    return Checkpoint(meta["round"], migrations.migrated(path, meta.get("schema"), state), path)


def pack(round: int, state: Mapping[str, Any]) -> bytes:
    """The bytes of a checkpoint file.

    Args:
        state: nested dictionaries, lists and tuples of torch tensors, numpy arrays, numbers, strings,
            booleans, None and attachments that are on disk.

    Raises:
        TypeError: for any other type, with the path of the value.
    """
    tensors: dict[str, np.ndarray] = {}
    meta: dict[str, Any] = {
        "schema": migrations.VERSION,
        "round": round,
        "state": _flatten(state, "", tensors),
    }
    meta["digest"] = _digest(meta, tensors)
    return bytes(save_tensors(tensors, {"nitro": _canonical(meta)}))


def _flatten(value: Any, path: str, tensors: dict[str, np.ndarray]) -> Any:
    """The JSON form of a value; its tensors go into `tensors` under their path."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    # Checkpoints are read where torch is not installed, so it is not imported above.
    if (torch := sys.modules.get("torch")) and isinstance(value, torch.Tensor):
        # A copy: the caller may go on training while the file is written.
        tensors[path] = value.detach().cpu().contiguous().numpy().copy()
        return {_TENSOR: path}
    if isinstance(value, np.ndarray):
        tensors[path] = np.ascontiguousarray(value)
        # ascontiguousarray makes a scalar array one-dimensional.
        return {_ARRAY: path, "scalar": True} if value.ndim == 0 else {_ARRAY: path}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Attachment):
        return {_ATTACHMENT: value.name}
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return {key: _flatten(item, f"{path}/{key}".lstrip("/"), tensors) for key, item in value.items()}
        return {
            _ITEMS: [
                [key, _flatten(item, f"{path}/{key}".lstrip("/"), tensors)] for key, item in value.items()
            ]
        }
    if isinstance(value, list | tuple):
        items = [_flatten(item, f"{path}/{index}".lstrip("/"), tensors) for index, item in enumerate(value)]
        return {_TUPLE: items} if isinstance(value, tuple) else items
    raise TypeError(f"the state's {path!r} is a {type(value).__name__}, which a checkpoint cannot hold")


def _unflatten(value: Any, tensors: dict[str, np.ndarray], folder: Path | None) -> Any:
    if isinstance(value, list):
        return [_unflatten(item, tensors, folder) for item in value]
    if not isinstance(value, dict):
        return value
    if _TENSOR in value:
        import torch

        return torch.from_numpy(tensors[value[_TENSOR]].copy())
    if _ARRAY in value:
        array = tensors[value[_ARRAY]].copy()
        return array.reshape(()) if value.get("scalar") else array
    if _ATTACHMENT in value:
        return Attachment.read(folder, value[_ATTACHMENT]) if folder else None
    if _TUPLE in value:
        return tuple(_unflatten(item, tensors, folder) for item in value[_TUPLE])
    if _ITEMS in value:
        return {key: _unflatten(item, tensors, folder) for key, item in value[_ITEMS]}
    return {key: _unflatten(item, tensors, folder) for key, item in value.items()}


def _attachments(state: Any) -> Iterator[Attachment]:
    """All attachments of a state."""
    if isinstance(state, Attachment):
        yield state
    elif isinstance(state, Mapping | list | tuple):
        for item in state.values() if isinstance(state, Mapping) else state:
            yield from _attachments(item)


def _named(path: Path) -> Iterator[str]:
    """The attachments that a checkpoint file names; none where it is damaged, because it is not used."""
    try:
        with safe_open(path, framework="np") as file:
            state = json.loads((file.metadata() or {})["nitro"])["state"]
    except (OSError, SafetensorError, LookupError, TypeError, ValueError) as error:
        logger.debug("%s: %s", path, error)
        return
    yield from _names_in(state)


def _names_in(value: Any) -> Iterator[str]:
    """The names of attachments in a state's JSON form."""
    if isinstance(value, dict) and _ATTACHMENT in value:
        yield value[_ATTACHMENT]
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _names_in(item)


def _canonical(meta: dict[str, Any]) -> str:
    return json.dumps(meta, sort_keys=True, separators=(",", ":"))


def _digest(meta: dict[str, Any], tensors: dict[str, np.ndarray]) -> str:
    """Digest of the structure and of every tensor's name, type, shape and bytes (safetensors itself has no
    checksum).
    """
    digest = hashlib.blake2b(_canonical(meta).encode(), digest_size=16)
    for name in sorted(tensors):
        array = tensors[name]
        digest.update(f"{name}|{array.dtype.str}|{array.shape}|".encode())
        digest.update(np.ascontiguousarray(array).data if array.size else b"")
    return digest.hexdigest()
