"""rescaleActions through every command: trained, resumed, evaluated, played, exported and served in the
environment's own numbers."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

import nitro_learner as nitro
from nitro_learner.api.loading import write_exported
from nitro_learner.checkpoints.store import load
from nitro_learner.deployment.export.networks import as_onnx, as_torch
from nitro_learner.studies.playing import play
from scaled_environments import HIGH, LOW, Wide
from serve_support import ask, served
from train_support import job, write_job
from train_support import nitro as command
from untrained_runs import untrained

ENVIRONMENT: dict[str, Any] = {
    "entryPoint": "scaled_environments:Wide",
    "rolloutLength": 400,
    "envsPerActor": 4,
    "rescaleActions": True,
}
SPEC: dict[str, Any] = {
    "environment": ENVIRONMENT,
    "scaling": {"scaler": "fixed", "initialActors": 1},
    "algorithm": {"hyperparameters": {"epochs": 8, "minibatchSize": 100, "learningRate": 0.005}},
    "evaluation": {"episodes": 2, "everyRounds": 4},
    "stop": {"rounds": 12},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 12 rounds, stopped after 6 and resumed."""
    folder = tmp_path_factory.mktemp("rescaled")
    path = write_job(folder, **SPEC | {"stop": {"rounds": 6}})
    first = command("train", path, "--run-dir", folder / "run")
    assert first.returncode == 0, first.stderr
    assert "WARNING: spec.environment.rescaleActions" not in first.stderr
    again = command("train", "--resume", folder / "run", "--set", "spec.stop.rounds=12")
    assert again.returncode == 0, again.stderr
    return folder / "run"


def test_it_learns_and_every_way_to_ask_agrees(run: Path, tmp_path: Path) -> None:
    policy = nitro.load(run, seed=0)
    played = play(nitro.Run(run).job.spec, load(sorted((run / "checkpoints").glob("*.safetensors"))[-1]), 2)
    assert played.returns.mean() > -4, "a policy that knows nothing has 10 * (500 - 900) / 900 = -4.4"
    environment = Wide()
    observation, _ = environment.reset(seed=0)
    rows, total, ended = [], 0.0, False
    while not ended:
        action = policy.act(observation)
        assert environment.action_space.contains(action)
        rows.append(observation)
        observation, reward, _, ended, _ = environment.step(action)
        total += reward
    assert total == pytest.approx(played.returns[0], abs=1e-4), "an evaluation plays the same actions"
    batch = np.array(rows, np.float32)
    actions = policy.act(batch)
    assert abs(actions - 0.5 * (LOW + HIGH)).max() > 1, "the policy's own numbers are not the environment's"

    session = onnxruntime.InferenceSession(as_onnx(policy)["policy.onnx"])
    path = tmp_path / "policy.pt2"
    path.write_bytes(as_torch(policy)["policy.pt2"])
    module = torch.export.load(path).module()
    for found, _ in (session.run(None, {"observation": batch}), module(torch.from_numpy(batch))):
        np.testing.assert_allclose(np.asarray(found), actions, rtol=1e-5, atol=1e-3)
    (tmp_path / "policy.safetensors").write_bytes(write_exported(policy))
    np.testing.assert_array_equal(nitro.load(tmp_path / "policy.safetensors").act(batch), actions)
    with served(run) as url:
        status, answer = ask(url, {"observation": batch.tolist()})
        assert status == 200
        np.testing.assert_array_equal(np.array(answer["action"], np.float32), actions)
        told = ask(url, path="/v1/policy")[1]["agents"]["agent"]["action"]
    assert told == {"kind": "continuous", "size": 1, "low": [LOW], "high": [HIGH], "rescaled": True}


def test_drawn_actions_are_in_the_environments_numbers(run: Path) -> None:
    drawn = nitro.load(run, seed=0).act(np.zeros((200, 2), np.float32), deterministic=False)
    assert np.ptp(drawn) > 100
    assert drawn.min() >= LOW
    assert drawn.max() <= HIGH


def test_a_resume_without_it_is_refused(run: Path) -> None:
    done = command("train", "--resume", run, "--set", "spec.environment.rescaleActions=false")
    assert done.returncode != 0
    assert re.search(r"spec\.environment\.rescaleActions: True in the folder, False now", done.stderr)


def test_without_it_a_run_that_begins_is_warned(tmp_path: Path) -> None:
    environment = {**ENVIRONMENT, "rescaleActions": False}
    path = write_job(tmp_path, **SPEC | {"environment": environment, "stop": {"rounds": 1}})
    done = command("train", path, "--run-dir", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    told = (
        "WARNING: spec.environment.rescaleActions: actions[0] goes from -500 to 1500, but the first policy's"
    )
    assert done.stderr.count(told) == 1
    more = command("train", "--resume", tmp_path / "run", "--set", "spec.stop.rounds=2")
    assert more.returncode == 0, more.stderr
    assert "rescaleActions" not in more.stderr, "a policy that has learned is no first policy"


def test_several_agents_are_exported_in_the_environments_numbers(tmp_path: Path) -> None:
    environment = {**ENVIRONMENT, "entryPoint": "scaled_environments:WideTeam"}
    untrained(job(**SPEC | {"environment": environment, "algorithm": {"name": "ippo"}}), tmp_path)
    policy = nitro.load(tmp_path)
    rows = np.random.default_rng(0).uniform(-1, 1, (50, 2)).astype(np.float32)
    actions = policy.act(dict.fromkeys(policy.agents, rows))
    middle = 0.5 * (LOW + HIGH)
    assert abs(actions["driver_0"] - middle).max() < 0.25 * (HIGH - LOW), "a first policy is near the middle"
    session = onnxruntime.InferenceSession(as_onnx(policy)["driver_0.onnx"])
    (found, _) = session.run(None, {"observation": rows})
    np.testing.assert_allclose(found, actions["driver_0"], rtol=1e-5, atol=1e-3)
