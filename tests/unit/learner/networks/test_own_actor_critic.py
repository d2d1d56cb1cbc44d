"""Networks of the user's own learn as built-in ones: the same module learns the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from learner_support import HOPPER, fragment, job, learner_of
from nitro_api import JobInvalid
from nitro_learner.algorithms.base import StateMisfit
from nitro_learner.algorithms.ppo import learning
from nitro_learner.algorithms.ppo.learning import Ppo
from nitro_learner.boosting.hvp import Hessian
from nitro_learner.boosting.surrogate import Objective
from nitro_learner.networks.own import kept


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


def learner(entry_point: str, **overrides: Any) -> Ppo:
    given = {"algorithm__hyperparameters__epochs": 3, **overrides}
    spec = job(network__entryPoint=f"own_networks:{entry_point}", **given).spec
    made: Ppo = learner_of(spec, HOPPER)
    return made


def named(algorithm: Ppo) -> dict[str, torch.Tensor]:
    """The parameters by the names that both have, as views."""
    (policy,) = algorithm.learned.values()
    found = algorithm.network("agent").named(policy.parameters[None])
    return {name.replace(".own.", "."): value[0] for name, value in found.items()}


def rounds(count: int) -> list[list[Any]]:
    return [[fragment(s, envs=2, seed=k, resumed=k > 0) for s in range(3)] for k in range(count)]


@pytest.mark.parametrize("log_std", ["state", "parameter"])
def test_the_built_in_network_as_a_module_learns_what_it_learns(log_std: str) -> None:
    """Gradients by autograd against those by hand, over rounds with clipping, the penalty and the entropy;
    and what the detector measures."""
    settings: dict[str, Any] = {
        "network__logStd": log_std,
        "algorithm__hyperparameters__epochs": 3,
        "algorithm__hyperparameters__klCoefficient": 0.2,
        "algorithm__hyperparameters__entropyCoefficient": 0.01,
        "algorithm__hyperparameters__normaliseObservations": True,
    }
    own, theirs = (
        learner("Perceptron", **settings),
        learner_of(job(network__hiddenSizes=[16, 16], **settings).spec, HOPPER),
    )
    for name, value in named(own).items():
        value.copy_(named(theirs)[name])
    for number, fragments in enumerate(rounds(3), 1):
        (mine,), (expected,) = (each.update(fragments, number).values() for each in (own, theirs))
        for name, value in named(own).items():
            torch.testing.assert_close(value, named(theirs)[name], rtol=1e-3, atol=1e-5)
        assert mine.stats == pytest.approx(expected.stats, rel=1e-3, abs=1e-5)
    rows = torch.arange(40)
    objectives: tuple[Objective, ...] = ("clip", "ratio1", "total")
    for objective in objectives:
        with (
            Hessian(mine.surrogate.function(objective, rows)) as one,
            Hessian(expected.surrogate.function(objective, rows)) as other,
        ):
            assert one.size == other.size
            vector = torch.randn(one.size, generator=torch.Generator().manual_seed(1))
            torch.testing.assert_close(one(vector), other(vector), rtol=2e-2, atol=1e-4)


def test_a_loss_of_ones_own_learns_it_too() -> None:
    """OwnPpo's default loss is PPO's, so both learn the same."""
    own = learner("Net", algorithm__entryPoint="own_algorithms:Same")
    theirs = learner("Net")
    for number, fragments in enumerate(rounds(2), 1):
        own.update(fragments, number)
        theirs.update(fragments, number)
    (mine,), (expected,) = (each.learned.values() for each in (_inner(own), theirs))
    torch.testing.assert_close(mine.parameters, expected.parameters, rtol=1e-3, atol=1e-5)
    assert np.array_equal(
        own.weights()["default"].tensors["skeleton"], theirs.weights()["default"].tensors["skeleton"]
    )


def _inner(algorithm: Any) -> Ppo:
    """The user's object behind what watches it."""
    inner = getattr(algorithm, "_learner", algorithm)
    assert isinstance(inner, Ppo)
    return inner


@pytest.mark.parametrize(
    "own",
    [
        {"network__entryPoint": "own_networks:Perceptron"},
        {"algorithm__entryPoint": "own_algorithms:Same"},
    ],
    ids=["network", "loss"],
)
def test_its_steps_are_not_captured_on_a_gpu(own: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learning, "graphs_on", lambda *_: pytest.fail("it asks for graphs"))
    (fragments,) = rounds(1)
    learner_of(job(**own).spec, HOPPER).update(fragments, 1)


def test_it_goes_on_from_its_state_to_the_bit_and_refuses_another_ones() -> None:
    """Tensors that are not trained are saved, too, and no gradient step changes them."""
    whole, begun = learner("Net"), learner("Net")
    batches = rounds(2)
    before = {name: value.clone() for name, value in named(whole).items()}
    for number, fragments in enumerate(batches, 1):
        whole.update(fragments, number)
    begun.update(batches[0], 1)
    resumed = learner("Net")
    resumed.load_state_dict(begun.state_dict())
    resumed.update(batches[1], 2)
    for name, value in named(whole).items():
        torch.testing.assert_close(named(resumed)[name], value, rtol=0, atol=0)
        fixed = name.endswith((".scale", ".running_mean", ".running_var"))
        assert torch.equal(value, before[name]) == fixed, name
    mine, theirs = whole.weights()["default"].tensors, resumed.weights()["default"].tensors
    assert all(np.array_equal(mine[name], theirs[name]) for name in mine.keys() | theirs.keys())
    with pytest.raises(StateMisfit):
        learner("Perceptron").load_state_dict(whole.state_dict())
    with pytest.raises(StateMisfit):
        learner("Net", network__criticEntryPoint="own_networks:Perceptron").load_state_dict(
            whole.state_dict()
        )
    other = learner("Net", seed=2)
    assert not torch.equal(named(other)["policy.first.weight"], before["policy.first.weight"])


def test_a_skeleton_is_exported_once_for_the_same_source(monkeypatch: pytest.MonkeyPatch) -> None:
    first = learner("Perceptron")
    monkeypatch.setattr(kept.playing, "made", lambda *_, **__: pytest.fail("it is exported again"))
    again = learner("Perceptron")
    assert first.weights()["default"].tensors["skeleton"].tobytes() == again.network("agent").skeleton


@pytest.mark.parametrize(
    ("network", "told"),
    [
        (
            {"entryPoint": "nowhere:Net"},
            "entryPoint nowhere:Net cannot be loaded (No module named 'nowhere')",
        ),
        ({"entryPoint": "pathlib:Path"}, "must name a subclass of torch.nn.Module"),
        (
            {"entryPoint": "own_networks:Net", "settings": {"depth": 3}},
            "do not fit the constructor of own_networks:Net",
        ),
        ({"entryPoint": "own_networks:Net", "settings": {"width": -1}}, "it raised RuntimeError"),
        ({"entryPoint": "own_networks:Wide"}, "forward gave float32 [8, 4], and must give float32 [8, 3]"),
        (
            {"entryPoint": "own_networks:Net", "criticEntryPoint": "own_networks:Wide"},
            "must give float32 [8, 1]",
        ),
    ],
)
def test_what_cannot_be_the_network_is_refused_with_its_field(network: dict[str, Any], told: str) -> None:
    with pytest.raises(JobInvalid) as refused:
        learner_of(job(**{f"network__{name}": value for name, value in network.items()}).spec, HOPPER)
    (mistake,) = refused.value.errors
    assert told in mistake.message
    field = (
        "settings"
        if "settings" in network
        else "criticEntryPoint"
        if "criticEntryPoint" in network
        else "entryPoint"
    )
    assert mistake.path == f"spec.network.{field}"
