"""Exported policies compute what actors compute: by onnxruntime, by torch.export, and from safetensors."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import safetensors
import safetensors.numpy
import torch
import yaml

import nitro_learner as nitro
from actor_support import Game, action_of
from agents_jobs import job as agents_job
from nitro_actor.actions import Continuous
from nitro_actor.policy import Policies
from nitro_api.costs.amounts import dollars
from nitro_learner.backends.local import LocalBackend
from nitro_learner.checkpoints.store import CheckpointError
from nitro_learner.deployment.export import hub
from nitro_learner.deployment.export.networks import as_onnx, as_torch
from nitro_learner.run.rundir import RunDir
from train_support import job as small_job
from train_support import nitro as command
from untrained_runs import environment_of, resolved, untrained

ROWS = 1000
CARTPOLE = {"environment": {"id": "CartPole-v1", "rolloutLength": 32, "envsPerActor": 2, "frameStack": 3}}
TUNED = {"algorithm": {"preset": "tuned"}, "environment": {"id": "Hopper-v5"}}


def atari(*layers: dict[str, Any]) -> dict[str, Any]:
    return {
        "environment": {"id": "ALE/SpaceInvaders-v5", "rolloutLength": 32, "envsPerActor": 2},
        "network": {"hiddenSizes": [8], "convLayers": list(layers)},
    }


ODD = {"channels": 3, "kernel": 8, "stride": 3, "padding": "same"}  # 5 zeros around 84 pixels: 2 and 3
EVEN = {"channels": 4, "kernel": 5, "stride": 2, "padding": "valid"}


def export(folder: Path, format: str, *words: object) -> list[Path]:
    """The files that the command names."""
    done = command("export", folder, "--format", format, *words)
    assert done.returncode == 0, done.stderr
    return [Path(line) for line in done.stdout.splitlines()]


def observations(one: Any, rows: int = ROWS) -> np.ndarray:
    generator = np.random.default_rng(7)
    shape = (rows, *one.observation["shape"])
    if one.observation["dtype"] == "uint8":
        return generator.integers(0, 256, shape, np.uint8)
    return (3 * generator.standard_normal(shape)).astype(np.float32)


def check(found: Any, expected: np.ndarray, actions: np.ndarray) -> None:
    """Compare an exported policy's outputs with the actor's distribution and the library's actions."""
    played, distribution = (np.asarray(one) for one in found)
    np.testing.assert_allclose(distribution, expected, rtol=1e-5, atol=1e-5)
    assert played.dtype == actions.dtype
    if played.dtype == np.float32:
        np.testing.assert_allclose(played, actions, rtol=1e-5, atol=1e-5)
    else:  # where two are equally good to rounding, either may be chosen
        best = np.take_along_axis(expected, played[:, None], 1)
        np.testing.assert_allclose(best[:, 0], expected.max(1), rtol=1e-5, atol=1e-5)
        assert (played == actions).mean() > 0.99


@pytest.mark.parametrize(
    "source",
    [small_job(**TUNED), small_job(**CARTPOLE), small_job(**atari(ODD, EVEN))],
    ids=["normalised", "stack", "images"],
)
def test_the_policy_of_one_agent_is_the_actors(source: dict[str, Any], tmp_path: Path) -> None:
    job = untrained(source, tmp_path)
    policy = nitro.load(tmp_path)
    for weights in policy.weights.policies.values():  # statistics of a beginning would hide a mistake
        for name, low in (("observation.mean", -1.0), ("observation.var", 0.5)):
            if name in weights.tensors:
                weights.tensors[name][...] = low + np.random.default_rng(3).random(
                    weights.tensors[name].shape
                )
    (one,) = (policy.of(agent) for agent in policy.agents)
    rows = observations(one, 100 if one.observation["dtype"] == "uint8" else ROWS)
    environment = environment_of(job, 1)
    actor = Game(environment).policy(policy.weights).classes["agent"]
    space = action_of(environment.spec)
    environment.close()
    expected = np.empty((len(rows), space.parameters), np.float32)
    actor.distribution(rows, None, expected)
    actions = space.mode(expected)
    actions = np.clip(actions, space.low, space.high) if isinstance(space, Continuous) else actions

    (network,) = as_onnx(policy).values()
    onnx.checker.check_model(onnx.load_from_string(network), full_check=True)
    session = onnxruntime.InferenceSession(network)
    axes = {axis for one in (*session.get_inputs(), *session.get_outputs()) for axis in one.shape}
    assert {axis for axis in axes if isinstance(axis, str)} == {"batch"}
    check(session.run(None, {"observation": rows}), expected, actions)
    check(session.run(None, {"observation": rows[:1]}), expected[:1], actions[:1])

    (program,) = as_torch(policy).items()
    path = tmp_path / program[0]
    path.write_bytes(program[1])
    module = torch.export.load(path).module()
    check(module(torch.from_numpy(rows)), expected, actions)
    check(module(torch.from_numpy(rows[:1])), expected[:1], actions[:1])


def test_threads_export_as_one_does(tmp_path: Path) -> None:
    """PyTorch's exporters keep what they do in variables of the process."""
    untrained(small_job(**CARTPOLE), tmp_path)
    policy = nitro.load(tmp_path)
    with ThreadPoolExecutor(3) as pool:
        onnx_files, *torch_files = pool.map(lambda write: write(policy), [as_onnx, as_torch, as_torch])
    assert onnx_files == as_onnx(policy)
    assert [list(files) for files in torch_files] == [["policy.pt2"]] * 2


@pytest.mark.parametrize("name", ["ippo", "vdn"])
def test_each_of_several_agents_has_its_own_file(name: str, tmp_path: Path) -> None:
    """With one policy for all, the agents differ by the identity inside the file; VDN's head is dueling."""
    team = {"teamReward": True} if name == "vdn" else {}
    job = untrained(agents_job(name=name, sharing={"mode": "always"}, algorithm=team), tmp_path)
    policy = nitro.load(tmp_path)
    files = export(tmp_path, "onnx", "--out", tmp_path / "out")
    assert [path.name for path in files] == [f"{agent}.onnx" for agent in policy.agents]
    environment = environment_of(job, 1)
    spec = environment.spec
    environment.close()
    (one,) = spec.classes
    rows = observations(one)
    available = np.random.default_rng(1).random((ROWS, one.action["n"])) < 0.5
    available[:, 0] = True
    seen, masks = (np.repeat(each, len(one.agents), axis=0) for each in (rows, available))
    expected = np.empty(masks.shape, np.float32)
    Policies(policy.weights, spec.classes).classes[one.name].distribution(seen, masks, expected)
    expected = expected.reshape(ROWS, len(one.agents), -1)
    actions = policy.act(
        dict.fromkeys(policy.agents, rows), available=dict.fromkeys(policy.agents, available)
    )
    assert not np.array_equal(expected[:, 0], expected[:, 1]), "nothing tells the agents apart"
    for index, (agent, path) in enumerate(zip(policy.agents, files, strict=True)):
        session = onnxruntime.InferenceSession(path)
        found = session.run(None, {"observation": rows, "available": available})
        check(found, expected[:, index], actions[agent])


def test_a_single_agent_of_an_environment_of_several_has_its_mask(tmp_path: Path) -> None:
    untrained(agents_job(environment={"kwargs": {"N": 1}}), tmp_path)
    policy = nitro.load(tmp_path)
    (agent,) = policy.agents
    rows = observations(policy.of(agent))
    available = np.eye(policy.of(agent).action["n"], dtype=bool)[np.arange(ROWS) % 5]
    (network,) = as_onnx(policy).values()
    played, _ = onnxruntime.InferenceSession(network).run(None, {"observation": rows, "available": available})
    np.testing.assert_array_equal(played, np.arange(ROWS) % 5)


def test_safetensors_have_what_the_policy_needs(tmp_path: Path) -> None:
    untrained(small_job(**TUNED), tmp_path)
    (path,) = export(tmp_path, "safetensors")
    assert path == tmp_path / "export" / "policy.safetensors"
    policy = nitro.load(tmp_path)
    tensors = safetensors.numpy.load_file(path)
    with safetensors.safe_open(path, "numpy") as file:
        described = json.loads(file.metadata()["nitro-policy"])
    assert described["agents"] == {"agent": "default"}
    assert described["environment"] == policy.environment
    weights = policy.weights.policies["default"]
    assert described["policies"]["default"] == weights.meta
    assert tensors.keys() == {f"default/{name}" for name in weights.tensors}
    for name, array in weights.tensors.items():
        np.testing.assert_array_equal(tensors[f"default/{name}"], array)
    rows = observations(policy.of("agent"))
    again = nitro.load(path)
    assert again.round == policy.round
    np.testing.assert_array_equal(again.act(rows), policy.act(rows))


def test_a_damaged_export_is_refused(tmp_path: Path) -> None:
    untrained(small_job(**TUNED), tmp_path / "run")
    (whole,) = export(tmp_path / "run", "safetensors")
    tensors = safetensors.numpy.load_file(whole)
    with safetensors.safe_open(whole, "numpy") as file:
        described = file.metadata()["nitro-policy"]
    path = tmp_path / "policy.safetensors"
    for changed, missing in (
        ("{", None),
        ("{}", None),
        (described.replace('"environment": {', '"environment": {}, "other": {'), None),
        (described.replace('"kind": "mlp"', '"kind": "gru"'), None),
        (described, "default/policy.head.weight"),
    ):
        kept = {name: tensor for name, tensor in tensors.items() if name != missing}
        safetensors.numpy.save_file(kept, path, {"nitro-policy": changed})
        with pytest.raises(CheckpointError, match="no policy can be read from it"):
            nitro.load(path)
    path.write_bytes(b"no safetensors")
    with pytest.raises(CheckpointError):
        nitro.load(path)


def test_a_hub_folder_has_a_card_whose_snippet_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = nitro.train(small_job(stop={"rounds": 2}), run_dir=tmp_path / "run")
    export(run.path, "hub", "--checkpoint", 1, "--out", tmp_path / "earlier")
    earlier = (tmp_path / "earlier" / "README.md").read_text()
    assert "| Training | went on after this round |" in earlier
    assert "mean_reward" not in earlier, "the return is that of a later policy"
    files = export(run.path, "hub", "--checkpoint", 2, "--out", tmp_path / "hub")
    names = ["README.md", "job.yaml", "policy.onnx", "policy.safetensors"]
    assert sorted(path.name for path in files) == names
    assert sorted(path.name for path in (tmp_path / "hub").iterdir()) == names
    card = (tmp_path / "hub" / "README.md").read_text()
    front = yaml.safe_load(card.split("---\n")[1])
    assert front["pipeline_tag"] == "reinforcement-learning"
    (result,) = front["model-index"][0]["results"]
    evaluation = run.summary["evaluation"]
    assert result["metrics"][0]["value"] == f"{evaluation['mean']:.2f} +/- {evaluation['std']:.2f}"
    cost = run.summary["cost"]
    assert f"| Cost of the training | {dollars(cost['learner'], cost['actors'])[0]} |" in card
    assert command("validate", tmp_path / "hub" / "job.yaml").returncode == 0
    (snippet,) = re.findall(r"^```python\n(.*?)^```", card, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path / "hub")
    names_of: dict[str, Any] = {}
    exec(compile(snippet, "card", "exec"), names_of)
    # In a process of its own, at whose import of onnxruntime nobody else has turned its telemetry off.
    variables = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    home = {"HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": ""}
    subprocess.run([sys.executable, "-c", snippet], env=variables | home, check=True)
    assert not list((tmp_path / "home").rglob("*onnxruntime*"))
    np.testing.assert_allclose(names_of["actions"], run.policy().act(np.zeros((1, 11))), rtol=1e-5, atol=1e-6)


def test_an_interrupt_while_the_actors_start_keeps_what_the_card_tells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = nitro.train(small_job(**CARTPOLE, stop={"rounds": 1}), run_dir=tmp_path / "run")
    before = run.summary

    async def start(_: LocalBackend) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await asyncio.Event().wait()

    monkeypatch.setattr(LocalBackend, "start", start)
    nitro.resume(run, rounds=2)
    assert (run.summary["reason"], run.summary["rounds"]) == ("Interrupted", 1)
    for name in ("envSteps", "wallSeconds", "rewardMean", "evaluation"):
        assert run.summary[name] == before[name]
    monkeypatch.setattr(hub, "as_onnx", lambda _: {"policy.onnx": b""})
    card = hub.as_hub(run.policy(), run)["README.md"].decode()
    assert f"| Environment steps | {before['envSteps']:,} |" in card
    assert f"| Return | {before['evaluation']['mean']:.2f} +/- " in card
    assert "| Training | has not ended |" in card
    # The run of an earlier version may have a summary without its steps.
    RunDir(run.path).write_summary({name: value for name, value in before.items() if name != "envSteps"})
    assert "Environment steps" not in hub.as_hub(run.policy(), run)["README.md"].decode()


def _untrained_run(folder: Path, **spec: Any) -> nitro.Run:
    """A run folder whose policy is of round 1."""
    job = untrained(small_job(**CARTPOLE, **spec), folder)
    RunDir(folder).job.write_text(job.to_yaml())
    return nitro.Run(folder)


@pytest.mark.parametrize("part", ["actor", "learner"])
def test_a_hub_folder_has_no_values_of_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    monkeypatch.setattr(hub, "as_onnx", lambda _: {"policy.onnx": b""})
    run = _untrained_run(tmp_path, **{part: {"env": [{"name": "PASSWORD", "value": "hunter2"}]}})
    files = hub.as_hub(run.policy(), run)
    assert not [name for name, data in files.items() if b"hunter2" in data]
    job = resolved(yaml.safe_load(files["job.yaml"]))
    assert getattr(job.spec, part).to_dict()["env"] == [{"name": "PASSWORD"}]


@pytest.mark.parametrize(
    ("rounds", "finished", "training", "versions"),
    [
        (None, False, "has not ended", False),
        (0, True, "has not ended", False),  # extended, it trains: the summary is of its first end
        (1, False, "has not ended", True),
        (1, True, None, True),
        (2, True, "went on after this round", True),
        (2, False, "went on after this round", True),
    ],
)
def test_a_card_says_of_an_end_what_is_true_of_the_policy(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rounds: int | None,
    finished: bool,
    training: str | None,
    versions: bool,
) -> None:
    monkeypatch.setattr(hub, "as_onnx", lambda _: {"policy.onnx": b""})
    run = _untrained_run(tmp_path)
    if rounds is not None:
        told = {
            "rounds": rounds,
            "finished": finished,
            "cost": {"total": 1.5, "learner": 1.2, "actors": 0.3},
            "versions": {"torch": "9.8.7"},
        }
        RunDir(tmp_path).write_summary(told)
    card = hub.as_hub(run.policy(), run)["README.md"].decode()
    assert re.findall(r"^\| Training \| (.*) \|$", card, re.MULTILINE) == ([training] if training else [])
    assert ("| Versions | torch 9.8.7 |" in card) == versions
    assert ("| Cost of the training | $1.5000 |" in card) == (rounds == 1)


def test_what_cannot_be_exported_is_refused(tmp_path: Path) -> None:
    untrained(small_job(**CARTPOLE), tmp_path / "run")
    checkpoint = next((tmp_path / "run" / "checkpoints").glob("round-*.safetensors"))
    for words, message in (
        ((tmp_path, "--format", "hub"), "no run folder"),
        ((tmp_path / "run", "--format", "onnx", "--checkpoint", 7), "no checkpoint of round 7; there are: 1"),
        ((checkpoint, "--format", "hub"), "needs a run folder"),
        ((checkpoint, "--format", "onnx"), "--out is needed"),
        ((checkpoint, "--format", "onnx", "--checkpoint", 1, "--out", tmp_path), "needs a run folder"),
    ):
        done = command("export", *words)
        assert done.returncode == 2, done.stderr
        assert message in done.stderr
    assert command("export", checkpoint, "--format", "safetensors", "--out", tmp_path / "o").returncode == 0
