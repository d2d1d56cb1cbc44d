"""Environments whose steps tell numbers in their info."""

from typing import Any

import numpy as np

from actor_support import Walk
from parallel_environments import Agents, Arena


class Told(Walk):
    """A walk that tells its position in each step, and at an episode's end whether it went right.

    `position` is an array of one number, and `success` a bool. `odd` is what the environment was made with,
    in every third step.
    """

    def __init__(self, odd: Any = None) -> None:
        super().__init__()
        self._odd = odd
        self._count = 0

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        seen, reward, terminated, truncated, _ = super().step(action)
        info: dict[str, Any] = {"position": seen[:1], "text": "is not asked for"}
        self._count += 1
        if terminated or truncated:
            info["success"] = bool(seen[0] > 0)
        if self._count % 3 == 0:
            info["odd"] = float(self._odd) if self._odd in ("nan", "inf") else self._odd
        return seen, reward, terminated, truncated, info


class NoInfo(Walk):
    """A walk whose steps return no dictionary."""

    def step(self, action: Any) -> Any:
        return (*super().step(action)[:4], None)


class ToldArena(Arena):
    """An arena whose hunters tell their number, each of those that acted."""

    def step(self, actions: Agents) -> tuple[Agents, Agents, Agents, Agents, Agents]:
        *first, infos = super().step(actions)
        told = {agent: {"number": 10 * self.hunters.index(agent)} for agent in infos if agent in self.hunters}
        return (*first, told)  # type: ignore[return-value]
