"""Environments that return what their interface does not have, each in one way."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv


class Given(gymnasium.Env[Any, Any]):
    """Returns what it is given, in steps and (if `at_reset`) in resets. An episode has ten steps."""

    action_space = spaces.Discrete(2)

    def __init__(
        self, space: Any = None, fine: Any = None, *, at_reset: bool = False, **returned: Any
    ) -> None:
        self.observation_space = space or spaces.Box(-1, 1, (2,), np.float32)
        self._fine = np.zeros(2, np.float32) if fine is None else fine
        self._returned = returned
        self._at_reset = at_reset

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:  # noqa: ARG002
        super().reset(seed=seed)
        self._steps = 0
        if self._at_reset:
            return self._returned.get("result", (self._returned.get("observation", self._fine), {}))
        return self._fine, {}

    def step(self, action: Any) -> Any:  # noqa: ARG002
        self._steps += 1
        whole = {
            "observation": self._fine,
            "reward": 1.0,
            "terminated": False,
            "truncated": self._steps >= 10,
            "info": {},
        } | self._returned
        return whole["result"] if "result" in whole else tuple(whole.values())


class Duo(ParallelEnv[str, Any, Any]):
    """Two agents; `change` is applied to the five values that a step returns."""

    metadata: dict[str, Any] = {"name": "duo"}  # noqa: RUF012 - as PettingZoo has it

    def __init__(self, change: Callable[[list[Any]], Any] = tuple, reset: Any = None) -> None:
        self.possible_agents = ["a_0", "a_1"]
        self.agents: list[str] = []
        self._change, self._reset = change, reset

    def observation_space(self, agent: str) -> Any:  # noqa: ARG002
        return spaces.Box(-1, 1, (2,), np.float32)

    def action_space(self, agent: str) -> Any:  # noqa: ARG002
        return spaces.Discrete(2)

    def reset(self, seed: int | None = None, options: Any = None) -> Any:  # noqa: ARG002
        self.agents = list(self.possible_agents)
        return (self._all(np.zeros(2, np.float32)), self._all({})) if self._reset is None else self._reset

    def step(self, actions: Any) -> Any:  # noqa: ARG002
        seen = self._all(np.zeros(2, np.float32))
        return self._change([seen, self._all(1.0), self._all(False), self._all(False), self._all({})])

    def _all(self, value: Any) -> dict[str, Any]:
        return dict.fromkeys(self.possible_agents, value)


class Strict(Given):
    """Has NumPy raise, and sees what float32 cannot have."""

    def __init__(self, how: str) -> None:
        super().__init__(spaces.Box(-np.inf, np.inf, (2,), np.float64), np.array([1e-60, 0.0]))
        self._how = how
        if how == "constructor":
            np.seterr(all="raise")

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if self._how == "reset":
            np.seterr(all="raise")
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        if self._how == "step":
            np.seterr(all="raise")
        return super().step(action)


class StrictDuo(Duo):
    """The same of two agents."""

    def __init__(self) -> None:
        super().__init__()
        np.seterr(all="raise")

    def _all(self, value: Any) -> dict[str, Any]:
        return super()._all(value * 0 + 1e-60 if isinstance(value, np.ndarray) else value)
