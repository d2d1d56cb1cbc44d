"""Checkpoints: exact round trips, damage of every kind, a full disk, files kept."""

import logging
import os
import resource
from pathlib import Path

import numpy as np
import pytest
import torch

from nitro_learner.checkpoints import migrations
from nitro_learner.checkpoints.store import CheckpointError, CheckpointStore, load, pack


def _state(fill: float = 1.5) -> dict:
    generator = torch.Generator().manual_seed(3)
    return {
        "algorithm": {
            "weights": torch.full((3, 2), fill, dtype=torch.float32),
            "steps": torch.tensor(7),
            "adam": {0: {"exp_avg": torch.ones(2, dtype=torch.float64)}, 1: {"betas": (0.9, 0.999)}},
            "rng": generator.get_state(),
            "empty": torch.zeros(0, 4),
        },
        "end_states": {4: {"state/qpos": np.arange(5, dtype=np.float64), "state/flag": np.array(True)}},
        "numpy_rng": np.random.default_rng(1).bit_generator.state,
        "window": [1.0, 0.1 + 0.2, float("inf")],
        "score": None,
        "name": "hopper",
    }


def _equal(left: object, right: object) -> bool:
    if isinstance(left, dict):
        return (
            isinstance(right, dict)
            and left.keys() == right.keys()
            and all(_equal(left[k], right[k]) for k in left)
        )
    if isinstance(left, torch.Tensor):
        return isinstance(right, torch.Tensor) and left.dtype == right.dtype and torch.equal(left, right)
    if isinstance(left, np.ndarray):
        return isinstance(right, np.ndarray) and left.dtype == right.dtype and np.array_equal(left, right)
    if isinstance(left, list | tuple):
        return type(left) is type(right) and len(left) == len(right) and all(map(_equal, left, right))
    return left == right


def test_a_loaded_state_equals_the_saved_one(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path / "checkpoints", keep_last=3)
    store.save(12, _state())
    checkpoint = store.latest()
    assert checkpoint is not None
    assert checkpoint.round == 12
    assert _equal(checkpoint.state, _state())


def test_equal_states_make_equal_files() -> None:
    assert pack(3, _state()) == pack(3, _state())


def test_a_snapshot_is_not_changed_by_later_training() -> None:
    weights = torch.zeros(4)
    before = pack(1, {"weights": weights})
    weights += 1
    assert before == pack(1, {"weights": torch.zeros(4)})


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep_last=2)
    for number in (1, 2, 3, 4):
        store.save(number, _state())
    assert store.rounds() == [3, 4]


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "garbage"])
def test_a_damaged_newest_checkpoint_is_replaced_by_the_one_before(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    store = CheckpointStore(tmp_path, keep_last=3)
    store.save(1, _state(1.0))
    path = store.save(2, _state(2.0))
    data = bytearray(path.read_bytes())
    if damage == "cut":
        data = data[: len(data) // 2]
    elif damage == "flipped":
        data[-3] ^= 1
    else:
        data = bytearray(b"" if damage == "empty" else os.urandom(500))
    path.write_bytes(data)
    with caplog.at_level(logging.WARNING):
        checkpoint = store.latest()
    assert checkpoint is not None
    assert checkpoint.round == 1
    assert "round-000002" in caplog.text
    store.save(2, _state(2.0))
    assert load(path).round == 2


def test_every_flipped_byte_is_noticed(tmp_path: Path) -> None:
    path = CheckpointStore(tmp_path, keep_last=1).save(1, {"weights": torch.arange(6.0), "round": 1})
    data = path.read_bytes()
    for position in range(len(data)):
        broken = bytearray(data)
        broken[position] ^= 0x11
        path.write_bytes(broken)
        try:
            checkpoint = load(path)
        except CheckpointError:
            continue
        # Padding in the header is the only place where a byte carries nothing.
        assert torch.equal(checkpoint.state["weights"], torch.arange(6.0))
        assert checkpoint.state["round"] == 1


def test_only_damaged_checkpoints_are_an_error(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep_last=3)
    store.save(1, _state()).write_bytes(b"no")
    with pytest.raises(CheckpointError, match="all 1 checkpoints are damaged"):
        store.latest()


def test_without_a_checkpoint_load_returns_none(tmp_path: Path) -> None:
    assert CheckpointStore(tmp_path / "absent", keep_last=3).latest() is None


def test_a_type_that_cannot_be_saved_is_named() -> None:
    with pytest.raises(TypeError, match="algorithm/policy"):
        pack(1, {"algorithm": {"policy": object()}})


def test_disk_full_leaves_the_earlier_file_whole(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, keep_last=3)
    store.save(1, _state())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
    try:
        with pytest.raises(CheckpointError, match=r"round 2 .*make room and resume"):
            store.save(2, {"weights": torch.zeros(10_000)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert store.rounds() == [1]
    assert [path.name for path in tmp_path.iterdir()] == ["round-000001.safetensors"]
    checkpoint = store.latest()
    assert checkpoint is not None
    assert checkpoint.round == 1


@pytest.mark.parametrize(
    ("version", "told"),
    [(None, "does not tell its version"), (2, "has version 2, and this release reads 1 to 1")],
)
def test_a_file_without_a_version_and_one_of_a_later_release_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int | None, told: str
) -> None:
    with monkeypatch.context() as other_release:
        other_release.setattr(migrations, "VERSION", version)
        path = CheckpointStore(tmp_path, keep_last=3).save(1, _state())
    with pytest.raises(CheckpointError, match=f"round-000001.safetensors: the checkpoint {told}"):
        load(path)


def test_a_state_of_an_earlier_version_becomes_todays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = CheckpointStore(tmp_path, keep_last=3).save(1, {"run": "abc"})
    monkeypatch.setattr(migrations, "VERSION", 3)
    steps = {1: lambda state: {**state, "two": 2}, 2: lambda state: {**state, "three": state["two"] + 1}}
    monkeypatch.setattr(migrations, "MIGRATIONS", steps)
    assert load(path).state == {"run": "abc", "two": 2, "three": 3}
