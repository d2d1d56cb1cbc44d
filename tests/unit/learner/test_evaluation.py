"""`nitro evaluate` where episodes end, and where they do not."""

import json
from pathlib import Path

import pytest

from nitro_actor.building import make
from nitro_api import load_job, resolve
from nitro_learner import algorithms, evaluation
from nitro_learner.checkpoint import CheckpointStore
from nitro_learner.cli import main
from nitro_learner.rundir import RunDir


def untrained(path: Path, entry_point: str, **kwargs: str) -> Path:
    """A run folder with the checkpoint of a policy that has learned nothing."""
    environment = {"id": "own", "entryPoint": entry_point, "kwargs": kwargs, "envsPerActor": 2}
    job = resolve(
        load_job(
            {
                "apiVersion": "nitro.dev/v1alpha1",
                "kind": "NitroTrainingJob",
                "metadata": {"name": "own"},
                "spec": {"environment": environment, "network": {"hiddenSizes": [8]}},
            }
        )
    )
    folder = RunDir(path)
    folder.job.write_text(job.to_yaml())
    made = make(evaluation._config(job.spec, 1))
    algorithm = algorithms.make(job.spec, made.spec.to_json())
    made.close()
    CheckpointStore(folder.checkpoints, keep_last=1).save(1, {"algorithm": algorithm.state_dict()})
    return path


def test_episodes_that_end_are_only_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(untrained(tmp_path, "learner_environments:TwoState")), "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["meanLength"] == 20
    assert not shown.err


def test_episodes_that_are_cut_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "MAX_STEPS", 50)
    run = untrained(tmp_path, "learner_environments:Endless", brake=str(tmp_path / "none"))
    assert main(["evaluate", str(run), "--episodes", "3", "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["returns"] == [50, 50, 50]
    assert shown.err.startswith("nitro evaluate: warning: 3 of 3 evaluation episodes were cut at 50 steps")
    assert "spec.environment.kwargs.max_episode_steps" in shown.err
