"""Every space that training accepts goes through training, resuming, loading, acting, evaluation, serving and
each export. Actors play in this process; `test_spaces.py` has runs of real processes."""

from itertools import zip_longest
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import onnxruntime
import pytest
import torch
from aiohttp.test_utils import TestClient, TestServer

import nitro_learner as nitro
from agents_jobs import job as agents_job
from memory_backend import MemoryBackend
from nitro_learner.api import training
from nitro_learner.api.loading import write_exported
from nitro_learner.api.policy import TrainedPolicy
from nitro_learner.checkpoints.store import CheckpointStore, pack
from nitro_learner.deployment.export.hub import as_hub
from nitro_learner.deployment.export.networks import as_torch
from nitro_learner.deployment.serving.app import make_app
from nitro_learner.studies.playing import play
from space_environments import ACTIONS, LENGTH, OBSERVATIONS, drawn
from train_support import job

ROWS = 3
ONE = list(zip_longest(OBSERVATIONS, ACTIONS, fillvalue="discrete"))
"""Pairs of an observation space and an action space of one agent. Each space is in one of them."""
TEAM = [
    ("ippo", "float", "float"),
    ("mappo", "integer", "one choice"),
    ("ippo", "one pixel", "dial"),
    ("mappo", "bool", "bit"),
    ("qmix", "float", "one choice"),
    ("iql", "integers", "discrete"),
]
"""Of several agents, who observe a Box, with the algorithm."""
STEADY = {"learningRateAnneal": False}
SHORT: dict[str, Any] = {
    "scaling": {"scaler": "fixed", "maxActors": 1},
    "stop": {"rounds": 1},
    "evaluation": {"everyRounds": 1, "episodes": 1},
    "network": {"hiddenSizes": [4]},
}


def one_agent(observation: str, action: str, number: int) -> dict[str, Any]:
    """A job; algorithms, stacks and memories take turns."""
    memory = {"recurrent": {"hiddenSize": 4}} if number % 3 == 2 else {}
    algorithm = {"name": "impact" if number % 3 == 1 else "ppo", "preset": "tuned", "hyperparameters": STEADY}
    spec = SHORT | {"network": {"hiddenSizes": [4], **memory}, "algorithm": algorithm}
    return job(**spec, environment=_environment("Spaced", observation, action))


def several_agents(observation: str, action: str, name: str) -> dict[str, Any]:
    own: dict[str, Any] = {"iql": {"hyperparameters": STEADY}}
    own["qmix"] = own["iql"] | {"teamReward": True}
    algorithm = own.get(name, {"hyperparameters": STEADY | {"normaliseObservations": True}})
    environment = _environment("SpacedTeam", observation, action)
    return agents_job(name=name, algorithm=algorithm, environment=environment, id="team", **SHORT)


def _environment(name: str, observation: str, action: str) -> dict[str, Any]:
    return {
        "entryPoint": f"space_environments:{name}",
        "kwargs": {"observation": observation, "action": action},
        "envsPerActor": 2,
        "rolloutLength": 20,  # an episode goes on in the next round
    }


CASES = {f"{seen}, {done}": one_agent(seen, done, number) for number, (seen, done) in enumerate(ONE)}
CASES |= {f"{name}: {seen}, {done}": several_agents(seen, done, name) for name, seen, done in TEAM}


@pytest.mark.parametrize("source", CASES.values(), ids=CASES)
async def test_a_space_goes_all_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: dict[str, Any]
) -> None:
    monkeypatch.setattr(training, "make_backend", lambda spec, *_, **__: MemoryBackend(spec))
    run = nitro.train(source, run_dir=tmp_path / "run")
    nitro.resume(run, rounds=2)
    whole = nitro.train(
        source | {"spec": source["spec"] | {"stop": {"rounds": 2}}}, run_dir=tmp_path / "whole"
    )
    assert learned(run) == learned(whole), "what was resumed is what was not interrupted, to the bit"

    policy = run.policy(seed=0)
    seen = observations(policy, source)
    alone = {agent: rows[0] for agent, rows in seen.items()}
    kwargs = source["spec"]["environment"]["kwargs"]
    space = ACTIONS[kwargs["action"]]
    team = "classes" in policy.environment
    for deterministic in (True, False):
        chosen = ask(policy, alone, team, deterministic)
        for action in chosen.values():
            fits(space, action)
    actions = ask(policy, seen, team)
    episodes = policy.episode().act(seen if team else seen[policy.agents[0]])
    same(episodes if team else {policy.agents[0]: episodes}, actions)

    played = play(run.job.spec, checkpoint(run), 3)
    assert played.lengths.tolist() == [LENGTH] * 3

    served = TestServer(make_app(policy))
    async with TestClient(served) as client:
        for rows, expected in ((seen, actions), (alone, ask(policy, alone, team))):
            listed = {agent: each.tolist() for agent, each in rows.items()}
            body = {"observation": listed if team else listed[policy.agents[0]]}
            answered = await client.post("/v1/act", json=body)
            told = await answered.json()
            assert answered.status == 200, told
            found = told["action"] if team else {policy.agents[0]: told["action"]}
            same({agent: np.array(each, expected[agent].dtype) for agent, each in found.items()}, expected)

    (tmp_path / "policy.safetensors").write_bytes(write_exported(policy))
    same(ask(nitro.load(tmp_path / "policy.safetensors"), seen, team), actions)
    files, programs = as_hub(policy, run), as_torch(policy)
    for agent, rows in seen.items():
        name = "policy" if len(policy.agents) == 1 else agent
        one = policy.of(agent).observation
        given = {"observation": rows.astype(one["dtype"])}
        if policy.memory[agent]:
            given["state"] = np.zeros((ROWS, policy.memory[agent]), np.float32)
        if team and policy.of(agent).action["kind"] == "discrete":
            given["available"] = np.ones((ROWS, policy.of(agent).action["n"]), bool)
        session = onnxruntime.InferenceSession(files[f"{name}.onnx"])
        same({agent: session.run(None, given)[0]}, {agent: actions[agent]})
        path = tmp_path / f"{name}.pt2"
        path.write_bytes(programs[f"{name}.pt2"])
        module = torch.export.load(path).module()
        found = module(*(torch.from_numpy(each) for each in given.values()))[0].numpy()
        same({agent: found}, {agent: actions[agent]})


def observations(policy: TrainedPolicy, source: dict[str, Any]) -> dict[str, Any]:
    """Rows of each agent, as the environment gives them, or flattened."""
    space, generator = (
        OBSERVATIONS[source["spec"]["environment"]["kwargs"]["observation"]],
        np.random.default_rng(0),
    )
    found = {}
    for agent in policy.agents:
        values = [drawn(space, generator) for _ in range(ROWS)]
        if not isinstance(space, gymnasium.spaces.Box):
            values = [gymnasium.spaces.flatten(space, value) for value in values]
        found[agent] = np.array(values)
        assert policy.of(agent).observation["shape"] == list(found[agent].shape[1:])
    return found


def ask(
    policy: TrainedPolicy, seen: dict[str, Any], team: bool, deterministic: bool = True
) -> dict[str, Any]:
    """The actions of the first step of an episode."""
    single = seen[policy.agents[0]].ndim == len(policy.of(policy.agents[0]).observation["shape"])
    state = policy.initial_state(None if single else ROWS)
    if team:
        return policy.act(seen, state=state, deterministic=deterministic)[0]  # type: ignore[return-value]
    return {policy.agents[0]: policy.act(seen[policy.agents[0]], state=state, deterministic=deterministic)[0]}


def same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for agent, action in expected.items():
        assert found[agent].dtype == action.dtype
        assert found[agent].shape == action.shape
        np.testing.assert_allclose(found[agent], action, rtol=1e-5, atol=1e-5)


def fits(space: Any, action: Any) -> None:
    """Continuous actions are flat floats; others are what the environment takes."""
    if isinstance(space, gymnasium.spaces.Box):
        assert (action.dtype, action.shape) == (np.float32, (int(np.prod(space.shape)),))
        action = action.reshape(space.shape).astype(space.dtype)
    assert space.contains(action)


def checkpoint(run: nitro.Run) -> Any:
    return CheckpointStore(run.path / "checkpoints", keep_last=1).latest()


def learned(run: nitro.Run) -> bytes:
    state = checkpoint(run).state
    return pack(
        2,
        {"policies": state["policies"], "played": state["played"], "states": state["training"]["end_states"]},
    )
