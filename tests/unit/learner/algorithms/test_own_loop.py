"""Training loops of a user's own: what they get, what becomes of what they give, and what is refused."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import own_algorithms
from learner_support import HOPPER, fragment, job, learner_of, module_of, plain
from nitro_actor.protocol.weights import DEFAULT_POLICY
from nitro_api import JobInvalid
from nitro_learner.algorithms import registry
from nitro_learner.algorithms.base import OnPolicyLearner
from nitro_learner.algorithms.own.collecting import CollectedBatch
from nitro_learner.algorithms.own.loop import METRICS
from nitro_learner.data.batch import Fragment
from nitro_learner.training.failures import TrainingFailed, as_training_failure
from nitro_learner.training.round_report import OF_UPDATES

OWN_NETWORK = {"network__hiddenSizes": "null", "network__entryPoint": "own_networks:Net"}
FILE = str(Path(own_algorithms.__file__))


def make(settings: dict[str, Any] | None = None, **overrides: Any) -> Any:
    given = {
        "network__hiddenSizes": "[16, 16]",
        "algorithm__entryPoint": "own_algorithms:loop",
        "scaling__scaler": "fixed",
        **overrides,
    }
    if settings:
        given["algorithm__settings"] = settings
    return learner_of(job(**given).spec, HOPPER)


def round_of(k: int) -> list[Fragment]:
    return [fragment(slot, envs=2, seed=k, resumed=k > 1, ends=0.1) for slot in range(2)]


def trained(loop: Any, first: int, last: int) -> dict[str, np.ndarray]:
    for k in range(first, last + 1):
        loop.begin_round(k, last)
        loop.weights()
        loop.update(round_of(k), k)
    return dict(loop.weights()[DEFAULT_POLICY].tensors)


def test_a_batch_has_all_steps_of_all_actors_and_what_followed_them() -> None:
    fragments = round_of(1)
    batch = CollectedBatch.of(fragments)
    assert (batch.actors, batch.available) == (2, None)
    for slot, tensors in enumerate(map(plain, fragments)):
        own = slice(2 * slot, 2 * slot + 2)
        for name in ("observations", "actions", "log_probs", "distribution", "rewards", "terminated"):
            np.testing.assert_array_equal(getattr(batch, name)[:, own], tensors[name])
        final = iter(tensors["final_observations"])
        cut = 0
        for t, e in np.ndindex(tensors["rewards"].shape):
            if tensors["truncated"][t, e] and not tensors["terminated"][t, e]:
                expected, cut = next(final), cut + 1
            elif t + 1 < len(tensors["rewards"]):
                expected = tensors["observations"][t + 1, e]
            else:
                expected = tensors["last_observations"][e]
            np.testing.assert_array_equal(batch.next_observations[t, 2 * slot + e], expected)
        assert cut, "nothing to see"


def test_a_loop_begins_as_ppo_does_and_learns_by_what_it_does() -> None:
    loop = make()
    assert isinstance(loop, OnPolicyLearner)
    ppo = learner_of(job(network__hiddenSizes="[16, 16]").spec, HOPPER)
    begun = loop.weights()[DEFAULT_POLICY]
    module = module_of(ppo).policy
    for name, value in module.named_parameters():
        np.testing.assert_array_equal(begun.tensors[f"policy.{name}"], value.detach().numpy())
    loop.begin_round(1, 2)
    result = loop.update(round_of(1), 1)[DEFAULT_POLICY]
    batch = CollectedBatch.of(round_of(1))
    parameters = module(batch.observations.flatten(0, 1))
    log_probs = ppo.network("agent").family.log_prob(parameters, batch.actions.flatten(0, 1))
    loss = -(log_probs * batch.rewards.flatten()).mean()
    loss.backward()
    assert result.stats == {"policy_loss": pytest.approx(loss.item()), "learning_rate": 0.01}
    for name, value in module.named_parameters():
        assert value.grad is not None
        expected = value.detach() - 0.01 * value.grad
        after = loop.weights()[DEFAULT_POLICY].tensors[f"policy.{name}"]
        np.testing.assert_allclose(after, expected, rtol=1e-5, atol=1e-7)
    loop.close()


def test_it_goes_on_from_its_state_to_the_bit() -> None:
    whole, first, second = make(), make(), make()
    expected = trained(whole, 1, 4)
    trained(first, 1, 2)
    second.load_state_dict(first.state_dict())
    found = trained(second, 3, 4)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)
    for loop in (whole, first, second):
        loop.close()


def test_a_loop_that_returns_ends_the_run_with_what_it_has_learned() -> None:
    endless, ending = make(), make({"rounds": 2})
    expected = trained(endless, 1, 2)
    found = trained(ending, 1, 2)
    assert (endless.ended, ending.ended) == (False, True)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)
    (thread,) = [t for t in threading.enumerate() if t.name == "loop" and t is endless._thread]
    endless.close()
    thread.join(10)
    assert not thread.is_alive(), "a run that ends takes its loop with it"


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("nothing", "the loop returned before it called collect; call it in each round"),
        (
            "module",
            "the loop raised Unfit: forward raised RuntimeError: ",
        ),
        ("raises", "the loop raised RuntimeError: no gradient today ({FILE}:{no gradient} in loop)"),
        ("name", "the loop raised ValueError: report got lost, which is no column; the names are "),
        ("number", "the loop raised ValueError: report got kl=nan in round 1, which is no finite number"),
        ("state", "the loop raised TypeError: checkpoint got what it cannot hold: "),
    ],
)
def test_a_mistake_in_a_loop_ends_the_run_with_its_line(wrong: str, told: str) -> None:
    loop = make({"wrong": wrong})
    with pytest.raises(TrainingFailed) as failed, as_training_failure():
        trained(loop, 1, 1)
    lines = Path(FILE).read_text().splitlines()
    line = next(number for number, text in enumerate(lines, 1) if "no gradient today" in text)
    told = told.replace("{FILE}", FILE).replace("{no gradient}", str(line))
    assert f"spec.algorithm.entryPoint: own_algorithms:loop: {told}" in str(failed.value)
    assert wrong == "nothing" or f"({FILE}:" in str(failed.value)
    assert (failed.value.own, failed.value.resumable) == ("algorithm", False)


def test_a_loop_that_keeps_nothing_cannot_go_on() -> None:
    first, second = make({"wrong": "forgets"}), make({"wrong": "forgets"})
    trained(first, 1, 1)
    with pytest.raises(TrainingFailed, match=r"call run.checkpoint\(state\)"), as_training_failure():
        second.load_state_dict(first.state_dict())
    with pytest.raises(ValueError, match="cannot begin with another run's policies"):
        second.adopt(first.state_dict())
    first.close()


@pytest.mark.parametrize(
    ("overrides", "path", "told"),
    [
        ({"algorithm__entryPoint": "own_algorithms:round_of"}, "entryPoint", "has no attribute 'round_of'"),
        ({"algorithm__entryPoint": "math:pi"}, "entryPoint", "names 3.14159"),
        ({"algorithm__entryPoint": "gc:collect"}, "entryPoint", "or a function of the two parameters"),
        ({"algorithm__settings": "{ratte: 1}"}, "settings", "unexpected keyword argument 'ratte'"),
        ({"algorithm__name": "impact"}, "name", "is not for a training loop of your own, which gets whole"),
        (OWN_NETWORK, "network.entryPoint", "which gives collect a module; remove it"),
        ({"network__recurrent": "{hiddenSize: 8}"}, "network.recurrent", "is not for a training loop of"),
    ],
)
def test_what_is_no_loop_is_refused(overrides: dict[str, Any], path: str, told: str) -> None:
    with pytest.raises(JobInvalid) as refused:
        make(**overrides)
    (error,) = refused.value.errors
    assert error.path.endswith(path)
    assert told in error.message


def test_a_scaler_that_measures_an_objective_is_refused() -> None:
    spec = job(algorithm__entryPoint="own_algorithms:loop").spec
    with pytest.raises(JobInvalid, match=r'scaler: "nitro"; needs the objective\'s curvature, which is not'):
        registry.load_own(spec, frozenset({"curvature"}))
    registry.load_own(spec, frozenset())


def test_what_a_loop_may_report_are_the_columns_of_updates() -> None:
    assert set(METRICS) == set(OF_UPDATES)
