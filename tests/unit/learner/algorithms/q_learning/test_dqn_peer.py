"""Gradient steps of DQN, neither double nor dueling, equal those of Stable-Baselines3."""

import json
from typing import Any

import numpy as np
import pytest
import torch

from learner_support import job, learner_of, lone_fragment
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_learner.algorithms.replay.buffer import ReplayBuffer
from sb3_dqn_reference import (
    ACTIONS,
    BATCH,
    GAMMA,
    HIDDEN,
    LENGTH,
    NORM,
    OBSERVATION,
    RATE,
    REFERENCE,
    RETURNS,
    STEPS,
    places,
    start,
    transitions,
)

SETTINGS = {
    "learningRate": RATE,
    "gamma": GAMMA,
    "maxGradNorm": NORM,
    "batchSize": BATCH,
    "replayRatio": STEPS * BATCH / LENGTH,
    "priorityAlpha": 0,
    "doubleQ": False,
    "dueling": False,
    "targetUpdateSteps": 9999,
}


@pytest.mark.parametrize("returns", RETURNS)
def test_gradient_steps_are_those_of_stable_baselines3(returns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {f"algorithm__hyperparameters__{name}": value for name, value in SETTINGS.items()}
    settings |= {"algorithm__hyperparameters__nStep": returns, "algorithm__name": "dqn"}
    settings |= {"network__hiddenSizes": HIDDEN, "network__activation": "relu"}
    seen = {"shape": [OBSERVATION], "dtype": "float32"}
    place = {"observation": seen, "action": {"kind": "discrete", "n": ACTIONS}}
    learner: Any = learner_of(job("paper", **settings).spec, DescribedEnvironment.from_json(place))
    stack = learner._learned.stacks["agent"]
    names = [f"{name}.{part}" for name in ("layers.0", "layers.1", "head") for part in ("weight", "bias")]
    for rows, arrays in zip((stack.parameters, stack.targets), start(), strict=True):
        for name, array in zip(names, arrays, strict=True):
            stack.network.named(rows)[f"policy.{name}"][0].copy_(torch.from_numpy(array))

    drawn = iter(places())

    def draw(*_: Any) -> tuple[np.ndarray, np.ndarray]:
        own = next(drawn)[None]
        return own, np.full(own.shape, 1 / LENGTH)

    monkeypatch.setattr(ReplayBuffer, "draw", draw)
    given = transitions()
    following = given.pop("following")
    ended = given["terminated"] | given["truncated"]
    assert not ended[-1], "the rollout ends within an episode"
    tensors = {name: array[:, None] for name, array in given.items()}
    tensors |= {
        "last_observations": following[-1:],
        "final_observations": following[given["truncated"]],
        "episode_returns": np.zeros(ended.sum()),
        "episode_lengths": np.zeros(ended.sum(), np.int64),
    }
    learner.begin_round(1, 9)
    learner.take([lone_fragment({"slot": 0, "resumed": False}, tensors)])
    assert next(drawn, None) is None
    found = np.concatenate(
        [stack.network.named(stack.parameters)[f"policy.{name}"].numpy().ravel() for name in names]
    )
    expected = np.array(json.loads(REFERENCE.read_text())[str(returns)])
    np.testing.assert_allclose(found, expected, atol=1e-5, rtol=0)
    moved = np.concatenate([array.ravel() for array in start()[0]]) - expected
    assert abs(moved).max() > 1e-3
