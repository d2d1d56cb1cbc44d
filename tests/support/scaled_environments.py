"""Environments whose actions have bounds far from -1 and 1. The reward says how far an action is from the
best one, so it shows the environment's own numbers."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import RescaleAction
from pettingzoo import ParallelEnv

LOW, HIGH, BEST = -500.0, 1500.0, 900.0


class Wide(gymnasium.Env[np.ndarray, np.ndarray]):
    """Ten steps; the best action is 900 in a range from -500 to 1500.

    Args:
        low, high: other bounds.
        size: numbers of an action.
        dtype: of an action.
    """

    def __init__(self, low: float = LOW, high: float = HIGH, size: int = 1, dtype: str = "float32") -> None:
        self.observation_space = spaces.Box(-1, 1, (2,), np.float32)
        self.action_space = spaces.Box(low, high, (size,), np.dtype(dtype).type)
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self.steps = 0
        return self._seen(), {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        self.steps += 1
        return self._seen(), -abs(float(action[0]) - BEST) / BEST, False, self.steps >= 10, {}

    def _seen(self) -> np.ndarray:
        return np.array([0.1 * self.steps, 0.5], np.float32)


def rescaled(**kwargs: Any) -> gymnasium.Env[Any, Any]:
    """Wide in gymnasium's own wrapper."""
    return RescaleAction(Wide(**kwargs), np.float32(-1), np.float32(1))


class WideTeam(ParallelEnv[str, Any, Any]):
    """A driver whose actions are as those of Wide, and two helpers with two actions each, for ten steps."""

    metadata: dict[str, Any] = {"name": "wide-team"}  # noqa: RUF012 - as PettingZoo has it
    possible_agents = ["driver_0", "helper_0", "helper_1"]  # noqa: RUF012

    def __init__(self) -> None:
        self.agents: list[str] = []
        self.steps = 0

    def observation_space(self, agent: str) -> spaces.Space[Any]:  # noqa: ARG002
        return spaces.Box(-1, 1, (2,), np.float32)

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return spaces.Box(LOW, HIGH, (1,), np.float32) if agent == "driver_0" else spaces.Discrete(2)

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:  # noqa: ARG002
        self.agents, self.steps = list(self.possible_agents), 0
        return self._seen(), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, Any]:
        assert self.action_space("driver_0").contains(actions["driver_0"]), actions
        self.steps += 1
        reward = -abs(float(actions["driver_0"][0]) - BEST) / BEST
        acted, over = list(self.agents), self.steps >= 10
        self.agents = [] if over else acted
        no = dict.fromkeys(acted, False)
        return self._seen(), dict.fromkeys(acted, reward), no, dict.fromkeys(acted, over), {}

    def _seen(self) -> dict[str, np.ndarray]:
        return {agent: np.array([0.1 * self.steps, 0.5], np.float32) for agent in self.possible_agents}
