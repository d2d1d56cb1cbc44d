"""Actions of several whole numbers and flattened observations through every command, with the environments of
`learner_environments`: trained, killed and resumed, evaluated, played, exported and served."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import onnxruntime
import pytest
import torch

import learner_environments
import nitro_learner as nitro
from learner_environments import Dials, Switches
from nitro_learner.api.loading import write_exported
from nitro_learner.checkpoints.store import load, pack
from nitro_learner.deployment.export.networks import as_onnx, as_torch
from nitro_learner.studies.playing import play
from serve_support import ask, served
from train_support import job, write_job
from train_support import nitro as command
from untrained_runs import untrained

SPEC: dict[str, Any] = {
    "environment": {"id": "dials", "entryPoint": "learner_environments:Dials", "envsPerActor": 2},
    "scaling": {"scaler": "nitro", "minActors": 1, "maxActors": 2, "initialActors": 1},
    "stop": {"rounds": 3},
}
SPEC["environment"]["rolloutLength"] = 30  # 15 steps of each copy: an episode of 20 goes on in the next round
ENVIRONMENTS = {"Dials": Dials, "Switches": Switches}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run of a job that nobody disturbed."""
    support = str(Path(learner_environments.__file__).parent)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", support)  # where actor processes find the environment
        return nitro.train(job(**SPEC), run_dir=tmp_path_factory.mktemp("trained") / "run").path


def learned(run: Path) -> bytes:
    """What the checkpoint at the end holds of learning."""
    state = load(run / "checkpoints" / "round-000003.safetensors").state
    return pack(3, {"policies": state["policies"], "states": state["training"]["end_states"]})


def test_killed_and_resumed_equals_undisturbed(tmp_path: Path, trained: Path) -> None:
    run = tmp_path / "run"
    killed = command("train", write_job(tmp_path, **SPEC), "--run-dir", run, kill="2:update")
    assert killed.returncode == -9, killed.stderr
    again = command("train", "--resume", run)
    assert again.returncode == 0, again.stderr
    assert learned(run) == learned(trained)
    state = load(run / "checkpoints" / "round-000003.safetensors").state
    assert state["training"]["end_states"], "the flattened environment is resumable"


def test_every_round_has_a_boosting_ratio(trained: Path) -> None:
    ratios = nitro.Run(trained).metrics["convexity_ratio"]
    assert len(ratios) == 3
    assert np.isfinite(ratios).all()


def test_evaluated(trained: Path) -> None:
    run = nitro.Run(trained)
    checkpoint = load(trained / "checkpoints" / "round-000003.safetensors")
    played = play(run.job.spec, checkpoint, 4)
    assert played.lengths.tolist() == [20] * 4
    assert 0 < played.returns.min() <= played.returns.max() <= 20


@pytest.mark.parametrize("name", ["Dials", "Switches"])
def test_played_and_exported_in_the_environments_own_form(tmp_path: Path, name: str) -> None:
    environment = ENVIRONMENTS[name]()
    entry = {**SPEC["environment"], "entryPoint": f"learner_environments:{name}"}
    untrained(job(**SPEC | {"environment": entry}), tmp_path)
    policy, space = nitro.load(tmp_path, seed=0), environment.action_space
    seen = gymnasium.wrappers.FlattenObservation(environment)
    observation, _ = seen.reset(seed=0)
    rows = []
    for step in range(20):
        action = policy.act(observation, deterministic=step % 2 == 0)
        assert space.contains(action)  # and the environment asserts it
        rows.append(observation)
        observation, *_ = seen.step(action)
    batch = np.array(rows, np.float32)
    actions = policy.act(batch)
    assert (actions.shape, actions.dtype) == ((20, *space.shape), space.dtype)  # type: ignore[misc]
    assert len(np.unique(actions.reshape(20, -1), axis=0)) > 1

    session = onnxruntime.InferenceSession(as_onnx(policy)["policy.onnx"])
    path = tmp_path / "policy.pt2"
    path.write_bytes(as_torch(policy)["policy.pt2"])
    module = torch.export.load(path).module()
    for count in (20, 1):
        for found, _ in (
            session.run(None, {"observation": batch[:count]}),
            module(torch.from_numpy(batch[:count])),
        ):
            np.testing.assert_array_equal(np.asarray(found), actions[:count])
            assert np.asarray(found).dtype == space.dtype

    (tmp_path / "policy.safetensors").write_bytes(write_exported(policy))
    np.testing.assert_array_equal(nitro.load(tmp_path / "policy.safetensors").act(batch), actions)
    with pytest.raises(ValueError, match=r"gymnasium\.spaces\.flatten"):
        policy.act({"dials": rows[0]})


def test_served(trained: Path) -> None:
    policy = nitro.load(trained)
    rows = np.eye(11, dtype=np.float32)
    with served(trained) as url:
        status, found = ask(url, {"observation": rows.tolist()})
        assert status == 200
        np.testing.assert_array_equal(found["action"], policy.act(rows))
        told = ask(url, path="/v1/policy")[1]["agents"]["agent"]["action"]
    assert told["kind"] == "multiDiscrete"
    assert (told["sizes"], told["shape"], told["start"]) == ([3, 4, 2], [3, 1], [1, -1, 0])
