"""Adapter from gymnasium environments with one space per agent to PettingZoo's parallel interface.

lbforaging and rware have such environments. The agents are called agent_0, agent_1 and so on.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from nitro_actor.engines import returned
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
        result = self.environment.reset(seed=seed)
        with _as_call_errors():
            observations, _ = returned.values(result, returned.RESET, "reset")
            self.agents = list(self.possible_agents)
            return self._by_agent(observations, "the observation"), {}

    def step(self, actions: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
        """Step once: observations, rewards, terminations, truncations and infos by agent."""
        chosen = [actions[agent] for agent in self.possible_agents]
        result = self.environment.step(chosen)
        with _as_call_errors():
            observations, rewards, terminated, truncated, _ = returned.values(result, returned.STEP, "step")
            seen = self._by_agent(observations, "the observation")
            earned = self._by_agent(rewards, "the reward")
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
        ends = (dict(zip(self.possible_agents, end.tolist(), strict=True)) for end in (died, cut))
        return seen, earned, *ends, {}

    def render(self) -> Any:
        """A picture, as `render_mode` says."""
        return self.environment.render()

    def close(self) -> None:
        """Release what the environment holds."""
        self.environment.close()

    def _ends(self, ends: Any, what: str) -> NDArray[np.bool_]:
        """Who ended, from one value for all agents or one for each of them."""
        flags, count = np.asarray(ends).reshape(-1), len(self.possible_agents)
        if flags.dtype == object or len(flags) not in (1, count):
            raise EnvironmentCallError(
                f"{what} is {ends}; it must be one bool, or one for each of {count} agents"
            )
        return np.broadcast_to(flags.astype(bool), count)

    def _by_agent(self, given: Any, what: str) -> dict[str, Any]:
        """One entry of a list, tuple or array for each agent."""
        count = len(self.possible_agents)
        if not isinstance(given, Sequence | np.ndarray) or len(given) != count:
            raise returned.Unfit(
                f"{what} is {returned.described(given)}; it must have one entry for each of {count} agents"
            )
        return dict(zip(self.possible_agents, given, strict=True))


@contextmanager
def _as_call_errors() -> Iterator[None]:
    """Report what does not fit as it is, not as an error that the environment raised."""
    try:
        yield
    except returned.Unfit as error:
        raise EnvironmentCallError(str(error)) from None
