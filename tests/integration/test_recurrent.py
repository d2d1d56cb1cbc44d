"""Policies with a memory, by commands and real actor processes: kill -9, evaluation, the library, the server
and exported files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

import nitro_learner as nitro
from actor_support import Alone, Game, action_of
from nitro_actor.policy import Policies
from nitro_actor.rollout import best_actions
from nitro_learner.checkpoints.store import load, pack
from nitro_learner.deployment.export.networks import as_onnx, as_torch
from serve_support import ask, served
from train_support import nitro as command
from train_support import rows_of, write_job
from untrained_runs import environment_of

ROUNDS, SIZE = 3, 6
COMMON: dict[str, Any] = {
    "network": {"hiddenSizes": [8], "recurrent": {"cell": "gru", "hiddenSize": SIZE}},
    "stop": {"rounds": ROUNDS},
}
ONE: dict[str, Any] = {
    **COMMON,
    "environment": {"id": "Pendulum-v1", "rolloutLength": 64, "envsPerActor": 2},
    "algorithm": {"name": "ppo", "hyperparameters": {"epochs": 2, "minibatchSize": 64}},
}
DIALS: dict[str, Any] = {  # MultiDiscrete actions
    **COMMON,
    "environment": {
        "id": "dials",
        "entryPoint": "learner_environments:Dials",
        "rolloutLength": 48,  # 24 steps of each copy: an episode of 20 goes on in the next round
        "envsPerActor": 2,
    },
    "algorithm": ONE["algorithm"],
}
SEVERAL: dict[str, Any] = {
    **COMMON,
    "environment": {"id": "mpe2/simple_spread_v3", "rolloutLength": 40, "envsPerActor": 2},
    "algorithm": {  # two agents share a policy of MAPPO, the third one has a Q-network
        "name": "mappo",
        "hyperparameters": {"epochs": 2},
        "policies": [{"agents": "agent_2", "name": "iql", "hyperparameters": {"replayRatio": 1}}],
    },
    "sharing": {"mode": "always"},
}
SPECS = {"one": ONE, "dials": DIALS, "several": SEVERAL}


def learned(run: Path) -> bytes:
    """Everything in the last checkpoint but the run's identity and times."""
    state = load(run / "checkpoints" / f"round-{ROUNDS:06d}.safetensors").state
    state["training"].pop("seconds")
    state.pop("run")
    return pack(ROUNDS, state)


def trained(directory: Path, spec: dict[str, Any], **arguments: Any) -> Path:
    done = command("train", write_job(directory, **spec), "--run-dir", directory / "run", **arguments)
    assert done.returncode == (-9 if arguments else 0), done.stderr
    return directory / "run"


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("one"), ONE)


@pytest.fixture(scope="module")
def dials(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("dials"), DIALS)


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("several"), SEVERAL)


@pytest.mark.parametrize("name", SPECS)
def test_killed_and_resumed_equals_undisturbed(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    undisturbed: Path = request.getfixturevalue(name)
    run = trained(tmp_path, SPECS[name], kill="3:sample")
    again = command("train", "--resume", run)
    assert again.returncode == 0, again.stderr
    assert learned(run) == learned(undisturbed)


def test_episodes_go_on_with_what_was_remembered(one: Path, dials: Path, several: Path) -> None:
    own = ["state/memory"]
    for run, names in ((one, own), (dials, own), (several, ["state/memory/agent"])):
        states = load(run / "checkpoints" / f"round-{ROUNDS:06d}.safetensors").state["training"]["end_states"]
        assert states
        for state in states.values():
            assert [name for name in state if "memory" in name] == names
            assert state[names[0]].any(), "an episode of 25 steps has not ended after 20, 40 or 60"


def test_every_round_has_a_boosting_score(one: Path, dials: Path) -> None:
    for run in (one, dials):
        assert all(float(row["convexity_ratio"]) > 0 for row in rows_of(run))


def test_evaluation_plays_with_the_memory(one: Path) -> None:
    done = command("evaluate", one, "--episodes", "2")
    assert done.returncode == 0, done.stderr


def test_the_library_plays_as_an_actor_plays(one: Path) -> None:
    policy = nitro.load(one)
    environment = Alone(environment_of(nitro.Run(one).job, 2))
    actor = Policies(policy.weights, environment.spec.classes).classes["agent"]
    environment.reset([1, 2])
    memory, state, episode = np.zeros((2, SIZE), np.float32), policy.initial_state(batch=2), policy.episode()
    begins = np.ones(2, bool)
    for step in range(210):  # an episode has 200
        distribution = np.empty((2, 2), np.float32)
        seen = environment.observations.copy()
        actor.distribution(seen, None, distribution, memory)
        played = action_of(environment.spec).mode(distribution)
        chosen, state = policy.act(seen, state=state)
        np.testing.assert_array_equal(chosen, np.clip(played, -2, 2))
        np.testing.assert_array_equal(state, memory)
        np.testing.assert_array_equal(episode.act(seen, begins=begins), chosen)
        _, terminated, truncated = environment.step(played)
        begins = terminated | truncated
        assert begins.all() == (step == 199)
        memory[begins] = state[begins] = 0
        for index in np.flatnonzero(begins):
            environment.reset_one(int(index))
    environment.close()
    action, after = policy.act(seen[0], state=policy.initial_state())
    assert (action.shape, after.shape) == ((1,), (SIZE,))
    fresh = policy.episode()
    np.testing.assert_array_equal(fresh.act(seen[0]), action)
    assert not np.array_equal(fresh.act(seen[0]), action)


def test_several_agents_play_as_actors_play(several: Path) -> None:
    policy = nitro.load(several)
    environment = environment_of(nitro.Run(several).job, 2)
    actor = Game(environment).policy(policy.weights)
    environment.reset([1, 2])
    memories, state, episode = actor.memories(2), policy.initial_state(batch=2), policy.episode()
    for _ in range(5):
        played = best_actions(environment, actor, memories)["agent"]
        rows = environment.observations["agent"].reshape(2, len(policy.agents), -1)
        seen = {agent: rows[:, i] for i, agent in enumerate(policy.agents)}
        chosen, state = policy.act(seen, state=state)
        again = episode.act(seen)
        remembered = memories.of["agent"].reshape(2, len(policy.agents), -1)
        for i, agent in enumerate(policy.agents):
            np.testing.assert_array_equal(chosen[agent], played[:, i])
            np.testing.assert_array_equal(state[agent], remembered[:, i])
            np.testing.assert_array_equal(again[agent], chosen[agent])
        environment.step({"agent": played})
    environment.close()


def test_what_does_not_fit_is_refused(one: Path, several: Path) -> None:
    policy, seen = nitro.load(one), np.zeros(3)
    with pytest.raises(ValueError, match=r"has a memory: give state=policy.initial_state\(\)"):
        policy.act(seen)
    with pytest.raises(
        ValueError, match=r"state: agent needs finite numbers of the shape \[6\]; this is \[2, 6\]"
    ):
        policy.act(seen, state=policy.initial_state(batch=2))
    with pytest.raises(ValueError, match="state: agent needs finite numbers"):
        policy.act(seen, state=np.full(SIZE, np.nan))
    team = nitro.load(several)
    with pytest.raises(ValueError, match="state: agent_0 acts, so its state is needed"):
        team.act({"agent_0": np.zeros(18)}, state={})


def test_the_server_remembers_nothing_itself(one: Path) -> None:
    policy, rows = nitro.load(one), np.random.default_rng(1).standard_normal((2, 3)).astype(np.float32)
    with served(one) as url:
        status, first = ask(url, {"observation": rows.tolist()})
        assert status == 200
        expected, state = policy.act(rows, state=policy.initial_state(batch=2))
        np.testing.assert_array_equal(np.array(first["action"], np.float32), expected)
        _, second = ask(url, {"observation": rows.tolist(), "state": first["state"]})
        expected, state = policy.act(rows, state=state)
        np.testing.assert_array_equal(np.array(second["action"], np.float32), expected)
        np.testing.assert_array_equal(np.array(second["state"], np.float32), state)
        _, single = ask(url, {"observation": rows[0].tolist()})
        assert len(single["state"]) == SIZE
        status, refused = ask(url, {"observation": rows.tolist(), "state": [1, 2]})
        assert status == 400
        assert "state: agent needs finite numbers of the shape [2, 6]" in refused["error"]
        status, refused = ask(url, {"observation": rows.tolist(), "state": {"x": "y"}})
        assert status == 400
        assert ask(url, path="/v1/policy")[1]["agents"]["agent"]["memory"] == SIZE


def test_several_agents_are_served_with_their_states(several: Path) -> None:
    policy = nitro.load(several)
    seen = {agent: [0.5] * 18 for agent in policy.agents}
    state = None
    with served(several) as url:
        for _ in range(2):
            expected = policy.act(seen, state=state or policy.initial_state())
            status, answer = ask(url, {"observation": seen, "state": state})
            assert status == 200, answer
            for index, part in enumerate(("action", "state")):
                for agent in policy.agents:
                    np.testing.assert_array_equal(
                        np.array(answer[part][agent], np.float32), expected[index][agent]
                    )
            state = answer["state"]


@pytest.mark.parametrize("name", SPECS)
def test_exported_files_take_and_give_the_state(
    name: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    run: Path = request.getfixturevalue(name)
    policy = nitro.load(run)
    agent = policy.agents[-1]
    rows = np.random.default_rng(2).standard_normal((50, *policy.of(agent).observation["shape"]))
    rows = rows.astype(np.float32)
    state = np.random.default_rng(3).uniform(-1, 1, (50, SIZE)).astype(np.float32)
    inputs = {"observation": rows, "state": state}
    if name == "several":
        both = policy.act({agent: rows}, state={agent: state})
        actions, after = both[0][agent], both[1][agent]
        inputs["available"] = np.ones((50, 5), bool)
    else:
        actions, after = policy.act(rows, state=state)
    stem = agent if name == "several" else "policy"
    session = onnxruntime.InferenceSession(as_onnx(policy)[f"{stem}.onnx"])
    assert [one.name for one in session.get_outputs()] == ["action", "distribution", "next_state"]
    program = tmp_path / "policy.pt2"
    program.write_bytes(as_torch(policy)[f"{stem}.pt2"])
    module = torch.export.load(program).module()
    for found in (
        session.run(None, inputs),
        [one.numpy() for one in module(*(torch.from_numpy(one) for one in inputs.values()))],
    ):
        assert np.asarray(found[0]).dtype == actions.dtype
        if name != "one":
            assert (found[0] == actions).mean() > 0.95
        else:
            np.testing.assert_allclose(found[0], actions, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(found[2], after, rtol=1e-5, atol=1e-5)
