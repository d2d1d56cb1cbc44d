"""IPPO and MAPPO solve small games of two agents whose best return is known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from agents_support import agent_class, team
from nitro_actor.protocol.weights import PolicyWeights
from nitro_learner.algorithms.ppo.learning import Ppo
from nitro_learner.data.batch import Fragment

pytestmark = pytest.mark.slow

ENVS = 256
Step = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""From the states [E] and the actions of both steps [2, E, 2]: the observations of the second step, which do
not depend on its actions, f32 [E, 2, D], and the episode's rewards f32 [E, 2]."""


def logits(weights: PolicyWeights, observations: np.ndarray) -> np.ndarray:
    """Of an actor's policy, [E, N]."""
    t = weights.tensors
    x = (observations - t["observation.mean"]) / np.sqrt(t["observation.var"] + 1e-8)
    x = np.clip(x, -10, 10)
    for layer in range(2):
        x = np.tanh(x @ t[f"policy.layers.{layer}.weight"].T + t[f"policy.layers.{layer}.bias"])
    result: np.ndarray = x @ t["policy.head.weight"].T + t["policy.head.bias"]
    return result


def solved(algorithm: str, begin: np.ndarray, step: Step, rounds: int = 60) -> float:
    """Train on a game of two steps, and return the mean team return of a last round of the most probable
    actions.

    Args:
        algorithm: its name.
        begin: the first step's observations by state, f32 [states, 2, D].
        step: the game.
        rounds: to train.
    """
    one = agent_class(agents=2, size=begin.shape[-1], actions=2)
    settings = {"learningRate": 5e-3, "minibatchSize": 128, "normaliseObservations": True}
    learner = Ppo(team(one, algorithm=algorithm, settings=settings, reward="team", rounds=rounds))
    rng = np.random.default_rng(0)
    for round in range(1, rounds + 2):
        states = rng.integers(len(begin), size=ENVS)
        seen, acted = [begin[states]], np.zeros((2, ENVS, 2), np.int64)
        distributions = []
        for t in range(2):
            if t == 1:
                seen.append(step(states, acted)[0])
            weights = learner.weights()
            each = [logits(weights[f"agent_{i}"], seen[t][:, i]) for i in range(2)]
            distributions.append(np.stack(each, axis=1).astype(np.float32))
            noise = rng.gumbel(size=distributions[t].shape) if round <= rounds else 0.0
            acted[t] = (distributions[t] + noise).argmax(-1)
        rewards = step(states, acted)[1]
        if round > rounds:
            break
        logs = np.stack(distributions) - np.log(np.exp(np.stack(distributions)).sum(-1, keepdims=True))
        ends = np.array([[False], [True]]).repeat(ENVS, axis=1)
        fields = {
            "observations": np.stack(seen),
            "last_observations": begin[states],
            "final_observations": begin[:0],
            "actions": acted,
            "log_probs": np.take_along_axis(logs, acted[..., None], -1)[..., 0],
            "distribution": np.stack(distributions),
            "rewards": np.stack([np.zeros_like(rewards), rewards]),
        }
        tensors = {"terminated": ends, "truncated": np.zeros_like(ends)}
        learner.update([Fragment({"slot": 0, "resumed": False}, tensors, {"agent": fields})], round)
    return float(rewards.sum(1).mean())


@pytest.mark.parametrize("algorithm", ["ippo", "mappo"])
def test_a_signal_is_learned_for_the_reward_that_another_agent_gets(algorithm: str) -> None:
    """The first agent sees a coin; the second sees what the first did, and gets 1 where it names the coin.
    Without a signal it is right half of the time."""
    begin = np.zeros((2, 2, 2), np.float32)
    begin[:, 0, 0] = [-1, 1]

    def step(coins: np.ndarray, acted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        seen = np.ones((ENVS, 2, 2), np.float32)
        seen[:, 0, 0], seen[:, 1, 0] = 0, 2 * acted[0, :, 0] - 1
        rewards = np.zeros((ENVS, 2), np.float32)
        rewards[:, 1] = acted[1, :, 1] == coins
        return seen, rewards

    assert solved(algorithm, begin, step) == 1


@pytest.mark.parametrize("algorithm", ["ippo", "mappo"])
def test_the_two_step_game_ends_in_an_equilibrium(algorithm: str) -> None:
    """The first agent's first action chooses between a game that always pays 7 and one that pays 8 for two
    second actions, else 0 or 1 (Rashid et al. 2018, section 5). Random play is worth 4.75. Both 7 and 8 are
    equilibria: who learns on-policy leaves the first game only if the second was coordinated by then."""
    payoffs = np.array([[[7, 7], [7, 7]], [[0, 1], [1, 8]]], np.float32)
    begin = np.zeros((1, 2, 3), np.float32)
    begin[..., 0] = 1

    def step(states: np.ndarray, acted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # noqa: ARG001
        seen = np.zeros((ENVS, 2, 3), np.float32)
        seen[np.arange(ENVS), :, 1 + acted[0, :, 0]] = 1
        paid = payoffs[acted[0, :, 0], acted[1, :, 0], acted[1, :, 1]]
        return seen, np.stack([paid, paid], axis=1) / 2

    assert solved(algorithm, begin, step) >= 7
