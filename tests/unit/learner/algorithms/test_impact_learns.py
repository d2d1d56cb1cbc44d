"""IMPACT solves small environments from fragments of which every other one is a version late."""

from typing import Any

import pytest

import actor_support
from actor_support import environment
from learner_support import job, train_off_policy

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]

HYPER = "algorithm__hyperparameters__"
COMMON = {
    "algorithm__name": "impact",
    "network__hiddenSizes": [32],
    "environment__rolloutLength": 256,
    "environment__envsPerActor": 4,
}


SCALED = {"normaliseRewards": True}


def solve(entry_point: str, preset: str, rounds: int, replays: int, **hyperparameters: Any) -> float:
    """Mean return of 20 evaluation episodes after training with 2 actors."""
    environments = [environment("test", 4, f"learner_environments:{entry_point}") for _ in range(2)]
    settings = {HYPER + name: value for name, value in hyperparameters.items()}
    spec = job(preset, stop__rounds=rounds, **COMMON, **settings)
    policy = train_off_policy(spec, environments, rounds, replays=replays)
    result = actor_support.evaluate(environments[0], policy, seed=1, episodes=20, max_steps=100)
    return float(result["episode_returns"].mean())


@pytest.mark.parametrize(
    ("preset", "hyperparameters"),
    [
        ("tuned", {"learningRate": 3e-3, "batchSize": 512}),
        ("paper", {"learningRate": 5e-3, "batchSize": 512, "targetUpdateFrequency": 0.5}),
        ("artifact", {"learningRate": 5e-3} | SCALED),
    ],
)
def test_two_states(preset: str, hyperparameters: dict[str, Any]) -> None:
    """Discrete. The best return is 19, a random policy's 9.5."""
    assert solve("TwoState", preset, rounds=15, replays=3, **hyperparameters) == 19


@pytest.mark.parametrize(
    ("preset", "replays", "hyperparameters"),
    [
        ("tuned", 2, {"learningRate": 3e-3, "batchSize": 512}),
        ("paper", 8, {"learningRate": 1e-2, "batchSize": 512, "targetUpdateFrequency": 0.02} | SCALED),
    ],
)
def test_identity(preset: str, replays: int, hyperparameters: dict[str, Any]) -> None:
    """Continuous. A random policy gets about -11, one that answers 0 gets -6.7."""
    assert solve("Identity", preset, rounds=30, replays=replays, **hyperparameters) > -0.5


@pytest.mark.parametrize("entry_point", ["Dials", "Switches"])
def test_several_whole_numbers(entry_point: str) -> None:
    """The best return is 20, a random policy's 7.2 or 10."""
    settings = {"learningRate": 5e-3, "batchSize": 512}
    assert solve(entry_point, "tuned", rounds=40, replays=6, **settings) > 19.5


def test_cartpole() -> None:
    """The best return is 500, a random policy's 22."""
    environments = [environment("CartPole-v1", 4) for _ in range(2)]
    changes = {"environment__id": "CartPole-v1", HYPER + "batchSize": 512, HYPER + "learningRate": 2e-3}
    spec = job("tuned", stop__rounds=25, **COMMON | changes)
    policy = train_off_policy(spec, environments, 25, replays=4)
    result = actor_support.evaluate(environments[0], policy, seed=1, episodes=10, max_steps=500)
    assert float(result["episode_returns"].mean()) > 300
