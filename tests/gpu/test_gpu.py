"""The learner on a CUDA GPU, by `nitro train`: what a round learns there is what a CPU learns, up to
rounding, and a run goes on from either on the other.

Without a GPU these tests are skipped, or fail where NITRO_REQUIRE_GPU=1: `make test-gpu`.
"""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

import needs
from train_support import nitro, rows_of, write_job

GAMES: dict[str, Any] = {
    "environment": {"id": "mpe2/simple_spread_v3", "rolloutLength": 50, "envsPerActor": 2},
    "sharing": {"mode": "never"},
    "scaling": {"scaler": "marless", "minActors": 2, "maxActors": 4, "initialActors": 4},
}
GRU = {"network": {"hiddenSizes": [16], "recurrent": {"hiddenSize": 8}}}
EPOCHS = {"hyperparameters": {"epochs": 2}}
Q = {"teamReward": True, "hyperparameters": {"bufferSize": 2000, "replayRatio": 2, "batchSize": 64}}

JOBS: dict[str, dict[str, Any]] = {
    "ppo-tuned": {},
    "ppo-paper": {"algorithm": {"preset": "paper", **EPOCHS}},
    "ppo-total-loss": {
        "scaling": {"scaler": "nitro", "mode": "artifact", "minActors": 2, "maxActors": 6, "initialActors": 3}
    },
    "ppo-noise": {"scaling": {"scaler": "kungfu", "minActors": 2, "maxActors": 6, "initialActors": 3}},
    "ppo-images": {
        "environment": {"id": "ALE/SpaceInvaders-v5", "rolloutLength": 64, "envsPerActor": 2},
        "network": {"hiddenSizes": [32]},
    },
    "ppo-recurrent": GRU,
    "ippo": GAMES | {"algorithm": {"name": "ippo", **EPOCHS}},
    "ippo-shared": GAMES | {"algorithm": {"name": "ippo", **EPOCHS}, "sharing": {"mode": "always"}},
    "mappo": GAMES | {"algorithm": {"name": "mappo", **EPOCHS}},
    "mappo-recurrent": GAMES | GRU | {"algorithm": {"name": "mappo", **EPOCHS}},
    "iql": GAMES | {"algorithm": {"name": "iql", **Q}},
    "vdn": GAMES | {"algorithm": {"name": "vdn", **Q}},
    "qmix": GAMES | {"algorithm": {"name": "qmix", **Q}},
    "qmix-recurrent": GAMES | GRU | {"algorithm": {"name": "qmix", **Q}},
}

# What a round measures but does not learn; and the evaluation after it, whose episodes are long, so that
# rounding errors grow without bound.
_LEFT_OUT = ("wall_seconds", "cold_starts", "cost_", "seconds_", "fragment_bytes", "retries", "evaluation_")


@pytest.fixture(autouse=True)
def gpu() -> None:
    if not torch.cuda.is_available():
        needs.without("PyTorch sees no CUDA GPU here", "NITRO_REQUIRE_GPU")


def train(run: Path, *arguments: str | Path, device: str, kill: str | None = None) -> list[dict[str, str]]:
    """The rounds of a run that trains on the device, its policies' rounds among them."""
    done = nitro("train", *arguments, "--set", f"spec.learner.device={device}", kill=kill)
    assert done.returncode == (-9 if kill else 0), done.stderr
    if not kill:
        used = json.loads((run / "summary.json").read_text())["versions"]["device"]
        assert used == ("cpu" if device == "cpu" else torch.cuda.get_device_name())
    found = []
    for table in sorted(run.glob("*.csv")):
        with table.open() as file:
            found += list(csv.DictReader(file))
    return found


def numbers(row: dict[str, str]) -> dict[str, float]:
    """What a round learned, as numbers."""
    found = {}
    for name, value in row.items():
        if not name.startswith(_LEFT_OUT):
            try:
                found[name] = float(value)
            except ValueError:
                assert value == "" or not value[0].isdigit(), name
    return found


@pytest.mark.parametrize("name", JOBS)
def test_a_round_on_a_gpu_learns_what_a_cpu_learns(name: str, tmp_path: Path) -> None:
    job = write_job(tmp_path, **({"stop": {"rounds": 1}} | JOBS[name]))
    rounds = {
        device: train(tmp_path / device, job, "--run-dir", tmp_path / device, device=device)
        for device in ("cuda", "cpu")
    }
    assert len(rounds["cuda"]) == len(rounds["cpu"]) > 0
    for ours, theirs in zip(rounds["cuda"], rounds["cpu"], strict=True):
        assert numbers(ours) == pytest.approx(numbers(theirs), rel=0.02, abs=2e-4), name


def test_impact_trains_on_a_gpu(tmp_path: Path) -> None:
    # Its rounds depend on the order in which fragments arrive, so no two runs have to agree.
    job = write_job(tmp_path, algorithm={"name": "impact"}, stop={"rounds": 3})
    rounds = train(tmp_path / "run", job, "--run-dir", tmp_path / "run", device="cuda")
    assert [row["round"] for row in rounds] == ["1", "2", "3"]
    assert all(math.isfinite(float(row["value_loss"])) for row in rounds)


@pytest.mark.parametrize("name", ["ppo-tuned", "ippo", "qmix"])
def test_a_killed_run_goes_on_on_a_cpu_and_back_on_a_gpu(name: str, tmp_path: Path) -> None:
    job, run = write_job(tmp_path, **JOBS[name]), tmp_path / "run"
    train(run, job, "--run-dir", run, device="cuda", kill="3:update")
    train(run, "--resume", run, device="cpu", kill="5:update")
    train(run, "--resume", run, device="cuda")
    log = (run / "log.jsonl").read_text()
    assert f"The run was computed on {torch.cuda.get_device_name()} and continues on cpu" in log
    assert f"The run was computed on cpu and continues on {torch.cuda.get_device_name()}" in log
    rounds = rows_of(run)
    assert [row["round"] for row in rounds] == [str(k) for k in range(1, 7)]
    assert all(float(row["convexity_ratio"]) > 0 for row in rounds)
