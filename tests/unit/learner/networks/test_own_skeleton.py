"""Modules of the user's own: what actors play is what torch computes, and what would differ is refused."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import own_networks
from actor_support import environment
from nitro_actor import masks, wire
from nitro_actor import onnx as played
from nitro_actor.policy import Policies
from nitro_actor.protocol.agents import AgentClass
from nitro_actor.protocol.weights import WeightsContainer
from nitro_learner.networks.own import playing, skeleton

FLOAT = torch.float32


@pytest.mark.parametrize("made_of", [own_networks.Net, own_networks.Attention])
def test_actors_play_what_torch_computes_with_each_versions_tensors(made_of: type[torch.nn.Module]) -> None:
    classes = environment("CartPole-v1", 1).spec.classes
    torch.manual_seed(0)
    module = made_of((4,), 2).eval()
    file = playing.made(module, classes[0])
    assert len(file) < 12_000, "the tensors are in it"
    assert b"own_networks.py" not in file, "the user's paths are in it"
    generator = torch.Generator().manual_seed(3)
    for version in range(2):
        container = WeightsContainer.of_one_agent("run", version, playing.weights(module, file, classes[0]))
        policies = Policies(WeightsContainer.decode(container.encode()), classes).classes["agent"]
        for rows in (1, 2, 8, 64):
            observations = torch.randn(rows, 4, generator=generator)
            found = np.empty((rows, 2), np.float32)
            policies.distribution(observations.numpy(), None, found)
            with torch.no_grad():
                np.testing.assert_allclose(found, module(observations).numpy(), atol=2e-6)
        with torch.no_grad():  # statistics and other buffers are each version's, too
            for tensor in skeleton.named_tensors(module).values():
                if tensor.is_floating_point():
                    tensor.mul_(1.5)


def test_images_stay_bytes_and_masked_actions_are_never_chosen() -> None:
    image, action = {"shape": [6, 5, 2], "dtype": "uint8"}, {"kind": "discrete", "n": 3, "masked": True}
    agents = AgentClass("agent", ("agent",), image, action, mortal=False)
    module = own_networks.Pixels((6, 5, 2), 3).eval()
    file = playing.made(module, agents)
    container = WeightsContainer.of_one_agent("run", 0, playing.weights(module, file, agents))
    policies = Policies(container, [agents]).classes["agent"]
    observations = np.random.default_rng(0).integers(0, 256, (7, 6, 5, 2), np.uint8)
    available = np.random.default_rng(1).random((7, 3)) < 0.5
    available[:, 1] = True
    found = np.empty((7, 3), np.float32)
    policies.distribution(observations, available, found)
    with torch.no_grad():
        expected = module(torch.from_numpy(observations)).numpy()
    np.testing.assert_allclose(found, np.where(available, expected, masks.UNAVAILABLE), atol=2e-6)


@pytest.mark.parametrize(
    ("made_of", "told"),
    [
        (own_networks.Wide, "forward gave float32 [8, 3], and must give float32 [8, 2]"),
        (own_networks.Raises, "forward raised ValueError: no idea"),
        (own_networks.Counts, "forward changes scale"),
        (own_networks.Noisy, "two answers to the same observations"),
        (own_networks.AlwaysDrops, "two answers to the same observations"),
        (own_networks.Branches, "another answer in a batch of 1 than in one of 8"),
        (own_networks.OfTheBatch, "another answer in a batch of 1 than in one of 8"),
        (own_networks.OfNumPy, "cannot be exported (RuntimeError: .numpy() is not supported"),
        (own_networks.OfTheWeights, "cannot be exported"),
        (own_networks.Lazy, "last.weight has no shape yet"),
        (own_networks.Doubles, "first.weight is torch.float64"),
    ],
)
def test_what_would_play_otherwise_than_it_learns_is_refused_with_its_line(
    made_of: type[torch.nn.Module], told: str, capfd: pytest.CaptureFixture[str]
) -> None:
    agents = environment("CartPole-v1", 1).spec.classes[0]
    with pytest.raises(skeleton.Unfit) as refused:
        playing.made(made_of((4,), 2).eval(), agents)
    assert told in str(refused.value)
    lines, begin = inspect.getsourcelines(made_of.forward)
    places = [f"{own_networks.__file__}:{begin + line} in forward" for line in range(len(lines))]
    assert any(place in str(refused.value) for place in places), str(refused.value)
    assert capfd.readouterr() == ("", ""), "the exporters' pages"


def test_a_network_that_exports_as_another_one_is_found_by_the_comparison() -> None:
    module = own_networks.Net((4,), 2).eval()
    file = skeleton.exported(module, (4,), FLOAT)
    skeleton.compare(own_networks.Net((4,), 2).eval(), file, (4,), FLOAT)  # with another one's tensors
    agents = environment("CartPole-v1", 1).spec.classes[0]
    with pytest.raises(skeleton.Unfit, match="exported network gives other numbers than the module"):
        playing.made(own_networks.OfTheExport((4,), 2).eval(), agents)


def test_wrong_tensors_are_named() -> None:
    agents = environment("CartPole-v1", 1).spec.classes[0]
    module = own_networks.Net((4,), 2).eval()
    file = skeleton.exported(module, (4,), FLOAT)
    sound = playing.weights(module, file, agents)
    assert "policy.own.norm.running_mean" in sound.tensors
    assert "policy.own.norm.num_batches_tracked" not in sound.tensors, "onnxruntime refuses what nothing uses"
    for tensors, told in (
        ({**sound.tensors, "policy.own.scale": np.zeros(2, np.float32)}, "policy.own.scale"),
        ({n: t for n, t in sound.tensors.items() if n != "policy.own.scale"}, "policy.own.scale"),
        ({**sound.tensors, "skeleton": np.zeros(9, np.uint8)}, "onnxruntime refuses"),
    ):
        wrong = WeightsContainer.of_one_agent("run", 0, type(sound)(sound.network, tensors))
        with pytest.raises(wire.WireError, match=told):
            Policies(wrong, [agents])


_ALONE = """
import os, sys, threading
sys.modules["torch"] = None  # an import of it would raise
import numpy as np
from nitro_actor import onnx
from pathlib import Path
import time
session = onnx.session(Path(sys.argv[1]).read_bytes(), dict(np.load(sys.argv[2])))
(found,) = session.run(None, {"observation": np.ones((3, 4), np.float32)})
print(found.shape, len(os.listdir("/proc/self/task")), os.environ["ORT_DISABLE_TELEMETRY"])
print(sorted(str(path) for path in Path.home().rglob("*")))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_an_actor_plays_without_torch_in_one_thread_and_writes_nothing_home(tmp_path: Path) -> None:
    module = own_networks.Net((4,), 2).eval()
    file = skeleton.exported(module, (4,), FLOAT)
    (tmp_path / "skeleton").write_bytes(file)
    np.savez(tmp_path / "tensors.npz", **skeleton.arrays_of(module, file))
    home = tmp_path / "home"
    home.mkdir()
    environ = {k: v for k, v in os.environ.items() if k != "ORT_DISABLE_TELEMETRY"}
    alone = [sys.executable, "-c", _ALONE, str(tmp_path / "skeleton"), str(tmp_path / "tensors.npz")]
    done = subprocess.run(
        alone, env={**environ, "HOME": str(home), "OMP_NUM_THREADS": "1"}, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == ["(3, 2) 1 1", "[]"], done.stderr
    assert done.stderr == ""


def test_an_actor_without_onnxruntime_says_which_extra_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    played._onnxruntime.cache_clear()
    with pytest.raises(played.NoOnnxruntime) as refused:
        played.session(b"", {})
    assert "./actor-image[onnx]" in str(refused.value)
    assert "ACTOR_EXTRAS=onnx" in str(refused.value)
