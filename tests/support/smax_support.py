"""Rollouts of SMAX, for tests; needs JAX, and JaxMARL only where nothing is compiled yet."""

import hashlib
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from actor_support import Game
from nitro_actor.config import EnvironmentConfig
from nitro_actor.environment import Environment, EnvironmentSpec
from nitro_actor.make_env import make_env
from nitro_actor.protocol.request import OPTIONAL_TENSORS
from nitro_actor.protocol.weights import PolicyWeights, WeightsContainer

COPIES = 4


def make(map_name: str, count: int = COPIES, **settings: Any) -> Environment:
    """An actor's environment."""
    return make_env(EnvironmentConfig(id=f"smax/{map_name}", count=count, **settings))


def policy(spec: EnvironmentSpec, hidden: tuple[int, ...] = (16, 8)) -> WeightsContainer:
    """One policy of random parameters for all agents."""
    (one,) = spec.classes
    random, tensors = np.random.default_rng(3), {}
    widths = list(pairwise((one.observation["shape"][0], *hidden, one.action["n"])))
    names = [f"layers.{i}" for i in range(len(hidden))] + ["head"]
    for name, (inputs, outputs) in zip(names, widths, strict=True):
        tensors[f"policy.{name}.weight"] = random.normal(0, 0.3, (outputs, inputs)).astype(np.float32)
        tensors[f"policy.{name}.bias"] = np.zeros(outputs, np.float32)
    network = {"kind": "mlp", "hidden": list(hidden), "activation": "tanh", "head": "categorical"}
    weights = {"team": PolicyWeights(network, tensors, None)}
    return WeightsContainer("test-run", 1, weights, dict.fromkeys(spec.agents, "team"))


def rollout(
    environment: Environment, steps: int, *, hidden: tuple[int, ...] = (16, 8), **arguments: Any
) -> dict[str, np.ndarray]:
    """A rollout of that policy."""
    play = Game(environment)
    arguments = {"seed": 7, "state": {}, "optional_tensors": OPTIONAL_TENSORS, **arguments}
    return play.rollout(play.policy(policy(environment.spec, hidden)), steps=steps, **arguments)


def digest(tensors: Mapping[str, np.ndarray]) -> str:
    """Of all bits."""
    found = hashlib.sha256()
    for name in sorted(tensors):
        found.update(name.encode() + np.ascontiguousarray(tensors[name]).tobytes())
    return found.hexdigest()
