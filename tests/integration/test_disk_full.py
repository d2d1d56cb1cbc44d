"""A full disk ends a run clearly, and --resume goes on from the last whole checkpoint once there is room."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from train_support import nitro, recorded, rows_of, write_job


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a small file system here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_disk_full_at_a_checkpoint(tmp_path: Path, small_disk: Path) -> None:
    run, record = small_disk / "run", tmp_path / "record.jsonl"
    job = write_job(tmp_path, stop={"rounds": 8}, learner={"checkpoint": {"keepLast": 100}})
    undisturbed = tmp_path / "undisturbed.jsonl"
    assert nitro("train", job, "--run-dir", tmp_path / "run", record=undisturbed).returncode == 0
    ballast = small_disk / "ballast"
    one = (tmp_path / "run" / "checkpoints" / "round-000001.safetensors").stat().st_size
    # Room for about three checkpoints and what else a run writes.
    ballast.write_bytes(os.urandom((1 << 20) - 3 * one - 120_000))
    full = nitro("train", job, "--run-dir", run, record=record)
    assert full.returncode == 75, (full.returncode, full.stdout, full.stderr)
    assert "No space left on device" in full.stderr
    assert f"nitro train --resume {run}" in full.stderr
    assert len(list((run / "checkpoints").glob("*.safetensors"))) >= 1
    assert not list((run / "checkpoints").glob("*.partial"))
    ballast.unlink()
    again = nitro("train", "--resume", run, record=record)
    assert again.returncode == 0, again.stderr
    assert recorded(record) == recorded(undisturbed)
    assert [row["round"] for row in rows_of(run)] == [str(number) for number in range(1, 9)]
