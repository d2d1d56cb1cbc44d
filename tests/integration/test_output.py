"""Nothing that only shows a run ends it: terminals, logs, TensorBoard's events and pictures that fail."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from train_support import job, nitro, rows_of, write_job

_OWN = """\
import gymnasium, numpy as np

class Own(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 9
        print("a new game → é")
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.left -= 1
        return np.zeros(2, np.float32), 1.0, False, self.left == 0, {}
"""


def test_a_terminal_that_shows_ascii_only_and_a_folder_whose_name_is_no_text(tmp_path: Path) -> None:
    """The environment prints, too. matplotlib does not know MPLBACKEND, which pictures do not need."""
    (tmp_path / "own.py").write_text(_OWN)
    own = {"entryPoint": "own:Own", "rolloutLength": 64, "envsPerActor": 2}
    small = job(environment=own, stop={"rounds": 2}, scaling={"scaler": "fixed", "initialActors": 1})
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(small))
    ascii_only = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "MPLBACKEND": "headless"}
    name = b"run-\xff"

    def nitro(*arguments: str | bytes) -> bytes:
        result = subprocess.run(
            [sys.executable, "-m", "nitro_learner", *arguments],
            cwd=tmp_path,
            env={**os.environ, **ascii_only},
            capture_output=True,
            check=False,
        )
        assert result.returncode == 0, result.stderr.decode()
        return result.stdout

    lines = nitro("train", "job.yaml", "--run-dir", name).decode("ascii").splitlines()
    assert lines[1] == "run folder: run-?"
    assert [line.split()[5] for line in lines[3:5]] == ["1>1", "1>1"]
    run = tmp_path / os.fsdecode(name)
    assert len(rows_of(run)) == 2
    assert (run / "result.png").is_file()
    assert "a new game → é" in (run / "actors.log").read_text(encoding="utf-8")
    assert nitro("report", name) == b"run-?/report.html\n"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has done its only round."""
    directory = tmp_path_factory.mktemp("trained")
    done = nitro("train", write_job(directory, stop={"rounds": 1}), "--run-dir", directory / "run")
    assert done.returncode == 0, done.stderr
    return directory / "run"


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A copy of that run for one test."""
    return shutil.copytree(trained, tmp_path / "run")


@pytest.mark.parametrize("broken", ["log.jsonl", "actors.log", "tensorboard", "result.png"])
def test_what_cannot_be_written_beside_a_run_is_a_warning(run: Path, broken: str) -> None:
    place = run / broken
    if broken == "tensorboard":
        place.rename(run / "moved")
        place.write_text("a file where the folder should be")
    else:
        place.unlink(missing_ok=True)
        place.mkdir()
    again = nitro("train", "--resume", run, "--set", "spec.stop.rounds=2")
    assert again.returncode == 0, again.stderr
    assert len(rows_of(run)) == 2
    warnings = [line for line in again.stderr.splitlines() if line.startswith("WARNING: ")]
    # Nothing was printed by actors, so that their file was not wanted.
    assert len(warnings) == (0 if broken == "actors.log" else 1), again.stderr
    assert all(broken in line or "TensorBoard failed" in line for line in warnings)


def test_a_log_on_a_full_disk_is_a_warning(run: Path) -> None:
    (run / "log.jsonl").unlink()
    (run / "log.jsonl").symlink_to("/dev/full")
    again = nitro("train", "--resume", run, "--set", "spec.stop.rounds=2")
    assert again.returncode == 0, again.stderr
    assert again.stderr.count("log.jsonl cannot be written: [Errno 28] No space left on device") == 1
