"""Environments whose best policy is known, to be found within seconds."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class TwoState(gymnasium.Env[np.ndarray, Any]):
    """Two states; action 1 changes the state, and every step spent in the second pays 1.

    What an action is worth comes one step later, so advantages must look ahead. The best return
    is 19 of 20 steps; a random policy's is about 9.5. Episodes are truncated, never terminated.
    """

    observation_space = spaces.Box(0, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._state, self._steps = 0, 0
        return self._observation(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        reward = float(self._state)
        self._state ^= int(action)
        self._steps += 1
        return self._observation(), reward, False, self._steps >= 20, {}

    def _observation(self) -> np.ndarray:
        return np.eye(2, dtype=np.float32)[self._state]


class Identity(gymnasium.Env[np.ndarray, Any]):
    """The best action is the observation: a step pays -(action - observation)^2. Ends after 20 steps."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._steps = 0
        return self._draw(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        reward = -float((action[0] - self._target[0]) ** 2)
        self._steps += 1
        return self._draw(), reward, self._steps >= 20, False, {}

    def _draw(self) -> np.ndarray:
        self._target = self.np_random.uniform(-1, 1, 1).astype(np.float32)
        return self._target.copy()
