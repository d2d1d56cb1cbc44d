"""Environments of several agents as gymnasium has them: tuples of spaces."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class Crew(gymnasium.Env[Any, Any]):
    """Two agents with lists of rewards. It ends after 4 steps."""

    observation_space = spaces.Tuple([spaces.Box(-9, 9, (2,), np.float32)] * 2)
    action_space = spaces.Tuple([spaces.Discrete(3)] * 2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._clock = 0
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self._clock += 1
        return self._seen(), [float(one) for one in action], self._clock == 4, False, {}

    def get_state(self) -> dict[str, np.ndarray]:
        return {"clock": np.array(self._clock)}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        self._clock = int(state["clock"])

    def _seen(self) -> tuple[np.ndarray, ...]:
        return tuple(np.array([self._clock, self.np_random.normal()], np.float32) for _ in range(2))


class CrewOfLists(Crew):
    """The same with ends in a list. That of agent_1 comes `later` steps after the other's."""

    def __init__(self, later: int = 0) -> None:
        self._later = later

    def step(self, action: Any) -> Any:
        seen, rewards, *_ = super().step(action)
        return seen, rewards, [self._clock >= 4, self._clock >= 4 + self._later], np.zeros(2, bool), {}


class CrewOfDictionaries(Crew):
    """The same with ends in a dictionary."""

    def step(self, action: Any) -> Any:
        seen, rewards, ended, *rest = super().step(action)
        return seen, rewards, {"agent_0": ended, "agent_1": ended}, *rest


def limited_crew() -> gymnasium.Env[Any, Any]:
    """The same with a time limit around it."""
    return gymnasium.wrappers.TimeLimit(Crew(), 3)
