"""A run folder that version 0.1 left behind: the present version goes on with it."""

import json
import shutil
from pathlib import Path

from nitro_learner.checkpoints.store import load
from train_support import nitro, rows_of

LEFT_BEHIND = Path(__file__).parents[1] / "data" / "run-of-0.1"
"""Two rounds of Hopper with two to three actors of 64 steps, trained by version 0.1."""


def test_a_run_of_version_0_1_is_resumed_and_extended(tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(LEFT_BEHIND, run)
    before = rows_of(run)
    old = load(run / "checkpoints" / "round-000002.safetensors").state
    assert "algorithm" in old
    assert "policies" not in old
    nitro("train", "--resume", run, "--set", "spec.stop.rounds=4")
    after = rows_of(run)
    assert [row["round"] for row in after] == ["1", "2", "3", "4"]
    for was, now in zip(before, after, strict=False):
        assert {name: float(value) for name, value in was.items() if value} == {
            name: float(now[name]) for name, value in was.items() if value
        }
    new = load(run / "checkpoints" / "round-000004.safetensors").state
    assert new["run"] == old["run"]
    assert new["policies"]["version"] == 4
    assert new["policies"]["learners"][0]["state"]["adam"]["step"] > old["algorithm"]["adam"]["step"]
    spent = [json.loads(line)["round"] for line in (run / "ledger.jsonl").read_text().splitlines()]
    assert sorted(set(spent)) == [0, 1, 2, 3, 4]


def test_a_run_of_version_0_1_is_evaluated(tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(LEFT_BEHIND, run)
    played = nitro("evaluate", run, "--episodes", "2", "--json")
    assert len(json.loads(played.stdout)["returns"]) == 2
