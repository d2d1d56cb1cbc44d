"""Policies with a memory solve what none without can: the right action depends on the first observation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import actor_support
from actor_support import Game, environment
from agents_support import team
from learner_support import job, train
from nitro_actor.config import EnvironmentConfig
from nitro_actor.make_env import make_env
from nitro_actor.protocol.agents import agent_classes
from nitro_actor.protocol.weights import WeightsContainer
from nitro_api.spec.network import Recurrent
from nitro_learner.algorithms.ppo.learning import Ppo
from nitro_learner.data.batch import Fragment

pytestmark = pytest.mark.slow

SETTINGS: dict[str, Any] = {
    "network__hiddenSizes": [16],
    "environment__rolloutLength": 256,
    "environment__envsPerActor": 8,
    "algorithm__hyperparameters__learningRate": 5e-3,
    "algorithm__hyperparameters__minibatchSize": 128,
}


def played(rounds: int, **settings: Any) -> float:
    """Mean return of 200 evaluation episodes after training with 2 actors."""
    environments = [environment("cue", 8, "memory_environments:Cue") for _ in range(2)]
    _, policy = train(job("tuned", **(SETTINGS | settings)), environments, rounds)
    result = actor_support.evaluate(environments[0], policy, seed=1, episodes=200, max_steps=10)
    return float(result["episode_returns"].mean())


def test_a_memory_keeps_the_cue() -> None:
    assert played(25, network__recurrent__hiddenSize=16) == 1


def test_without_a_memory_there_is_only_chance() -> None:
    assert played(10) < 0.65


def test_agents_remember_their_own_cues() -> None:
    env = make_env(EnvironmentConfig("cues", 16, {}, "memory_environments:Cues"))
    (one,) = agent_classes(env.spec.to_json())
    settings = {"learningRate": 5e-3, "minibatchSize": 128}
    made = team(one, algorithm="ippo", hidden=(16,), settings=settings, agent_ids=True, group_batch="all")
    made.network.recurrent = Recurrent(hidden_size=16)
    learner, game = Ppo(made), Game(env)
    for round in range(1, 26):
        policies = game.policy(WeightsContainer("r", round, learner.weights(), dict(learner.agents)))
        found = game.rollout(
            policies, seed=round, steps=256, state={}, optional_tensors=("log_probs", "distribution")
        )
        own = {name.partition("/")[2]: array for name, array in found.items() if "/" in name}
        learner.update([Fragment({"slot": 0, "resumed": False}, found, {one.name: own})], round)
    policies = game.policy(WeightsContainer("r", 0, learner.weights(), dict(learner.agents)))
    returns = game.evaluate(policies, seed=1, episodes=100, max_steps=10)["episode_returns"]
    np.testing.assert_array_equal(returns, np.ones((100, 2)))
