"""Attachments of checkpoints: written once, checked, kept as long as a checkpoint names them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nitro_learner.checkpoints.attachments import Attachment
from nitro_learner.checkpoints.store import CheckpointError, CheckpointStore, load, pack


def _attachment(fill: float) -> Attachment:
    arrays = {"rows": np.full((4, 2), fill, np.float32), "flags": np.array([True])}
    return Attachment("replay", lambda: arrays)


def _files(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "attachments").iterdir())


def test_a_loaded_state_has_the_attachments_arrays(tmp_path: Path) -> None:
    CheckpointStore(tmp_path, 3).save(1, {"replay": [_attachment(1.5), {"deep": (_attachment(2.5),)}]})
    state = load(CheckpointStore(tmp_path, 3).path(1)).state
    first, second = state["replay"][0].arrays(), state["replay"][1]["deep"][0].arrays()
    assert np.array_equal(first["rows"], np.full((4, 2), 1.5, np.float32))
    assert np.array_equal(second["rows"], np.full((4, 2), 2.5, np.float32))
    assert first["flags"].dtype == np.bool_


def test_an_attachment_is_read_for_writing_only_once(tmp_path: Path) -> None:
    reads = 0

    def arrays() -> dict[str, Any]:
        nonlocal reads
        reads += 1
        return {"rows": np.zeros(3)}

    store, attachment = CheckpointStore(tmp_path, 5), Attachment("replay", arrays)
    for round in range(1, 5):
        store.save(round, {"replay": attachment})
    assert reads == 1
    assert len(_files(tmp_path)) == 1


def test_a_file_goes_with_the_last_checkpoint_that_names_it(tmp_path: Path) -> None:
    store, kept = CheckpointStore(tmp_path, 2), _attachment(0)
    own = [_attachment(round) for round in range(1, 5)]
    for round in range(1, 5):
        store.save(round, {"kept": kept, "own": own[round - 1]})
    assert _files(tmp_path) == sorted({kept.name, own[2].name, own[3].name})


def test_a_file_that_others_removed_is_written_again(tmp_path: Path) -> None:
    store, attachment = CheckpointStore(tmp_path, 2), _attachment(0)
    store.save(1, {"replay": attachment})
    (tmp_path / "attachments" / attachment.name).unlink()
    path = store.save(2, {"replay": attachment})
    assert np.array_equal(load(path).state["replay"].arrays()["rows"], np.zeros((4, 2)))


@pytest.mark.parametrize("damage", ["cut", "flipped", "missing"])
def test_a_damaged_attachment_is_named_and_the_checkpoint_before_is_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    store, first, second = CheckpointStore(tmp_path, 3), _attachment(1), _attachment(2)
    store.save(1, {"replay": [first]})
    path = store.save(2, {"replay": [first, second]})
    file = tmp_path / "attachments" / second.name
    data = bytearray(file.read_bytes())
    if damage == "missing":
        file.unlink()
    else:
        data[-1] ^= 1
        file.write_bytes(data[:50] if damage == "cut" else data)
    with pytest.raises(CheckpointError, match=second.name):
        load(path)
    checkpoint = store.latest()
    assert checkpoint is not None
    assert checkpoint.round == 1
    assert second.name in caplog.text


def test_a_damaged_checkpoint_does_not_hinder_the_next(tmp_path: Path) -> None:
    store, attachment = CheckpointStore(tmp_path, 3), _attachment(1)
    store.save(1, {"replay": attachment}).write_bytes(b"no")
    path = store.save(2, {"replay": attachment})
    assert load(path).round == 2


def test_half_written_files_are_never_seen_as_attachments(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, 3)
    store.save(1, {"replay": _attachment(1)})
    partial = tmp_path / "attachments" / ("replay-" + "0" * 32 + ".partial")
    partial.write_bytes(b"x")
    store.save(2, {"replay": _attachment(1)})
    assert partial.exists()
    assert len(_files(tmp_path)) == 2


def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no name of an attachment"):
        Attachment.read(tmp_path, "../replay-00000000000000000000000000000000.safetensors")


def test_a_checkpoint_is_not_packed_before_its_attachments_are_written() -> None:
    with pytest.raises(TypeError, match="must be written before the checkpoint"):
        pack(1, {"replay": _attachment(1)})
