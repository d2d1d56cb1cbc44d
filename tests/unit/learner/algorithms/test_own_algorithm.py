"""Algorithms of a user's own: how they are made, what they learn, and what is refused of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import own_algorithms
from learner_support import HOPPER, by_autograd, fragment, job, learner_of, parts_of, samples_of
from nitro_actor.protocol.weights import DEFAULT_POLICY
from nitro_api import JobInvalid
from nitro_learner.algorithms.base import OffPolicyLearner, OnPolicyLearner
from nitro_learner.algorithms.own_code import OwnCodeError
from nitro_learner.algorithms.ppo.loss import Coefficients
from nitro_learner.boosting.detector import curvature
from nitro_learner.data.batch import Fragment
from nitro_learner.training.failures import TrainingFailed, as_training_failure

FILE = str(Path(own_algorithms.__file__))
SMALL = {"network__hiddenSizes": "[16, 16]", "algorithm__hyperparameters__epochs": 2}


def make(name: str | None, settings: dict[str, Any] | None = None, **overrides: Any) -> Any:
    given: dict[str, Any] = {**SMALL, **overrides}
    if name is not None:
        given["algorithm__entryPoint"] = name if ":" in name else f"own_algorithms:{name}"
    if settings is not None:
        given["algorithm__settings"] = settings
    return learner_of(job(**given).spec, HOPPER)


def round_of(k: int) -> list[Fragment]:
    return [fragment(slot, envs=2, seed=k, resumed=k > 1) for slot in range(2)]


def tensors_of(learner: Any) -> dict[str, np.ndarray]:
    return dict(learner.weights()[DEFAULT_POLICY].tensors)


def line_of(text: str) -> int:
    lines = Path(FILE).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


@pytest.mark.parametrize("preset", ["tuned", "paper"])
def test_the_base_learns_what_ppo_learns(preset: str) -> None:
    own, ppo = (make(name, preset=preset) for name in ("Same", None))
    assert isinstance(own, OnPolicyLearner)
    for k in (1, 2):
        theirs, ours = ppo.update(round_of(k), k)[DEFAULT_POLICY], own.update(round_of(k), k)[DEFAULT_POLICY]
        assert ours.stats.keys() == theirs.stats.keys()
        for name in ("kl", "value_loss", "entropy", "gradient_norm", "learning_rate"):
            assert ours.stats[name] == pytest.approx(theirs.stats[name], rel=1e-3, abs=1e-6)
    before, after = tensors_of(ppo), tensors_of(own)
    for name, value in before.items():
        np.testing.assert_allclose(after[name], value, rtol=2e-3, atol=2e-5)
    rows = torch.arange(0, theirs.surrogate.size, 3)
    for objective in ("ratio1", "total"):
        parts = [r.surrogate.function(objective, rows) for r in (theirs, ours)]
        expected, found = (sum(term() for term in part.terms).item() for part in parts)
        assert found == pytest.approx(expected, rel=1e-3, abs=1e-5)


def test_the_base_learns_a_network_of_ones_own() -> None:
    network = {"network__hiddenSizes": "null", "network__entryPoint": "own_networks:Perceptron"}
    own, ppo = (make(name, **network) for name in ("Same", None))
    for learner in (own, ppo):
        learner.update(round_of(1), 1)
    for name, value in tensors_of(ppo).items():
        np.testing.assert_allclose(tensors_of(own)[name], value, rtol=2e-3, atol=2e-5)


def test_a_loss_learns_by_its_own_gradient() -> None:
    overrides = {
        "algorithm__hyperparameters__epochs": 1,
        "algorithm__hyperparameters__minibatchSize": 0,
        "algorithm__hyperparameters__maxGradNorm": 0,
    }
    own = make("A2C", {"critic": 0.25}, **overrides)
    ppo = make(None, **overrides)
    samples = samples_of(ppo, round_of(1))
    # At ratio 1 the gradient of r A is that of log pi A: PPO's own loss, without clips, is the same.
    c = Coefficients(clip=10.0, kl=0.0, entropy=0.0, value=0.25, value_clip=1e9)
    network, parameters = parts_of(ppo)
    log_probs = network.family.log_prob(
        network.distribution(network.bind(parameters), samples.observations, None), samples.actions
    ).detach()
    fresh = type(samples)(
        samples.observations,
        samples.actions,
        log_probs,
        samples.distribution,
        samples.advantages,
        samples.returns,
    )
    expected = by_autograd(ppo, c, fresh).norm().item()
    result = own.update(round_of(1), 1)[DEFAULT_POLICY]
    assert result.stats["gradient_norm"] == pytest.approx(expected, rel=1e-4)
    measured = curvature(
        result.surrogate.function("clip", torch.arange(64)), np.random.default_rng(0), vectors=False
    )
    assert measured.smallest < measured.largest
    noise = result.surrogate.trajectories("clip")
    assert len(noise.sizes) == len(noise.mean.terms) == 4


def test_it_goes_on_from_its_state_to_the_bit() -> None:
    whole, first, second = (make("A2C", {"entropy": 0.01}) for _ in range(3))
    for k in (1, 2, 3):
        whole.update(round_of(k), k)
    for k in (1, 2):
        first.update(round_of(k), k)
    second.load_state_dict(first.state_dict())
    second.update(round_of(3), 3)
    for name, value in tensors_of(whole).items():
        np.testing.assert_array_equal(tensors_of(second)[name], value)


def test_a_loss_may_leave_the_critic_alone() -> None:
    own = make("PolicyAlone")
    before = own.state_dict()["parameters"]
    own.update(round_of(1), 1)
    after = own.state_dict()["parameters"]
    assert torch.equal(before["critic.head.weight"], after["critic.head.weight"])
    assert not torch.equal(before["policy.head.weight"], after["policy.head.weight"])


def test_a_learner_of_arrivals_is_fed_as_the_algorithm_that_name_has() -> None:
    own = make("OffPolicy", algorithm__name="impact")
    theirs = make(None, algorithm__name="impact")
    assert isinstance(own, OffPolicyLearner)
    assert own.max_staleness == theirs.max_staleness
    for learner in (own, theirs):
        learner.take(round_of(1))
        learner.replay()
        learner.end_round(1)
    for name, value in tensors_of(theirs).items():
        np.testing.assert_array_equal(tensors_of(own)[name], value)


@pytest.mark.parametrize(
    ("name", "settings", "path", "told"),
    [
        ("nowhere:A2C", None, "entryPoint", "cannot be loaded (No module named 'nowhere'); run nitro in"),
        ("Partial", None, "entryPoint", "a class without adopt, begin_round, copy_slots, load_state_dict, "),
        ("Partial", None, "entryPoint", f"update ({FILE}:{{Partial}}), which OnPolicyLearner of nitro_"),
        ("A2C", {"critc": 1}, "settings.critc", "is no setting; own_algorithms:A2C has critic, entropy: "),
        ("A2C", {"critic": -1}, "settings.critic", "Input should be greater than or equal to 0; correct it"),
        (
            "A2C",
            {"critic": "x"},
            "settings.critic",
            f"a valid number, unable to parse string as a number; correct it ({FILE}:",
        ),
        (
            "Same",
            {"beta": 1},
            "settings.beta",
            "own_algorithms:Same has none: correct it, or add it to Settings",
        ),
        ("Refusing", None, "entryPoint", "raised ValueError: it does not like cpu ("),
    ],
)
def test_what_cannot_be_made_is_refused(
    name: str, settings: dict[str, Any] | None, path: str, told: str
) -> None:
    with pytest.raises(JobInvalid) as refused:
        make(name, settings)
    told = told.replace("{Partial}", str(line_of("class Partial")))
    (error,) = [error for error in refused.value.errors if told in error.message] or refused.value.errors
    assert (error.path, told in error.message) == (f"spec.algorithm.{path}", True), str(error)


def test_a_class_that_the_algorithm_cannot_feed_is_refused() -> None:
    with pytest.raises(
        JobInvalid, match=r"without end_round, replay, take \(.*by whose methods name: impact"
    ):
        make("Same", algorithm__name="impact")
    with pytest.raises(JobInvalid, match=r"network.recurrent: .*is not for a subclass of OwnPpo; remove it"):
        make("Same", network__recurrent={"hiddenSize": 8})


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (
            "raises",
            "update of round 1 raised RuntimeError: nothing is lost ({FILE}:{nothing is lost} in loss)",
        ),
        ("inside", "update of round 1 raised RuntimeError: Tensors must have same number of dimensions"),
        ("number", "loss returned 0.5, which is no tensor ({FILE}:{def loss}"),
        ("mean", "loss returned the shape [] for 64 samples"),
        ("column", "loss returned the shape [64, 1] for 64 samples"),
        ("constant", "loss returned what depends neither on parameters nor on values"),
    ],
)
def test_a_wrong_loss_ends_the_run_with_its_line(wrong: str, told: str) -> None:
    own = make("Odd", {"wrong": wrong})
    with pytest.raises(TrainingFailed) as failed, as_training_failure():
        own.update(round_of(1), 1)
    told = told.replace("{FILE}", FILE).replace("{nothing is lost}", str(line_of("nothing is lost")))
    odd = next(n for n, text in enumerate(Path(FILE).read_text().splitlines(), 1) if "-> Any:" in text)
    assert f"own_algorithms:Odd: {told.replace('{def loss}', str(odd))}" in str(failed.value)
    assert (failed.value.own, failed.value.resumable) == ("algorithm", False)
    assert f"{FILE}:" in str(failed.value)


def test_what_our_own_code_says_stays_as_it_is() -> None:
    own = make("Odd", {"wrong": "infinite"})
    with pytest.raises(FloatingPointError, match="the weights became infinite or NaN"):
        own.update(round_of(1), 1)
    with pytest.raises(OwnCodeError, match="state_dict returned what a checkpoint cannot hold"):
        own.state_dict()
    with pytest.raises(OwnCodeError, match=r"weights returned \[\]; return PolicyWeights by policy"):
        make("Odd", {"wrong": "weights"}).weights()
