"""Environments that nobody can play without memory, and whose best return is known."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

CUED, STEPS = 0, 4
"""The step that shows the cue, and the steps of an episode."""


class Cue(gymnasium.Env[np.ndarray, Any]):
    """The first observation is the cue, -1 or 1; the others are 0. The last action pays 1 if it is the cue's,
    and nothing else pays.

    The best return is 1. What does not remember the cue gets 0.5 on average, whatever it does.
    """

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._step, self._cue = 0, int(self.np_random.integers(2))
        return self._seen(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self._step += 1
        over = self._step == STEPS
        return self._seen(), float(over and action == self._cue), over, False, {}

    def get_state(self) -> dict[str, np.ndarray]:
        return {"at": np.array([self._step, self._cue])}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        self._step, self._cue = (int(n) for n in state["at"])

    def _seen(self) -> np.ndarray:
        shown = 2 * self._cue - 1 if self._step == CUED else 0
        return np.array([shown, self._step / STEPS], np.float32)


class Cues(ParallelEnv[str, Any, Any]):
    """`Cue` for two agents, each with a cue of its own. The best return of each is 1."""

    metadata: dict[str, Any] = {"name": "cues"}  # noqa: RUF012 - as PettingZoo has it
    possible_agents = ("a_0", "a_1")

    def observation_space(self, agent: str) -> spaces.Space[Any]:  # noqa: ARG002
        return spaces.Box(-1, 1, (2,), np.float32)

    def action_space(self, agent: str) -> spaces.Space[Any]:  # noqa: ARG002
        return spaces.Discrete(2)

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[dict[str, Any], dict[str, Any]]:  # noqa: ARG002
        if seed is not None:
            self._random = np.random.default_rng(seed)
        self.agents = list(self.possible_agents)
        self._step, self._cues = 0, self._random.integers(2, size=2)
        return self._seen(), {agent: {} for agent in self.agents}

    def step(self, actions: dict[str, Any]) -> tuple[dict[str, Any], ...]:
        self._step += 1
        over, acted = self._step == STEPS, self.agents
        rewards = {agent: float(over and actions[agent] == self._cues[i]) for i, agent in enumerate(acted)}
        if over:
            self.agents = []
        return (
            self._seen(acted),
            rewards,
            dict.fromkeys(acted, over),
            dict.fromkeys(acted, False),
            {agent: {} for agent in acted},
        )

    def _seen(self, agents: Any = possible_agents) -> dict[str, Any]:
        shown = 2 * self._cues - 1 if self._step == CUED else np.zeros(2)
        return {a: np.array([shown[i], self._step / STEPS], np.float32) for i, a in enumerate(agents)}
