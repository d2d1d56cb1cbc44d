"""A user's own algorithm in real runs, as docs/own-parts.md prints it: it goes on after a kill to the bit,
and its failure says where."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from docs_blocks import blocks
from docs_support import ROOT
from train_support import exact_rows, learned, nitro, recorded, rows_of, write_job

CARTPOLE = {"id": "CartPole-v1", "rolloutLength": 64, "envsPerActor": 4}
SOURCE, LOOP = (
    next(b.text for b in blocks(ROOT / "docs" / "own-parts.md") if b.module == name)
    for name in ("a2c.py", "ppo_loop.py")
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the user's module."""
    (tmp_path / "a2c.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def algorithm(**settings: Any) -> dict[str, Any]:
    return {"entryPoint": "a2c:A2C", "hyperparameters": {"epochs": 1}, "settings": settings}


def test_it_goes_on_after_a_kill_to_the_bit(folder: Path) -> None:
    assert len(SOURCE.splitlines()) <= 40
    file = write_job(folder, environment=CARTPOLE, algorithm=algorithm(entropy=0.01))
    records = folder / "whole.jsonl", folder / "killed.jsonl"
    done = nitro("train", file, "--run-dir", "whole", record=records[0])
    assert done.returncode == 0, done.stderr
    assert "CartPole-v1, a2c:A2C on ppo (tuned), nitro scaler" in done.stdout
    assert all(row["boosting_score"] for row in rows_of(Path("whole"))), "its loss has a curvature"
    begin: tuple[str | Path, ...] = (file, "--run-dir", "killed")
    for moment in ("2:sample", "4:update"):
        assert nitro("train", *begin, record=records[1], kill=moment).returncode == -9
        begin = ("--resume", "killed")
    again = nitro("train", *begin, record=records[1])
    assert again.returncode == 0, again.stderr
    assert learned(folder / "killed", 6) == learned(folder / "whole", 6)
    assert exact_rows(folder / "killed") == exact_rows(folder / "whole")
    assert recorded(records[1]) == recorded(records[0])
    played = nitro("evaluate", "whole", "--episodes", "2")
    assert played.returncode == 0, played.stderr


def test_one_that_raises_ends_the_run_with_its_line_and_goes_on_once_it_is_mended(folder: Path) -> None:
    wrong = SOURCE.replace(
        "        errors = ", "        assert values.mean() < -1e9  # RAISES\n        errors = "
    )
    (folder / "a2c.py").write_text(wrong)
    line = next(n for n, text in enumerate(wrong.splitlines(), 1) if "# RAISES" in text)
    file = write_job(folder, environment=CARTPOLE, algorithm=algorithm(), stop={"rounds": 2})
    failed = nitro("train", file, "--run-dir", "run")
    assert failed.returncode == 1, failed.stderr
    told = "spec.algorithm.entryPoint: a2c:A2C: update of round 1 raised AssertionError"
    assert f"{told} ({folder}/a2c.py:{line} in loss)" in failed.stderr
    assert "Mend the algorithm's code first" in failed.stderr
    assert "Traceback" not in failed.stderr
    assert "Traceback" in (folder / "run" / "log.jsonl").read_text()
    (folder / "a2c.py").write_text(SOURCE)
    done = nitro("train", "--resume", "run")
    assert done.returncode == 0, done.stderr
    assert [row["round"] for row in rows_of(Path("run"))] == list("12")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("spec.algorithm.entryPoint=nowhere:A2C", "nowhere:A2C cannot be loaded (No module named"),
        ("spec.algorithm.settings={entropy: -1}", "spec.algorithm.settings.entropy: -1; Input should be"),
    ],
)
def test_one_that_cannot_be_made_is_refused_before_the_first_round(
    folder: Path, change: str, told: str
) -> None:
    file = write_job(folder, environment=CARTPOLE, algorithm=algorithm())
    for command in (("validate",), ("train", "--run-dir", "run")):
        refused = nitro(*command, file, "--set", change)
        assert refused.returncode == 2, refused.stderr
        assert told in refused.stderr
    assert not (folder / "run").exists()
    assert nitro("validate", file).returncode == 0


@pytest.fixture
def loop(folder: Path) -> Path:
    """The job of the page's training loop, whose module is in the current folder."""
    (folder / "ppo_loop.py").write_text(LOOP)
    given = {"entryPoint": "ppo_loop:train", "settings": {"epochs": 2}}
    scaling = {"scaler": "growth", "minActors": 2, "maxActors": 4, "initialActors": 2, "window": 4}
    return write_job(folder, environment=CARTPOLE, algorithm=given, scaling=scaling)


def test_a_training_loop_goes_on_after_a_kill_to_the_bit(folder: Path, loop: Path) -> None:
    assert len(LOOP.splitlines()) <= 150
    done = nitro("train", loop, "--run-dir", "whole")
    assert done.returncode == 0, done.stderr
    rows = rows_of(Path("whole"))
    assert all(float(row["value_loss"]) > 0 and row["kl"] for row in rows)
    assert any(row["evaluation_mean"] for row in rows)
    assert nitro("train", loop, "--run-dir", "killed", kill="4:sample").returncode == -9
    again = nitro("train", "--resume", "killed")
    assert again.returncode == 0, again.stderr
    assert learned(folder / "killed", 6) == learned(folder / "whole", 6)
    assert exact_rows(folder / "killed") == exact_rows(folder / "whole")


def test_a_training_loop_that_returns_ends_the_run(folder: Path, loop: Path) -> None:
    (folder / "ppo_loop.py").write_text(LOOP.replace("while True", "while run.round < 2"))
    done = nitro("train", loop, "--run-dir", "run")
    assert done.returncode == 0, done.stderr
    assert "done: the loop returned after round 2" in done.stdout
    assert len(rows_of(Path("run"))) == 2
    refused = nitro("validate", loop, "--set", "spec.scaling={scaler: nitro}")
    assert refused.returncode == 2
    assert 'spec.scaling.scaler: "nitro"; needs the objective\'s curvature' in refused.stderr
