"""`nitro validate` refuses what the start of a training refuses: it builds the environment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from nitro_learner.cli import main

OWN = '''
import gymnasium, numpy as np
from gymnasium.spaces import Box, Discrete

class Own(gymnasium.Env):
    """An environment that breaks in one way."""

    def __init__(self, how=""):
        print("built, and says so on standard output")
        if how == "raises":
            raise ZeroDivisionError("no wheels")
        if how == "exits":
            import os; os._exit(7)
        shape = () if how == "scalar" else (3,)
        self.observation_space = Box(-1, 1, shape, np.float32)
        if how == "integers":
            self.observation_space = Box(0, 2**30, shape, np.int64)
        self.action_space = Box(0, 1000, (1,), np.float32) if how == "wide" else Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(self.observation_space.shape, self.observation_space.dtype), {}

    def step(self, action):
        return np.zeros(self.observation_space.shape, self.observation_space.dtype), 0.0, True, False, {}
'''
OWN_ENTRY = {"entryPoint": "own_start:Own"}
ARENA = {"entryPoint": "parallel_environments:Arena"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "own_start.py").write_text(OWN)
    support = Path(__file__).parents[3] / "support"
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{support}")
    return tmp_path


def validate(folder: Path, environment: dict[str, Any], **spec: Any) -> int:
    job = {
        "apiVersion": "nitro.dev/v1alpha1",
        "kind": "NitroTrainingJob",
        "metadata": {"name": "case"},
        "spec": {
            "environment": {"envsPerActor": 1, "rolloutLength": 256, **environment},
            "scaling": {"scaler": "fixed", "minActors": 1, "maxActors": 1},
            **spec,
        },
    }
    (folder / "job.yaml").write_text(yaml.safe_dump(job))
    return main(["validate", "--json", str(folder / "job.yaml")])


@pytest.mark.parametrize(
    ("environment", "spec", "path", "said"),
    [
        (
            {"id": "ALE/Pong-v5", "kwargs": {"frameskip": 1}},
            {},
            "environment.id",
            "['frameskip'] are not taken",
        ),
        (
            {"id": "ALE/Pong-v5", "kwargs": {"repeat_action_probability": 0.1, "obs_type": "ram"}},
            {},
            "environment.id",
            "['obs_type', 'repeat_action_probability'] are not taken by Atari games",
        ),
        ({"id": "ALE/Pong-v5", "kwargs": {"mode": 1.0}}, {}, "environment.id", "has no mode 1.0, only 0, 1"),
        ({"id": "Hopper-v3"}, {}, "environment.id", "have been moved to the gymnasium-robotics project"),
        (
            {"id": "pettingzoo.classic/tictactoe_v3"},
            {"algorithm": {"name": "ippo"}},
            "environment.id",
            "environment pettingzoo.classic/tictactoe_v3 is an AEC environment, in which agents take turns: "
            "pettingzoo.classic.tictactoe_v3 has no parallel_env. Choose",
        ),
        ({"id": "CartPole-v1", "kwargs": {"colour": "red"}}, {}, "environment.id", "TypeError"),
        ({"id": "CartPole-v1", "rescaleActions": True}, {}, "environment.id", "actions that are a Box"),
        (
            {"entryPoint": "own_start:Owm"},
            {},
            "environment.entryPoint",
            "correct what stands after the colon",
        ),
        (
            OWN_ENTRY | {"kwargs": {"how": "raises"}},
            {},
            "environment.entryPoint",
            "ZeroDivisionError: no wheels",
        ),
        (OWN_ENTRY | {"kwargs": {"how": "exits"}}, {}, "environment.entryPoint", "process ended with code 7"),
        (
            OWN_ENTRY | {"kwargs": {"how": "scalar"}, "frameStack": 2},
            {},
            "environment.entryPoint",
            "frameStack",
        ),
        (
            OWN_ENTRY,
            {"network": {"convLayers": [{"channels": 2, "kernel": 2, "stride": 1}]}},
            "network.type",
            "conv needs images",
        ),
        (
            {"entryPoint": "not_here_at_all:Own"},
            {},
            "environment.entryPoint",
            "No module named 'not_here_at_all'",
        ),
        ({"id": "not_here_at_all:Own-v0"}, {}, "environment.id", "needs the package not_here_at_all, which"),
        (
            {"entryPoint": "broken_environments:SeedIgnored"},
            {},
            "environment.entryPoint",
            "reset ignores `seed`",
        ),
        (
            {"entryPoint": "broken_environments:Pair", "kwargs": {"how": "four values"}},
            {"algorithm": {"name": "ippo"}},
            "environment.entryPoint",
            "PettingZoo's step returns five values",
        ),
        (OWN_ENTRY, {"resumeFrom": {"job": "another"}}, "resumeFrom", "starts a run on a cluster only"),
        (OWN_ENTRY, {"algorithm": {"name": "ippo"}}, "algorithm.name", "the environment has a single one"),
        (ARENA, {}, "algorithm.name", "the environment has several"),
        (
            ARENA,
            {"algorithm": {"name": "ippo", "policies": [{"agents": "nobody*", "name": "ippo"}]}},
            "algorithm.policies[0].agents",
            "must name an agent of the environment",
        ),
    ],
)
def test_what_the_start_refuses_is_refused(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    environment: dict[str, Any],
    spec: dict[str, Any],
    path: str,
    said: str,
) -> None:
    code = validate(folder, environment, **spec)
    (error,) = json.loads(capsys.readouterr().out)["errors"]
    assert error["path"] == f"spec.{path}"
    assert said in error["message"]
    assert code == 2


@pytest.mark.parametrize(
    ("environment", "spec", "said"),
    [
        (
            {"entryPoint": "not_here_at_all:Own"},
            {"actor": {"image": "registry.test/own:1"}},
            "spec.environment.entryPoint: on this machine entryPoint",
        ),
        (
            {"entryPoint": "broken_environments:OtherDtype"},
            {"actor": {"image": "registry.test/own:1"}},
            "spec.environment.entryPoint: on this machine the observation that reset returns has the dtype",
        ),
        (OWN_ENTRY | {"kwargs": {"how": "raises"}}, {"actor": {"image": "registry.test/own:1"}}, "no wheels"),
        (OWN_ENTRY | {"kwargs": {"how": "wide"}}, {}, "actions[0] goes from 0 to 1000"),
        ({"entryPoint": "actor_support:normalised_walk"}, {}, "has gymnasium.wrappers.NormalizeObservation"),
        (OWN_ENTRY | {"kwargs": {"how": "integers"}}, {}, "1073741824"),
        (OWN_ENTRY, {}, None),
    ],
)
def test_what_another_machine_may_have_is_a_warning(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    environment: dict[str, Any],
    spec: dict[str, Any],
    said: str | None,
) -> None:
    code = validate(folder, environment, **spec)
    told = json.loads(capsys.readouterr().out)
    assert (code, told["errors"]) == (0, [])
    told_of = [warning for warning in told["warnings"] if "not checked" not in warning]
    assert [said in warning for warning in told_of] == ([] if said is None else [True])


def test_a_job_of_a_cluster_may_need_what_is_not_here_and_take_another_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    validate(folder, {"entryPoint": "not_here_at_all:Own"}, resumeFrom={"job": "another"})
    capsys.readouterr()
    words = ["validate", "--json", str(folder / "job.yaml")]
    assert main(words, prog="kubectl nitro", commands={"validate": "check"}) == 0
    (warning,) = json.loads(capsys.readouterr().out)["warnings"]
    assert warning.startswith(
        "spec.environment.entryPoint: on this machine entryPoint not_here_at_all:Own cannot"
    )


def test_remarks_are_told_apart(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert validate(folder, {"id": "CartPole-v1"}) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["warnings"] == []
    assert "remark" not in str(told["errors"])
    assert all("gymnasium's check_env: " in remark for remark in told["remarks"])
    assert told["remarks"]


def test_spaces_that_are_too_large_or_lose_digits_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    many = {"entryPoint": "actor_support:ManyActions", "kwargs": {"kind": "Discrete"}}
    assert validate(tmp_path, many) == 2
    (mistake,) = json.loads(capsys.readouterr().out)["errors"]
    assert mistake["path"] == "spec.environment.entryPoint"
    assert "a policy would need 100000000 outputs for it, of 100000 at most" in mistake["message"]
    spaced: dict[str, Any] = {"entryPoint": "space_environments:Spaced"}
    spaced["kwargs"] = {"observation": "long integers", "action": "bits"}
    assert validate(tmp_path, spaced) == 0
    (warning,) = json.loads(capsys.readouterr().out)["warnings"]
    assert warning.startswith(
        "spec.environment: observations may hold whole numbers up to 1099511627776, but"
    )
    spaced["kwargs"]["observation"] = "one scalar"
    assert validate(tmp_path, spaced, network={"hiddenSizes": [4096] * 4}) == 2
    (mistake,) = json.loads(capsys.readouterr().out)["errors"]
    assert mistake["path"] == "spec.network.hiddenSizes"
    assert mistake["message"].startswith(
        "make 192 MiB of weights for the 1 numbers that agents see and the 4"
    )
