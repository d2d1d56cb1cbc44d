"""An environment whose steps take time and no CPU: rollouts last equally long on every machine, however busy.

`bench_idle.py` mounts this file into the actors' pods, so it imports nothing of ours.
"""

from __future__ import annotations

import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Sleeping(gymnasium.Env[np.ndarray, Any]):
    """A step sleeps and pays 1 for the action that the observation names. Ends after 10 steps; resumable.

    Args:
        seconds: that a step sleeps.
    """

    observation_space = spaces.Box(0, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._named = self._steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._steps = 0
        return self._draw(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        time.sleep(self._seconds)
        reward = float(int(action) == self._named)
        self._steps += 1
        return self._draw(), reward, False, self._steps >= 10, {}

    def get_state(self) -> dict[str, np.ndarray]:
        return {"named": np.array(self._named), "steps": np.array(self._steps)}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        self._named, self._steps = int(state["named"]), int(state["steps"])

    def _draw(self) -> np.ndarray:
        self._named = int(self.np_random.integers(2))
        return np.eye(2, dtype=np.float32)[self._named]
