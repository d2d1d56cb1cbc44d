"""PPO solves small environments through the actors' own rollout, in this process."""

from typing import Any

import pytest

import actor_support
from actor_support import environment
from learner_support import job, train
from nitro_actor.config import EnvironmentConfig
from nitro_actor.make_env import make_env

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]

LEARNING_RATE = "algorithm__hyperparameters__learningRate"
MINIBATCH_SIZE = "algorithm__hyperparameters__minibatchSize"
COMMON = {"network__hiddenSizes": [32], "environment__rolloutLength": 256, "environment__envsPerActor": 4}


def solve(entry_point: str, preset: str, rounds: int, **settings: Any) -> float:
    """Mean return of 20 evaluation episodes after training with 2 actors."""
    environments = [environment("test", 4, f"learner_environments:{entry_point}") for _ in range(2)]
    spec = job(preset, stop__rounds=rounds, **(COMMON | settings))
    _, policy = train(spec, environments, rounds)
    result = actor_support.evaluate(environments[0], policy, seed=1, episodes=20, max_steps=100)
    return float(result["episode_returns"].mean())


@pytest.mark.parametrize(
    ("preset", "settings"),
    [
        ("tuned", {LEARNING_RATE: 3e-3}),
        ("paper", {LEARNING_RATE: 5e-3}),
    ],
)
def test_two_states(preset: str, settings: dict[str, Any]) -> None:
    assert solve("TwoState", preset, rounds=15, **settings) == 19


@pytest.mark.parametrize(
    ("preset", "settings"),
    [
        ("tuned", {LEARNING_RATE: 3e-3, MINIBATCH_SIZE: 64}),
        ("paper", {LEARNING_RATE: 3e-3}),
    ],
)
def test_identity(preset: str, settings: dict[str, Any]) -> None:
    """A random policy gets about -11, one that answers 0 gets -6.7."""
    assert solve("Identity", preset, rounds=30, **settings) > -0.3


@pytest.mark.parametrize("entry_point", ["Dials", "Switches"])
def test_several_whole_numbers(entry_point: str) -> None:
    """The best return is 20, a random policy's 7.2 or 10."""
    settings = {LEARNING_RATE: 5e-3, MINIBATCH_SIZE: 64}
    assert solve(entry_point, "tuned", rounds=25, **settings) > 19.5


def test_pictures_and_their_movement() -> None:
    """By convolutions on stacks of two frames. One frame alone tells the side in two thirds of the steps."""
    config = EnvironmentConfig("catch", 4, {}, "learner_environments:Catch", frame_stack=2)
    environments = [make_env(config) for _ in range(2)]
    layers = [{"channels": 8, "kernel": 4, "stride": 2}]
    settings: dict[str, Any] = {"network__convLayers": layers, LEARNING_RATE: 5e-3, "stop__rounds": 15}
    _, policy = train(job("tuned", **(COMMON | settings)), environments, 15)
    result = actor_support.evaluate(environments[0], policy, seed=1, episodes=40, max_steps=100)
    assert float(result["episode_returns"].mean()) > 16.5
