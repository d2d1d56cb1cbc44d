"""A user's own network in real runs: it goes on after a kill to the bit, others play it, and its failure says
where."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import nitro_learner
from train_support import exact_rows, learned, nitro, recorded, rows_of, write_job

SOURCE = """\
import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self, shape, outputs, width=16, fails=0):
        super().__init__()
        self.fails = fails
        self.first = nn.Linear(shape[0], width)
        self.block = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU())
        self.last = nn.Linear(width, outputs)

    def forward(self, observations):
        if self.fails and torch.is_grad_enabled():
            raise ValueError("no gradient")  # RAISES
        hidden = torch.tanh(self.first(observations))
        return self.last(hidden + self.block(hidden))
"""
CARTPOLE = {"id": "CartPole-v1", "rolloutLength": 64, "envsPerActor": 4}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the user's module."""
    (tmp_path / "mine.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def network(**settings: Any) -> dict[str, Any]:
    return {"entryPoint": "mine:Residual", "settings": {"width": 24, **settings}}


def test_it_goes_on_after_a_kill_to_the_bit_and_is_played_by_others(folder: Path) -> None:
    file = write_job(folder, environment=CARTPOLE, network=network())
    assert nitro("validate", file).returncode == 0
    assert len(list((folder / "cache" / "nitro" / "networks").iterdir())) == 1
    records = folder / "whole.jsonl", folder / "killed.jsonl"
    done = nitro("train", file, "--run-dir", "whole", record=records[0])
    assert done.returncode == 0, done.stderr
    assert all(float(row["convexity_ratio"]) > 0 for row in rows_of(Path("whole"))), "nothing is measured"
    killed = nitro("train", file, "--run-dir", "killed", record=records[1], kill="4:update")
    assert killed.returncode == -9
    again = nitro("train", "--resume", "killed", record=records[1])
    assert again.returncode == 0, again.stderr
    assert learned(folder / "killed", 6) == learned(folder / "whole", 6)
    assert exact_rows(folder / "killed") == exact_rows(folder / "whole")
    assert recorded(records[1]) == recorded(records[0])
    _played_like_torch(folder / "whole")
    evaluated = nitro("evaluate", "whole", "--episodes", "2")
    assert evaluated.returncode == 0, evaluated.stderr
    assert nitro("export", "whole", "--format", "safetensors").returncode == 0
    _played_like_torch(folder / "whole" / "export" / "policy.safetensors")
    refused = nitro("export", "whole", "--format", "onnx")
    assert refused.returncode == 2, refused.stderr
    assert "--format onnx is not for a network of your own (spec.network.entryPoint)" in refused.stderr


def _played_like_torch(run: Path) -> None:
    """What is loaded from the run gives what the user's module gives with the run's tensors."""
    import mine

    policy = nitro_learner.load(run)
    (weights,) = policy.weights.policies.values()
    module = mine.Residual((4,), 2, width=24)
    tensors = {name: torch.from_numpy(np.array(array)) for name, array in weights.tensors.items()}
    module.load_state_dict({name: tensors[f"policy.own.{name}"] for name in module.state_dict()})
    observations = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    mean, variance = (weights.tensors[f"observation.{name}"] for name in ("mean", "var"))
    seen = ((observations - mean) / np.sqrt(variance + 1e-8)).astype(np.float32)
    expected = module(torch.from_numpy(seen)).argmax(1).numpy()
    np.testing.assert_array_equal(policy.act(observations, deterministic=True), expected)


def test_one_that_raises_while_it_learns_ends_the_run_with_its_line(folder: Path) -> None:
    file = write_job(folder, environment=CARTPOLE, network=network(fails=1))
    failed = nitro("train", file, "--run-dir", "run")
    line = next(n for n, text in enumerate(SOURCE.splitlines(), 1) if "# RAISES" in text)
    assert failed.returncode == 2, failed.stderr
    told = f"forward raised ValueError: no gradient ({folder}/mine.py:{line} in forward)"
    assert f"spec.network.entryPoint names a module whose {told}" in failed.stderr
    assert "Traceback" not in failed.stderr


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("return self.last(hidden) + torch.randn(1)", "two answers to the same observations"),
        ("return hidden", "forward gave float32 [8, 24], and must give float32 [8, 2]"),
    ],
)
def test_one_that_cannot_be_played_is_refused_before_the_first_round(
    folder: Path, source: str, told: str
) -> None:
    (folder / "mine.py").write_text(SOURCE.replace("return self.last(hidden + self.block(hidden))", source))
    file = write_job(folder, environment=CARTPOLE, network=network())
    for command in (("validate",), ("train", "--run-dir", "run")):
        refused = nitro(*command, file)
        assert refused.returncode == 2, refused.stderr
        assert told in refused.stderr
        assert "spec.network.entryPoint" in refused.stderr
        assert f"{folder}/mine.py:" in refused.stderr
    theirs = nitro("validate", file, "--set", "spec.learner.image=mine/learner:1")
    assert theirs.returncode == 0, "the learner's image may have another one"
    assert "on this machine" in theirs.stderr
