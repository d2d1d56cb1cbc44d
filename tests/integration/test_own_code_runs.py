"""`nitro train --code`: environment and scaler from a folder; a run goes on with the same files only."""

from __future__ import annotations

from pathlib import Path

import pytest

from nitro_learner.run.code_package import pack
from nitro_learner.run.rundir import RunDir
from train_support import nitro, rows_of, write_job

ENVIRONMENT = """\
from gymnasium.envs.classic_control import CartPoleEnv


class Own(CartPoleEnv):
    def __init__(self):
        super().__init__()
        from own_parts.helper import LENGTH

        self.length = LENGTH
"""
SCALER = """\
from nitro_learner.scalers import Decision, Scaler


class More(Scaler):
    def decide(self, outcome):
        return Decision(self.clip(outcome.actors + 1))
"""


def test_a_run_goes_on_with_the_same_files_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = tmp_path / "code"
    (code / "own_parts").mkdir(parents=True)
    (code / "own_parts" / "environment.py").write_text(ENVIRONMENT)
    (code / "own_parts" / "helper.py").write_text("LENGTH = 0.4\n")
    (code / "own_scaler.py").write_text(SCALER)
    monkeypatch.chdir(tmp_path)
    file = write_job(
        tmp_path,
        environment={"entryPoint": "own_parts.environment:Own", "rolloutLength": 64, "envsPerActor": 4},
        scaling={"minActors": 1, "maxActors": 3, "initialActors": 1, "entryPoint": "own_scaler:More"},
        stop={"rounds": 4},
    )
    digest = pack(code).digest
    stale = nitro("validate", file, "--code", "code", "--set", f"spec.code='{'0' * 64}'")
    assert stale.returncode == 2
    assert f"is not the digest of code, which is {digest}" in stale.stderr
    killed = nitro("train", file, "--code", "code", "--run-dir", "run", "--no-check", kill="3:sample")
    assert killed.returncode == -9, killed.stderr
    assert RunDir(tmp_path / "run").read_job()["spec"]["code"] == digest
    without = nitro("train", "--resume", "run")
    assert without.returncode == 2
    assert f"{digest} is the digest of a folder; give the folder, too: --code DIR" in without.stderr
    (code / "own_parts" / "helper.py").write_text("LENGTH = 0.5\n")
    other = nitro("train", "--resume", "run", "--code", "code")
    assert other.returncode == 2
    assert f"spec.code: '{digest}' in the folder, '{pack(code).digest}' now" in other.stderr
    assert "nitro train run/job.yaml --code code" in other.stderr, "a new run takes it"
    (code / "own_parts" / "helper.py").write_text("LENGTH = 0.4\n")
    done = nitro("train", "--resume", "run", "--code", "code")
    assert done.returncode == 0, done.stderr
    assert [int(row["actors"]) for row in rows_of(tmp_path / "run")] == [1, 2, 3, 3]
