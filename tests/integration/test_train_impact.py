"""`nitro train` with IMPACT: off-policy rounds with real actors, killed and resumed, and repeated from the
feed that a run has recorded.
"""

import signal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from nitro_learner.checkpoints.store import load
from off_policy_support import killed_resumed_and_relearned
from train_support import nitro, rows_of, start, wait_for_rows, write_job

SETTINGS = {"batchSize": 128, "bufferBatches": 2, "bufferUses": 3, "minibatchSize": 64}
ROUNDS = 6


def write(directory: Path, **spec: Any) -> Path:
    algorithm = {"name": "impact", "hyperparameters": SETTINGS}
    scaling = {"scaler": "nitro", "minActors": 2, "maxActors": 6, "initialActors": 5}
    return write_job(
        directory, **{"algorithm": algorithm, "scaling": scaling, "stop": {"rounds": ROUNDS}} | spec
    )


def test_the_recorded_feed_gives_the_weights_of_the_run_to_the_bit(tmp_path: Path) -> None:
    """Killed in its fourth round and resumed: the feed alone gives its weights again, to the bit."""
    run = tmp_path / "run"
    learned, expected = killed_resumed_and_relearned(write(tmp_path), run)
    table = rows_of(run)
    assert [row["round"] for row in table] == [str(number) for number in range(1, ROUNDS + 1)]
    steps = [int(row["env_steps"]) for row in table]
    for (before, after), row in zip(pairwise([0, *steps]), table, strict=True):
        wanted = max(2, -(-int(row["actors"]) // 2))
        assert after - before >= 64 * wanted
    assert learned["passes"] == expected["passes"] > 0
    for part in ("parameters", "target"):
        for name, tensor in expected[part].items():
            assert torch.equal(torch.as_tensor(learned[part][name]), tensor), f"{part} {name}"


@pytest.mark.parametrize("moment", ["1:sample", "2:checkpoint"])
def test_a_run_that_was_killed_at_any_moment_can_be_resumed(tmp_path: Path, moment: str) -> None:
    run = tmp_path / "run"
    killed = nitro("train", write(tmp_path), "--run-dir", run, kill=moment)
    assert killed.returncode == -9, killed.stderr
    done = nitro("train", "--resume", run)
    assert done.returncode == 0, done.stderr
    table = rows_of(run)
    assert [row["round"] for row in table] == [str(number) for number in range(1, ROUNDS + 1)]
    for before, row in pairwise(table):
        assert row["actors"] == before["next_actors"]
        assert int(row["env_steps"]) > int(before["env_steps"])


def test_an_interrupted_run_keeps_its_weights(tmp_path: Path) -> None:
    """With 64 actors on two processes it ends in mid-round, with less than the detector wants to measure."""
    run = tmp_path / "run"
    scaling = {"scaler": "nitro", "minActors": 32, "maxActors": 64, "initialActors": 64}
    job = write(tmp_path, stop={"rounds": 1000}, scaling=scaling)
    process = start("train", job, "--run-dir", run)
    wait_for_rows(run, 2, process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=280)
    assert process.returncode == 75, err
    table = rows_of(run)
    rounds = len(table)
    assert f"interrupted after round {rounds}" in out + err
    newest = sorted((run / "checkpoints").glob("*.safetensors"))[-1]
    assert load(newest).round == rounds
    again = nitro("train", "--resume", run, "--set", f"spec.stop.rounds={rounds + 1}")
    assert again.returncode == 0, again.stderr
    assert len(rows_of(run)) == rounds + 1
    # Where the signal came in time to cut a round short, nothing was measured of it.
    steps = [int(row["env_steps"]) for row in table]
    short = [row for (a, b), row in zip(pairwise([0, *steps]), table, strict=True) if b - a < 64 * 32]
    assert all(row["convexity_ratio"] == "" for row in short)
