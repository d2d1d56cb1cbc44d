"""Adapter from gymnasium environments with one space per agent to PettingZoo's parallel interface.

lbforaging and rware have such environments. The agents are called agent_0, agent_1 and so on.
"""

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from nitro_actor.engines.base import EnvironmentCallError
from nitro_actor.engines.states import without_checks


class TupleEnvironment:
    """A gymnasium environment with tuple spaces, seen through dictionaries by agent."""

    def __init__(self, environment: gymnasium.Env[Any, Any]) -> None:
        self.environment = environment
        seen: Any = environment.observation_space
        acted: Any = environment.action_space
        self._spaces = seen, acted
        self.possible_agents = [f"agent_{index}" for index in range(len(acted))]
        self.agents: list[str] = []
        self.render_mode = environment.render_mode
        inner: Any = without_checks(environment)
        self.get_state = getattr(inner, "get_state", None)
        self.set_state = getattr(inner, "set_state", None)

    @property
    def np_random(self) -> Any:
        """The environment's random generator."""
        return self.environment.unwrapped.np_random

    @np_random.setter
    def np_random(self, generator: Any) -> None:
        self.environment.unwrapped.np_random = generator

    def observation_space(self, agent: str) -> Any:
        """The space of one agent."""
        return self._spaces[0][self.possible_agents.index(agent)]

    def action_space(self, agent: str) -> Any:
        """The space of one agent."""
        return self._spaces[1][self.possible_agents.index(agent)]

    def reset(self, *, seed: int | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begin an episode: observations and infos by agent."""
        observations, _ = self.environment.reset(seed=seed)
        self.agents = list(self.possible_agents)
        return self._by_agent(observations), {}

    def step(self, actions: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
        """Step once: observations, rewards, terminations, truncations and infos by agent."""
        chosen = [actions[agent] for agent in self.possible_agents]
        observations, rewards, terminated, truncated, _ = self.environment.step(chosen)
        died, cut = self._ends(terminated, "terminated"), self._ends(truncated, "truncated")
        ended = died | cut
        if ended.all():
            self.agents = []
        elif ended.any():
            raise EnvironmentCallError(
                f"terminated is {terminated} and truncated is {truncated}, so some agents end while others "
                "play on; an environment with a tuple of spaces must end for all at once, so make a "
                "ParallelEnv of PettingZoo of it, whose `agents` says who plays"
            )
        ends = (self._by_agent(end.tolist()) for end in (died, cut))
        return self._by_agent(observations), self._by_agent(rewards), *ends, {}

    def render(self) -> Any:
        """A picture, as `render_mode` says."""
        return self.environment.render()

    def close(self) -> None:
        """Release what the environment holds."""
        self.environment.close()

    def _ends(self, ends: Any, what: str) -> NDArray[np.bool_]:
        """Who ended, from one value for all agents or one for each of them."""
        found, count = np.asarray(ends).reshape(-1), len(self.possible_agents)
        if found.dtype == object or len(found) not in (1, count):
            raise EnvironmentCallError(
                f"{what} is {ends}; it must be one bool, or one for each of {count} agents"
            )
        return np.broadcast_to(found.astype(bool), count)

    def _by_agent(self, values: Any) -> dict[str, Any]:
        return dict(zip(self.possible_agents, values, strict=True))
