"""Policies of the heads squashedGaussian and tanh as users have them: loaded, played, exported and served in
the environment's own numbers."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import nitro_learner as nitro
from actor_support import RUN, environment, policies_of
from nitro_actor.protocol.agents import AGENT
from nitro_actor.protocol.weights import WeightsContainer
from nitro_learner.api.loading import write_exported
from nitro_learner.api.policy import TrainedPolicy
from nitro_learner.checkpoints.store import load
from nitro_learner.deployment.export.networks import as_onnx, as_torch
from nitro_learner.studies.playing import play
from scaled_environments import HIGH, LOW, Wide
from serve_support import ask, served
from squashed_support import HEADS, squashing
from train_support import job
from untrained_runs import untrained


def trained(head: str, **changes: Any) -> TrainedPolicy:
    """A policy of Wide, whose actions are from -500 to 1500."""
    spec = environment("test", 1, "scaled_environments:Wide").spec
    container = WeightsContainer.of_one_agent(RUN, 1, squashing(spec, head, **changes))
    played = {
        "version": 1,
        "environment": spec.to_json(),
        "agents": container.agents,
        "policies": {
            name: {"meta": policy.meta, "tensors": policy.tensors}
            for name, policy in container.policies.items()
        },
    }
    return TrainedPolicy(played, 1, seed=0)


@pytest.mark.parametrize("head", HEADS)
def test_every_way_to_ask_agrees(head: str, tmp_path: Path) -> None:
    policy = trained(head)
    rows = (3 * np.random.default_rng(7).standard_normal((500, 2))).astype(np.float32)
    spec = environment("test", 1, "scaled_environments:Wide").spec
    actor = policies_of(squashing(spec, head), spec).classes[AGENT]
    expected = np.empty((500, actor.actions.parameters), np.float32)
    actor.distribution(rows, None, expected)
    actions = policy.act(rows)
    there = LOW + (np.tanh(expected[:, :1].astype(float)) + 1) / 2 * (HIGH - LOW)
    np.testing.assert_allclose(actions, there, atol=1e-3)
    assert np.ptp(actions) > 500
    assert Wide().action_space.contains(policy.act(rows[0]))

    network = as_onnx(policy)["policy.onnx"]
    onnx.checker.check_model(onnx.load_from_string(network), full_check=True)
    session = onnxruntime.InferenceSession(network)
    path = tmp_path / "policy.pt2"
    path.write_bytes(as_torch(policy)["policy.pt2"])
    module = torch.export.load(path).module()
    for found in (session.run(None, {"observation": rows}), module(torch.from_numpy(rows))):
        exported, distribution = (np.asarray(one) for one in found)
        np.testing.assert_allclose(distribution, expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(exported, actions, rtol=1e-5, atol=1e-5 * (HIGH - LOW))

    saved = tmp_path / "policy.safetensors"
    saved.write_bytes(write_exported(policy))
    np.testing.assert_array_equal(nitro.load(saved).act(rows), actions)
    with served(saved) as url:
        status, answer = ask(url, {"observation": rows.tolist()})
        assert status == 200
        np.testing.assert_array_equal(np.array(answer["action"], np.float32), actions)
        told = ask(url, path="/v1/policy")[1]["agents"]["agent"]["action"]
        assert (told["low"], told["high"]) == ([LOW], [HIGH])


@pytest.mark.parametrize("name", ["sac", "td3"])
def test_an_evaluation_of_a_run_plays_what_its_policy_acts(name: str, tmp_path: Path) -> None:
    entry = {"entryPoint": "scaled_environments:Wide", "rolloutLength": 64, "envsPerActor": 1}
    spec = untrained(job(environment=entry, algorithm={"name": name}), tmp_path).spec
    policy, wide = nitro.load(tmp_path), Wide()
    (checkpoint,) = (tmp_path / "checkpoints").glob("*.safetensors")
    played = play(spec, load(checkpoint), 1)
    observation, _ = wide.reset(seed=0)
    total, ended = 0.0, False
    while not ended:
        observation, reward, _, ended, _ = wide.step(policy.act(observation))
        total += reward
    assert total == pytest.approx(played.returns[0], abs=1e-4)
    assert -6 < total < -2, "a policy that begins plays around the middle of the range, 500 from 900"


@pytest.mark.parametrize(("head", "uniform"), [("squashedGaussian", False), ("tanh", False), ("tanh", True)])
def test_drawn_actions_are_those_of_training(head: str, uniform: bool) -> None:
    rows = np.zeros((2000, 2), np.float32)
    policy = trained(head, uniform=uniform, noise=0.02)
    drawn, best = policy.act(rows, deterministic=False), policy.act(rows[:1])
    assert LOW <= drawn.min() < drawn.max() <= HIGH
    np.testing.assert_array_equal(
        drawn, trained(head, uniform=uniform, noise=0.02).act(rows, deterministic=False)
    )
    spread = drawn.std() / (HIGH - LOW) * 2
    if uniform:
        assert spread == pytest.approx(3**-0.5, abs=0.02)
    elif head == "tanh":
        assert spread == pytest.approx(0.02, abs=0.002)
        assert drawn.mean() == pytest.approx(best[0, 0], abs=5)
    else:
        assert spread > 0.05
