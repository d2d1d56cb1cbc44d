"""`nitro evaluate` where episodes end, and where they do not."""

import json
from pathlib import Path
from typing import Any

import pytest

from nitro_actor.make_env import make_env
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_api import load_job, resolve
from nitro_learner.algorithms import registry
from nitro_learner.checkpoints.store import CheckpointStore
from nitro_learner.cli import main
from nitro_learner.run.rundir import RunDir
from nitro_learner.sampling import evaluation
from nitro_learner.studies import playing


def untrained(path: Path, environment: dict[str, Any], algorithm: str = "ppo") -> Path:
    """A run folder with the checkpoint of policies that have learned nothing."""
    job = resolve(
        load_job(
            {
                "apiVersion": "nitro.dev/v1alpha1",
                "kind": "NitroTrainingJob",
                "metadata": {"name": "own"},
                "spec": {
                    "environment": environment | {"envsPerActor": 2},
                    "network": {"hiddenSizes": [8]},
                    "algorithm": {"name": algorithm},
                },
            }
        )
    )
    folder = RunDir(path)
    folder.job.write_text(job.to_yaml())
    made = make_env(playing.config_of(job.spec, 1))
    policies = registry.make_policies(job.spec, DescribedEnvironment.from_json(made.spec.to_json()))
    made.close()
    CheckpointStore(folder.checkpoints, keep_last=1).save(1, {"policies": policies.state_dict()})
    return path


def own(entry_point: str, **kwargs: str) -> dict[str, Any]:
    return {"id": "own", "entryPoint": entry_point, "kwargs": kwargs}


def test_episodes_that_end_are_only_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(untrained(tmp_path, own("learner_environments:TwoState"))), "--json"]) == 0
    shown = capsys.readouterr()
    result = json.loads(shown.out)
    assert result["meanLength"] == 20
    assert not {"agents", "classes"} & result.keys()
    assert not shown.err


def test_episodes_that_are_cut_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (evaluation, playing):  # each has the constant by its own name
        monkeypatch.setattr(module, "MAX_STEPS", 50)
    run = untrained(tmp_path, own("learner_environments:Endless", brake=str(tmp_path / "none")))
    assert main(["evaluate", str(run), "--episodes", "3", "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["returns"] == [50, 50, 50]
    assert shown.err.startswith("nitro evaluate: warning: 3 of 3 evaluation episodes were cut at 50 steps")
    assert "spec.environment.kwargs.max_episode_steps" in shown.err


def test_opponents_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = untrained(tmp_path, {"id": "mpe2/simple_adversary_v3"}, "ippo")
    assert main(["evaluate", str(run), "--episodes", "5", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    agents, classes = result["agents"], result["classes"]
    assert agents.keys() == {"adversary_0", "agent_0", "agent_1"}
    assert agents["agent_0"] == agents["agent_1"] != agents["adversary_0"]  # a side's reward is common to it
    assert classes == {"adversary": agents["adversary_0"], "agent": 2 * agents["agent_0"]}
    assert sum(classes.values()) == pytest.approx(result["mean"])
    assert main(["evaluate", str(run), "--episodes", "5"]) == 0
    _, sides, each = capsys.readouterr().out.splitlines()
    assert sides == (
        f"mean of each class's sum: adversary {classes['adversary']:.1f}, agent {classes['agent']:.1f}"
    )
    assert each == "mean of each agent: " + ", ".join(f"{name} {mean:.1f}" for name, mean in agents.items())
