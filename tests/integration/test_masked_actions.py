"""Masked actions of one agent by commands and real actor processes: trained, killed and resumed, evaluated,
played, exported and served. The environment ends the run where a forbidden action is taken.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

import nitro_learner as nitro
from masked_environments import Doors
from nitro_learner.api.loading import write_exported
from nitro_learner.checkpoints.store import load, pack
from nitro_learner.deployment.export.networks import as_onnx, as_torch
from nitro_learner.studies.playing import play
from serve_support import ask, served
from train_support import job, write_job
from train_support import nitro as command
from untrained_runs import untrained

ROUNDS = 3
MEMORY = {"recurrent": {"cell": "gru", "hiddenSize": 6}}


def spec(
    kind: str = "Discrete", form: str = "dict", algorithm: str = "ppo", *, memory: bool = False, **fields: Any
) -> dict[str, Any]:
    environment = {
        "id": "doors",
        "entryPoint": "masked_environments:Doors",
        "kwargs": {"kind": kind, "form": form},
        "envsPerActor": 2,
        "rolloutLength": 32,
        **fields,
    }
    return {
        "environment": environment,
        "algorithm": {"name": algorithm, "hyperparameters": {"epochs": 2, "minibatchSize": 32}},
        "network": {"hiddenSizes": [8], **(MEMORY if memory else {})},
        "scaling": {"scaler": "nitro", "minActors": 1, "maxActors": 2, "initialActors": 1},
        "evaluation": {"everyRounds": 2, "episodes": 2},
        "stop": {"rounds": ROUNDS},
    }


def trained(directory: Path, wanted: dict[str, Any], **arguments: Any) -> Path:
    done = command("train", write_job(directory, **wanted), "--run-dir", directory / "run", **arguments)
    assert done.returncode == (-9 if arguments else 0), done.stderr
    return directory / "run"


def learned(run: Path) -> bytes:
    """What the checkpoint at the end holds of learning."""
    state = load(run / "checkpoints" / f"round-{ROUNDS:06d}.safetensors").state
    return pack(ROUNDS, {"policies": state["policies"], "states": state["training"]["end_states"]})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("doors"), spec())


def test_killed_and_resumed_equals_undisturbed(tmp_path: Path, run: Path) -> None:
    killed = trained(tmp_path, spec(), kill="2:update")
    again = command("train", "--resume", killed)
    assert again.returncode == 0, again.stderr
    assert learned(killed) == learned(run)
    states = load(run / "checkpoints" / f"round-{ROUNDS:06d}.safetensors").state["training"]["end_states"]
    assert "state/available" in states[0]
    ratios = nitro.Run(run).metrics["convexity_ratio"]
    assert np.isfinite(ratios).all()


def test_evaluated(run: Path) -> None:
    checkpoint = load(run / "checkpoints" / f"round-{ROUNDS:06d}.safetensors")
    played = play(nitro.Run(run).job.spec, checkpoint, 4)
    assert played.lengths.min() > 0


@pytest.mark.parametrize(
    ("kind", "form", "algorithm", "memory"),
    [("MultiDiscrete", "method", "impact", False), ("MultiBinary", "dict", "ppo", True)],
)
def test_trains_and_is_resumed(tmp_path: Path, kind: str, form: str, algorithm: str, memory: bool) -> None:
    wanted = spec(kind, form, algorithm, memory=memory, frameStack=2)
    done = trained(tmp_path, wanted)
    more = command("train", "--resume", done, "--set", f"spec.stop.rounds={ROUNDS + 1}")
    assert more.returncode == 0, more.stderr
    assert len(nitro.Run(done).metrics["round"]) == ROUNDS + 1


@pytest.mark.parametrize("memory", [False, True])
@pytest.mark.parametrize("kind", ["Discrete", "MultiDiscrete", "MultiBinary"])
def test_played_exported_and_served_within_the_masks(tmp_path: Path, kind: str, memory: bool) -> None:
    untrained(job(**spec(kind, memory=memory)), tmp_path)
    policy, environment = nitro.load(tmp_path, seed=0), Doors(kind)
    seen, _ = environment.reset(seed=1)
    rows, masks = [], []
    episode = policy.episode()
    begins = True
    for step in range(60):
        # The environment raises where the action is forbidden.
        action = episode.act(
            seen["observation"], available=seen["action_mask"], deterministic=step % 2 == 0, begins=begins
        )
        seen, _, ended, cut, _ = environment.step(action)
        if begins := ended or cut:
            seen, _ = environment.reset()
        rows.append(seen["observation"])
        masks.append(seen["action_mask"].astype(bool))
    state = {"state": policy.initial_state(batch=60)} if memory else {}
    batch, available = np.array(rows), np.array(masks)
    actions = policy.act(batch, available=available, **state)
    actions = actions[0] if memory else actions
    free = policy.act(batch, **state)
    assert (np.asarray(free[0] if memory else free) != actions).any()
    environment._mask = np.ones_like(masks[0])
    for row, mask in zip(actions, masks, strict=True):
        numbers = environment.numbers(environment.action_space.dtype.type(row) if kind == "Discrete" else row)  # type: ignore[union-attr]
        assert mask[np.cumsum(environment.sizes) - environment.sizes + numbers].all()
    for only in (available[0], [mask.tolist() for mask in masks]):
        policy.act(batch, available=only, **state)

    inputs = {"observation": batch, **state, "available": available}
    session = onnxruntime.InferenceSession(as_onnx(policy)["policy.onnx"])
    assert [one.name for one in session.get_inputs()] == list(inputs)
    path = tmp_path / "policy.pt2"
    path.write_bytes(as_torch(policy)["policy.pt2"])
    module = torch.export.load(path).module()
    for count in (60, 1):
        few = {name: array[:count] for name, array in inputs.items()}
        for found in (session.run(None, few), module(*map(torch.from_numpy, few.values()))):
            np.testing.assert_array_equal(np.asarray(found[0]), actions[:count])

    (tmp_path / "policy.safetensors").write_bytes(write_exported(policy))
    with served(tmp_path / "policy.safetensors") as url:
        asked = {"observation": batch.tolist(), "available": available.tolist()}
        status, answer = ask(url, asked)
        assert status == 200, answer
        np.testing.assert_array_equal(answer["action"], actions)
        told = ask(url, path="/v1/policy")[1]["agents"]["agent"]["action"]
        assert told["masked"] is True
        asked["available"] = np.zeros_like(available).tolist()
        assert ask(url, asked)[0] == 400


def test_a_wrong_mask_of_a_user_is_refused(tmp_path: Path) -> None:
    untrained(job(**spec("MultiDiscrete")), tmp_path)
    policy = nitro.load(tmp_path)
    row, mask = np.zeros(9), np.ones(9, bool)
    with pytest.raises(ValueError, match="its action_mask apart as available"):
        policy.act({"observation": row, "action_mask": mask})
    with pytest.raises(ValueError, match=r"available: agent needs the shape \[1, 9\], not \[8\]"):
        policy.act(row, available=mask[1:])
    mask[3:5] = False
    with pytest.raises(ValueError, match=r"allowed in each row, of each of its numbers"):
        policy.act(row, available=mask)
    with pytest.raises(ValueError, match="available: agent needs bools"):
        policy.act(row, available=["no"] * 9)


def test_nothing_allowed_ends_the_run_in_a_sentence(tmp_path: Path) -> None:
    source = spec()
    source["environment"] |= {
        "entryPoint": "masked_environments:wrong",
        "kwargs": {"kind": "Discrete", "how": "later"},
        "rolloutLength": 128,  # 64 steps of each copy
    }
    done = command("train", write_job(tmp_path, **source), "--run-dir", tmp_path / "run")
    assert done.returncode != 0
    assert "the action_mask forbids every action; allow at least one" in done.stderr
