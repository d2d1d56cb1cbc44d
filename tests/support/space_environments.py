"""Environments of one agent and of several with every space that training accepts."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from pettingzoo import ParallelEnv

_BOXES: dict[str, spaces.Space[Any]] = {
    "floats": Box(-1, 1, (2, 3), np.float32),
    "float": Box(-1, 1, (), np.float32),
    "one float": Box(-1, 1, (1,), np.float32),
    "doubles": Box(-np.inf, np.inf, (2,), np.float64),
    "double": Box(-1, 1, (), np.float64),
    "half": Box(-1, 1, (), np.float16),
    "pixels": Box(0, 255, (4, 5, 3), np.uint8),
    "pixel": Box(0, 255, (), np.uint8),
    "one pixel": Box(0, 255, (1, 1), np.uint8),
    "integers": Box(-9, 9, (3,), np.int64),
    "integer": Box(-9, 9, (), np.int64),
    "small integers": Box(0, 9, (2, 2), np.int8),
    "words": Box(0, 2**16 - 1, (1,), np.uint16),
    "long integers": Box(-(2**40), 2**20, (2,), np.int64),
    "any integer": Box(-np.inf, np.inf, (), np.int64),
    "bools": Box(0, 1, (3,), bool),  # type: ignore[arg-type]
    "bool": Box(0, 1, (), bool),  # type: ignore[arg-type]
}
_NUMBERS: dict[str, spaces.Space[Any]] = {
    "discrete": Discrete(3, start=-1),
    "one choice": Discrete(1),
    "dials": MultiDiscrete([[2, 3], [1, 2]], start=[[0, -1], [5, 0]]),
    "dial": MultiDiscrete(np.array(3)),
    "one dial": MultiDiscrete([1]),
    "bits": MultiBinary((2, 2)),
    "bit": MultiBinary(()),
    "one bit": MultiBinary(1),
}
OBSERVATIONS: dict[str, spaces.Space[Any]] = {
    **_BOXES,
    **_NUMBERS,
    "scalars": Dict({"a": Box(-1, 1, ()), "b": Box(0, 9, (), np.int16), "c": Box(0, 1, (), bool)}),  # type: ignore[arg-type]
    "a long part": Dict({"a": Box(0, 2**24 + 1, (), np.int32), "b": Discrete(3)}),
    "an empty part": Dict({"a": Box(0, 9, (0,), np.int64), "b": Box(-1, 1, (2,))}),
    "one scalar": Tuple((Box(-1, 1, ()),)),
    "nested": Dict({"x": Tuple((Discrete(2), MultiDiscrete([2, 2]))), "y": Dict({"z": MultiBinary(2)})}),
}
"""By name, as the entry points take it."""
ACTIONS: dict[str, spaces.Space[Any]] = {
    "floats": Box(-1, 1, (2, 2), np.float32),
    "float": Box(-1, 1, (), np.float32),
    "one float": Box(-2, 1, (1,), np.float32),
    "unbounded": Box(-np.inf, np.inf, (2,), np.float64),
    "double": Box(-1, 1, (), np.float64),
    "half": Box(-1, 1, (), np.float16),
    **_NUMBERS,
}
"""By name, likewise."""
LENGTH = 8
"""Steps of an episode."""


class Spaced(gymnasium.Env[Any, Any]):
    """Observations are random; a step pays 1. Episodes are truncated; resumable."""

    def __init__(self, observation: str, action: str) -> None:
        self.observation_space, self.action_space = OBSERVATIONS[observation], ACTIONS[action]
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._steps = 0
        return self._draw(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), f"{action!r} is not in {self.action_space}"
        self._steps += 1
        return self._draw(), 1.0, False, self._steps >= LENGTH, {}

    def get_state(self) -> dict[str, np.ndarray]:
        return {"steps": np.array(self._steps)}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        self._steps = int(state["steps"])

    def _draw(self) -> Any:
        return drawn(self.observation_space, self.np_random)


class SpacedTeam(ParallelEnv[str, Any, Any]):
    """Two agents, as in `Spaced`."""

    metadata: dict[str, Any] = {"name": "spaced"}  # noqa: RUF012 - as PettingZoo has it

    def __init__(self, observation: str, action: str) -> None:
        self.possible_agents = ["a_0", "a_1"]
        self.agents: list[str] = []
        self.np_random = np.random.default_rng(0)
        self._spaces = OBSERVATIONS[observation], ACTIONS[action]
        self._steps = 0

    def observation_space(self, agent: str) -> spaces.Space[Any]:  # noqa: ARG002
        return self._spaces[0]

    def action_space(self, agent: str) -> spaces.Space[Any]:  # noqa: ARG002
        return self._spaces[1]

    def reset(
        self,
        seed: int | None = None,
        options: Any = None,  # noqa: ARG002
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        if seed is not None:
            self.np_random = np.random.default_rng(seed)
        self._steps, self.agents = 0, list(self.possible_agents)
        return self._draw(), {}

    def step(self, actions: dict[str, Any]) -> tuple[dict[str, Any], ...]:
        for action in actions.values():
            assert self._spaces[1].contains(action), f"{action!r} is not in {self._spaces[1]}"
        self._steps += 1
        cut = dict.fromkeys(self.agents, self._steps >= LENGTH)
        rewards, died = dict.fromkeys(self.agents, 1.0), dict.fromkeys(self.agents, False)
        if self._steps >= LENGTH:
            self.agents = []
        return self._draw(), rewards, died, cut, {}

    def get_state(self) -> dict[str, np.ndarray]:
        return {"steps": np.array(self._steps)}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        self._steps = int(state["steps"])

    def _draw(self) -> dict[str, Any]:
        return {agent: drawn(self._spaces[0], self.np_random) for agent in self.possible_agents}


def drawn(space: spaces.Space[Any], generator: np.random.Generator) -> Any:
    """A value of a space."""
    space.seed(int(generator.integers(2**31)))
    return space.sample()
