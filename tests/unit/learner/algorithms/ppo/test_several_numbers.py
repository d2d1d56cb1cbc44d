"""Agents with MultiDiscrete and MultiBinary actions learn by IPPO and MAPPO, through real messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from actor_support import Game
from agents_jobs import job
from nitro_actor.environment import Environment
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.protocol.fragment import FragmentContainer
from nitro_actor.protocol.weights import WeightsContainer
from nitro_api import load_job, resolve
from nitro_api.spec.scaling import GivenScaling
from nitro_learner.algorithms import registry
from nitro_learner.algorithms.policy_set import PolicySet
from nitro_learner.api.policy import TrainedPolicy
from nitro_learner.boosting.detector import Detector
from nitro_learner.data.batch import Fragment
from nitro_learner.sampling import fragments
from nitro_learner.sampling.fragments import Expectation, FragmentRefused, SlotRequest
from nitro_learner.training.sharing.similarity import pairs
from parallel_environments import several

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]

ENVS, STEPS = 8, 320


def learner(name: str, environment: Environment) -> PolicySet:
    entry = {"entryPoint": "parallel_environments:Panel", "rolloutLength": STEPS, "envsPerActor": ENVS}
    hyper = {"learningRate": 1e-2, "minibatchSize": 128}
    source = job("panel", name, environment=entry, algorithm={"hyperparameters": hyper})
    source["spec"]["network"] = {"hiddenSizes": [16]}
    return registry.make_policies(
        resolve(load_job(source)).spec, DescribedEnvironment.from_json(environment.spec.to_json())
    )


def sampled(environment: Environment, container: WeightsContainer, seed: int, **changes: Any) -> Fragment:
    """A fragment as the learner reads it from an actor's message."""
    play, wanted = Game(environment), frozenset(("log_probs", "distribution", "global_state"))
    tensors = play.rollout(play.policy(container), seed=seed, steps=STEPS, state={}, optional_tensors=wanted)
    message = FragmentContainer("rollout", "run", 1, 0, 0, 1, seed, STEPS, ENVS, False, tensors | changes)
    expected = Expectation(
        "rollout",
        "run",
        1,
        1,
        DescribedEnvironment.from_json(environment.spec.to_json()),
        STEPS,
        ENVS,
        wanted,
        slots={0: SlotRequest(seed)},
    )
    return fragments.read(message.encode(), expected)


@pytest.mark.parametrize(("kind", "name"), [("MultiDiscrete", "mappo"), ("MultiBinary", "ippo")])
def test_the_best_returns_are_found(kind: str, name: str) -> None:
    """5 for each of two agents; random actions get 25/12, or 2.5 of bits."""
    environment = several("panel", ENVS, "parallel_environments:Panel", kind=kind)
    policies, described = (
        learner(name, environment),
        DescribedEnvironment.from_json(environment.spec.to_json()),
    )
    for round in range(1, 26):
        container = WeightsContainer("run", 1, policies.weights(), policies.agents)
        results = policies.update([sampled(environment, container, round)], round)
    play, last = Game(environment), WeightsContainer("run", 1, policies.weights(), policies.agents)
    returns = play.evaluate(play.policy(last), seed=1, episodes=40, max_steps=10)["episode_returns"]
    assert returns.mean() > 4.8
    for result in results.values():
        assert Detector(GivenScaling(), 0, 64).measure(result.surrogate, 25).ratio is not None

    policy = TrainedPolicy(policies.played(described), 25, seed=0)
    rows = {agent: environment.frames["a"][:, i] for i, agent in enumerate(policy.agents)}
    for deterministic in (True, False):
        for actions in policy.act(rows, deterministic=deterministic).values():
            space = environment.raw().action_space("a_0")
            assert all(space.contains(action) for action in actions)
    only, forced = ([0, 0, 1, 0, 1], [1, 8]) if kind == "MultiDiscrete" else ([0, 1] * 5, [1] * 5)
    assert (policy.act(rows, available={"a_0": only})["a_0"] == forced).all()
    with pytest.raises(
        ValueError, match="available: a_0 needs an action that is allowed in each row, of each of"
    ):
        policy.act(rows, available={"a_0": [*only[:-2], 0, 0]})


@pytest.mark.parametrize(("kind", "numbers"), [("MultiDiscrete", 2), ("MultiBinary", 5)])
def test_masks_leave_each_number_its_allowed_values(kind: str, numbers: int) -> None:
    """The environment allows all numbers but the first one their right values alone."""
    environment = several("panel", ENVS, "parallel_environments:Panel", kind=kind, masked=True)
    assert environment.spec.classes[0].action["masked"]
    policies = learner("ippo", environment)
    before = WeightsContainer("run", 1, policies.weights(), policies.agents)
    fragment = sampled(environment, before, 1)
    rewards = fragment.by_class["a"]["rewards"]
    np.testing.assert_allclose(rewards.min(), 1 - 1 / numbers)
    assert rewards.max() == 1
    for result in policies.update([fragment], 1).values():
        assert Detector(GivenScaling(), 0, 64).measure(result.surrogate, 1).ratio is not None
        assert 0 < result.stats["entropy"] < np.log(3) + 1e-6, "only the first number is left to chance"
    after = WeightsContainer("run", 1, policies.weights(), policies.agents)
    later = sampled(environment, after, 1)
    assert later.by_class["a"]["rewards"].min() >= 1 - 1 / numbers - 1e-6


def test_actions_outside_the_space_are_refused_and_those_inside_are_compared_one_hot() -> None:
    environment = several("panel", ENVS, "parallel_environments:Panel")
    policies = learner("ippo", environment)
    container = WeightsContainer("run", 1, policies.weights(), policies.agents)
    fragment = sampled(environment, container, 1)
    actions = fragment.by_class["a"]["actions"]
    assert (actions.shape, actions.max((0, 1, 2)).tolist()) == ((STEPS // ENVS, ENVS, 2, 2), [2, 1])
    for index, value in ((0, 3), (1, 2), (1, -1)):
        wrong = actions.copy()
        wrong[3, 2, 1, index] = value
        with pytest.raises(FragmentRefused, match=r"a/actions: an action outside 0\.\.\[2, 1\]"):
            sampled(environment, container, 1, **{"a/actions": wrong})

    (one,) = environment.spec.classes
    rows = {"observations": np.zeros((2, 5), np.float32), "actions": np.array([[2, 0], [1, 1]])}
    features = pairs(rows, one, np.random.default_rng(0))
    assert features[:, 5:].tolist() == [[0, 0, 1, 1, 0], [0, 1, 0, 0, 1]]
