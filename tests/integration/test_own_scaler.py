"""A user's own scaler in real runs: it goes on after a kill to the bit, and its failure says where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from apiserver import ApiServer
from nitro_learner.checkpoints.store import CheckpointStore
from train_support import exact_rows, job, learned, nitro, recorded, rows_of, start, write_job

SOURCE = """\
from nitro_learner.scalers import Decision, Scaler


class Mean(Scaler):
    \"\"\"More actors where the return is above its own moving mean.\"\"\"

    def __init__(self, spec, weight=0.5, fails=0):
        super().__init__(spec)
        self.weight, self.fails, self.mean, self.seen = weight, fails, 0.0, []

    def decide(self, outcome):
        if outcome.round == self.fails:
            raise ValueError("the mean is lost")  # RAISES
        reward = outcome.reward_mean or 0.0
        step = 1 if reward > self.mean else -1
        self.mean += self.weight * (reward - self.mean)
        self.seen.append(outcome.actors)
        return Decision(self.clip(outcome.actors + step))

    def state_dict(self):
        return {"mean": self.mean, "seen": self.seen}

    def load_state_dict(self, state):
        self.mean, self.seen = state["mean"], state["seen"]
"""
CARTPOLE = {"id": "CartPole-v1", "rolloutLength": 64, "envsPerActor": 4}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the user's module."""
    (tmp_path / "mine.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def scaling(**settings: Any) -> dict[str, Any]:
    given = {"minActors": 1, "maxActors": 5, "initialActors": 3, "entryPoint": "mine:Mean"}
    return {**given, "settings": {"weight": 0.25, **settings}}


def test_it_goes_on_after_a_kill_to_the_bit(folder: Path) -> None:
    file = write_job(folder, environment=CARTPOLE, scaling=scaling())
    records = folder / "whole.jsonl", folder / "killed.jsonl"
    done = nitro("train", file, "--run-dir", "whole", record=records[0])
    assert done.returncode == 0, done.stderr
    assert "mine:Mean scaler with 1 to 5 actors" in done.stdout
    assert len({row["actors"] for row in rows_of(Path("whole"))}) > 1, "nothing to see"
    begin: tuple[str | Path, ...] = (file, "--run-dir", "killed")
    for moment in ("2:sample", "4:update"):
        assert nitro("train", *begin, record=records[1], kill=moment).returncode == -9
        begin = ("--resume", "killed")
    again = nitro("train", *begin, record=records[1])
    assert again.returncode == 0, again.stderr
    saved = CheckpointStore(folder / "killed" / "checkpoints", keep_last=1).latest()
    assert saved is not None
    assert saved.state["scaler"]["seen"] == [int(row["actors"]) for row in rows_of(Path("whole"))]
    assert learned(folder / "killed", 6) == learned(folder / "whole", 6)
    assert exact_rows(folder / "killed") == exact_rows(folder / "whole")
    assert recorded(records[1]) == recorded(records[0])


def test_one_that_raises_ends_the_run_with_its_line_and_goes_on_once_it_is_mended(folder: Path) -> None:
    file = write_job(folder, environment=CARTPOLE, scaling=scaling(fails=3))
    failed = nitro("train", file, "--run-dir", "run")
    line = next(n for n, text in enumerate(SOURCE.splitlines(), 1) if "# RAISES" in text)
    assert failed.returncode == 1, failed.stderr
    told = "spec.scaling.entryPoint: mine:Mean: decide after round 3 raised ValueError: the mean is lost"
    assert f"{told} ({folder}/mine.py:{line} in decide)" in failed.stderr
    assert "Mend the scaler's code first" in failed.stderr
    assert "Then go on: nitro train --resume run" in failed.stderr
    assert "Traceback" not in failed.stderr
    assert "Traceback" in (folder / "run" / "log.jsonl").read_text()
    again = nitro("train", "--resume", "run")
    assert (again.returncode, "raised ValueError" in again.stderr) == (1, True), (
        "a resume alone does not help"
    )
    assert "Python files are others" not in again.stderr
    (folder / "mine.py").write_text(SOURCE.replace("outcome.round == self.fails", "False"))
    done = nitro("train", "--resume", "run")
    assert done.returncode == 0, done.stderr
    assert "mine:Mean: its Python files are others than at this run's last start" in done.stderr
    assert [row["round"] for row in rows_of(Path("run"))] == list("123456")


def test_one_that_raises_in_the_first_round_keeps_its_folder(folder: Path) -> None:
    file = write_job(folder, environment=CARTPOLE, scaling=scaling(fails=1))
    assert nitro("train", file, "--run-dir", "run").returncode == 1
    assert "the mean is lost" in (folder / "run" / "log.jsonl").read_text()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("spec.scaling.entryPoint=nowhere:Mean", "entryPoint nowhere:Mean cannot be loaded (No module named"),
        ("spec.scaling.entryPoint=pathlib:Path", "must name a subclass of nitro_learner.scalers.Scaler"),
        ("spec.scaling.settings={wait: 1}", 'spec.scaling.settings: {"wait": 1}; do not fit the constructor'),
    ],
)
def test_one_that_cannot_be_made_is_refused_before_the_first_round(
    folder: Path, change: str, told: str
) -> None:
    file = write_job(folder, environment=CARTPOLE, scaling=scaling())
    for command in (("validate",), ("train", "--run-dir", "run")):
        refused = nitro(*command, file, "--set", change)
        assert refused.returncode == 2, refused.stderr
        assert told in refused.stderr
        assert "spec.scaling." in refused.stderr
    assert not (folder / "run").exists()
    assert nitro("validate", file).returncode == 0
    theirs = nitro("validate", file, "--set", change, "--set", "spec.learner.image=mine/learner:1")
    assert theirs.returncode == 0, "the learner's image may have it"
    assert "on this machine" in theirs.stderr


def test_a_learner_of_a_cluster_that_lacks_it_ends_the_job(
    apiserver: ApiServer, namespace: str, tmp_path: Path
) -> None:
    spec = {**job(scaling=scaling()), "metadata": {"name": "small", "namespace": namespace}}
    apiserver.kubectl("apply", "-f", "-", input=json.dumps(spec))
    stored = apiserver.get("ntj", "small", "-n", namespace)
    learner = start(
        "learn",
        variables={
            "KUBECONFIG": str(apiserver.kubeconfig),
            "NITRO_JOB_NAMESPACE": namespace,
            "NITRO_JOB_NAME": "small",
            "NITRO_RUN": stored["metadata"]["uid"],
            "NITRO_RUN_DIR": str(tmp_path / "run"),
        },
    )
    _, err = learner.communicate(timeout=280)
    assert learner.returncode == 2, err
    training = apiserver.get("ntj", "small", "-n", namespace)["status"]["training"]
    assert (training["state"], training["reason"]) == ("Failed", "InvalidJob")
    assert "spec.scaling.entryPoint" in training["message"]
    assert "mine:Mean cannot be loaded (No module named 'mine')" in training["message"]
