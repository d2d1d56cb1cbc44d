"""`nitro train` with RLlib's learners: real processes, actors that change, kill -9 and --resume."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from ray.rllib.algorithms.ppo.ppo_learner import PPOLearner
from ray.rllib.core.learner.learner import Learner

from nitro_api import resolve_stored
from nitro_learner.backends.local import LocalBackend
from nitro_learner.checkpoints.store import load, pack
from nitro_learner.cli import main
from nitro_learner.cli.exits import INTERRUPTED
from nitro_learner.run.rundir import RunDir
from nitro_learner.run.runs import open_run
from nitro_learner.run.session import train
from train_support import job as small_job
from train_support import learned, nitro, rows_of, write_job

PPO = {
    "name": "rllib/ppo",
    "preset": "paper",
    "rllib": {"num_epochs": 2, "minibatch_size": 64, "lr": 3e-4, "kl_target": 1e-4},
}


def test_every_round_is_scored_actors_change_and_a_killed_run_goes_on_to_the_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nobody can write below a device, not even root: nothing of RLlib needs a home.
    monkeypatch.setenv("HOME", "/dev/null")
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    job = write_job(tmp_path, algorithm=PPO)
    done = nitro("train", job, "--run-dir", undisturbed)
    assert done.returncode == 0, done.stderr
    rows = rows_of(undisturbed)
    assert [row["round"] for row in rows] == ["1", "2", "3", "4", "5", "6"]
    assert all(float(row["convexity_ratio"]) > 0 for row in rows)
    assert len({row["actors"] for row in rows}) > 2
    assert [int(row["env_steps"]) for row in rows][-1] == 64 * sum(int(row["actors"]) for row in rows)

    assert nitro("train", job, "--run-dir", killed, kill="4:update").returncode == -9
    again = nitro("train", "--resume", killed)
    assert again.returncode == 0, again.stderr
    assert learned(killed, 6) == learned(undisturbed, 6)


def test_what_rllib_raises_ends_the_run_with_its_reason_and_resume_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    undisturbed, failed = tmp_path / "undisturbed", tmp_path / "failed"
    job = str(write_job(tmp_path, algorithm=PPO, stop={"rounds": 3}))
    assert main(["train", job, "--run-dir", str(undisturbed)]) == 0

    def after_update(learner: Learner, *, timesteps: dict[str, Any]) -> None:
        if learner._weights_seq_no == 2:
            raise ValueError("a batch that RLlib cannot take")
        usual(learner, timesteps=timesteps)

    usual = PPOLearner.after_gradient_based_update
    with monkeypatch.context() as patch:
        patch.setattr(PPOLearner, "after_gradient_based_update", after_update)
        assert main(["train", job, "--run-dir", str(failed)]) == INTERRUPTED
    said = capsys.readouterr().err
    assert "RLlib's learner failed in update 2: ValueError: a batch that RLlib cannot take" in said
    assert f"nitro train --resume {failed}" in said
    assert main(["train", "--resume", str(failed)]) == 0
    assert learned(failed, 3) == learned(undisturbed, 3)


def test_a_run_starts_with_the_policy_of_another_one_and_its_own_settings(tmp_path: Path) -> None:
    source, folder = tmp_path / "source", RunDir(tmp_path / "run")
    earlier = write_job(tmp_path, algorithm=PPO, stop={"rounds": 2})
    assert main(["train", str(earlier), "--run-dir", str(source)]) == 0

    settings = {**PPO["rllib"], "lr": 1e-3}
    stored = small_job(
        algorithm={**PPO, "rllib": settings}, seed=8, stop={"rounds": 1}, resumeFrom={"job": "earlier"}
    )
    stored["metadata"]["uid"] = "of-the-cluster"
    job = resolve_stored(stored)
    opened = open_run(folder, job, resume=True, source=str(source))
    asyncio.run(train(opened, LocalBackend(job.spec, opened.id), draw=lambda *_: None))

    there = _state_of_learner(source, 2)
    here, after = (_state_of_learner(folder.path, number) for number in (0, 1))
    assert pack(0, here["learner"]["rl_module"]) == pack(0, there["learner"]["rl_module"])
    (adam, own), (before, _) = (_optimiser(state) for state in (here, there))
    assert pack(0, adam) == pack(0, before), "moments and steps of Adam"
    assert {group["lr"] for group in own} == {1e-3}
    assert (here["steps"], here["updates"]) == (0, 0)
    assert here["kl_coefficient"] == pytest.approx(0.2) != there["kl_coefficient"]
    assert (after["updates"], after["steps"]) == (1, 64 * job.spec.scaling.initial_actors)
    assert pack(0, after["learner"]["rl_module"]) != pack(0, here["learner"]["rl_module"])


def _state_of_learner(run: Path, number: int) -> dict[str, Any]:
    policies = load(run / "checkpoints" / f"round-{number:06d}.safetensors").state["policies"]
    found: dict[str, Any] = policies["learners"][0]["state"]
    return found


def _optimiser(state: dict[str, Any]) -> tuple[Any, Any]:
    """State and groups of the one optimiser of a saved learner."""
    (found,) = state["learner"]["optimizer"].values()
    return found["state"]["state"], found["state"]["param_groups"]


@pytest.mark.parametrize("name", ["rllib/appo", "rllib/impala"])
def test_off_policy_rounds_go_on_after_a_kill(tmp_path: Path, name: str) -> None:
    algorithm = {"name": name, "rllib": {"lr": 3e-4}}
    job, run = write_job(tmp_path, algorithm=algorithm), tmp_path / "run"
    assert nitro("train", job, "--run-dir", run, kill="4:sample").returncode == -9
    again = nitro("train", "--resume", run)
    assert again.returncode == 0, again.stderr
    rows = rows_of(run)
    assert [row["round"] for row in rows] == ["1", "2", "3", "4", "5", "6"]
    assert all(float(row["convexity_ratio"]) > 0 for row in rows)
    assert len({row["actors"] for row in rows}) > 1, "the score never moved: this run shows nothing"


def test_a_wrong_setting_ends_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    algorithm: dict[str, Any] = {"name": "rllib/ppo", "rllib": {"lrr": 1}}
    run = tmp_path / "run"
    assert main(["train", str(write_job(tmp_path, algorithm=algorithm)), "--run-dir", str(run)]) == 2
    said = capsys.readouterr().err
    assert "spec.algorithm.rllib.lrr: 1; is not a setting of RLlib's PPOConfig.training()" in said
    assert not run.exists()
