"""`nitro evaluate` where episodes end, and where they do not."""

import json
from pathlib import Path

import pytest

from nitro_actor.make_env import make_env
from nitro_api import load_job, resolve
from nitro_learner.algorithms import registry
from nitro_learner.algorithms.policy_set import PolicySet
from nitro_learner.checkpoints.store import CheckpointStore
from nitro_learner.cli import main
from nitro_learner.run.rundir import RunDir
from nitro_learner.sampling import evaluation
from nitro_learner.studies import playing


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
    made = make_env(playing._config(job.spec, 1))
    algorithm = registry.make(job.spec, made.spec.to_json())
    made.close()
    CheckpointStore(folder.checkpoints, keep_last=1).save(
        1, {"policies": PolicySet.of_one(algorithm, "rounds").state_dict()}
    )
    return path


def test_episodes_that_end_are_only_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(untrained(tmp_path, "learner_environments:TwoState")), "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["meanLength"] == 20
    assert not shown.err


def test_episodes_that_are_cut_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (evaluation, playing):  # each has the constant by its own name
        monkeypatch.setattr(module, "MAX_STEPS", 50)
    run = untrained(tmp_path, "learner_environments:Endless", brake=str(tmp_path / "none"))
    assert main(["evaluate", str(run), "--episodes", "3", "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["returns"] == [50, 50, 50]
    assert shown.err.startswith("nitro evaluate: warning: 3 of 3 evaluation episodes were cut at 50 steps")
    assert "spec.environment.kwargs.max_episode_steps" in shown.err
