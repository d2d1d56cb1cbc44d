"""One environment with PettingZoo's parallel interface; each of its calls is checked."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray

from nitro_actor import masks
from nitro_actor.actions import ActionSpace
from nitro_actor.config import EnvironmentConfigError
from nitro_actor.engines.base import EnvironmentCallError
from nitro_actor.engines.failures import failures
from nitro_actor.masks import MASK
from nitro_actor.spaces import actions, misfit, native_action, observation_dtype

_LARGEST = float(np.finfo(np.float32).max)
_HOW = " so that each agent observes one array and has one action"


class Place(NamedTuple):
    """Where an agent stands in the arrays of its class."""

    name: str
    row: int


class Game:
    """One copy of an environment.

    Attributes:
        agents: all that may act, as `possible_agents` lists them.
        acting: those that act in the next step, in the order of the environment's `agents`.
        watching: those that see something now: the acting ones, or after a truncation those that were cut.
    """

    def __init__(self, index: int, environment: Any) -> None:
        """Raise EnvironmentConfigError if the environment does not have the parallel interface."""
        self.environment = environment
        self.acting: list[str] = []
        self.watching: list[str] = []
        self._index = index
        if hasattr(environment, "agent_iter"):
            raise EnvironmentConfigError(
                f"{type(environment).__name__} is an AEC environment, in which agents take turns; make a "
                "ParallelEnv of it with pettingzoo.utils.conversions.aec_to_parallel"
            )
        self._inner = getattr(environment, "unwrapped", environment)
        self.agents: list[str] = list(environment.possible_agents)
        if not self.agents:
            raise EnvironmentConfigError("possible_agents is empty; it must list every agent that may act")
        with failures(index, "observation_space and action_space"):
            self._spaces = {agent: self._spaces_of(agent) for agent in self.agents}
        self._observations: Mapping[str, Any] = {}
        self._infos: Mapping[str, Any] = {}

    def probe(self) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
        """Observation and action of each agent, as the EnvironmentSpec has them; it resets the environment.

        Raises:
            EnvironmentConfigError: they are not supported.
            EnvironmentCallError: the environment raised.
        """
        self.reset(0)
        described = {agent: self._described(agent) for agent in self.agents}
        masked = [one for one in described.values() if one[1].get("masked")]
        for agent in set(self.agents).difference(self.acting):
            # Whether an agent gets masks shows when it acts. Until then it is like those of equal spaces.
            observation, action = described[agent]
            like = observation, action | {"masked": True}
            described[agent] = like if like in masked else (observation, action)
        return described

    def reset(self, seed: int | None) -> None:
        """Begin an episode."""
        with failures(self._index, "reset"):
            result = self.environment.reset(seed=seed)
            if not isinstance(result, tuple) or len(result) != 2:
                raise self._wrong("reset must return observations and infos")
            self._observations, self._infos = result
            if list(self.environment.possible_agents) != self.agents:
                raise self._wrong(
                    f"possible_agents was {self.agents} and is {list(self.environment.possible_agents)}; "
                    "it must stay the same, an agent that does not play just stays out of `agents`"
                )
            for agent in self.agents:
                now, known = self._spaces_of(agent), self._spaces[agent]
                if any(a is not b and a != b for a, b in zip(now, known, strict=True)):
                    raise self._wrong(
                        f"the spaces of {agent} are {now}, and were {known}; they must stay the same"
                    )
        self._read_agents()

    def step(self, played: Mapping[str, np.ndarray]) -> tuple[dict[str, float], set[str], bool]:
        """Step once.

        Args:
            played: the action of each acting agent, as `nitro_actor.actions` has it.

        Returns:
            The rewards of those agents, which of them terminated, and whether the episode was truncated.
        """
        acted = self.acting
        native = {agent: native_action(self._spaces[agent][1], action) for agent, action in played.items()}
        with failures(self._index, "step"):
            result = self.environment.step(native)
            if not isinstance(result, tuple) or len(result) != 5:
                raise self._wrong(
                    "step must return observations, rewards, terminations, truncations and infos"
                )
            self._observations, rewards, terminations, truncations, self._infos = result
            died = {agent for agent in acted if self._of(terminations, agent, "termination")}
            cut = {agent for agent in acted if self._of(truncations, agent, "truncation")} - died
            earned = {agent: float(self._of(rewards, agent, "reward")) for agent in acted}
        for agent, reward in earned.items():
            if not abs(reward) <= _LARGEST:
                raise self._wrong(f"the reward of {agent} is {reward}; it must be a finite number")
        self._read_agents()
        going = [agent for agent in acted if agent not in died and agent not in cut]
        if cut and going:
            raise self._wrong(
                f"{sorted(cut)} were truncated while {going} play on; truncate all agents in the same step, "
                "or terminate those that leave"
            )
        if left := [agent for agent in going if agent not in self.acting]:
            raise self._wrong(
                f"{left} left `agents` without a termination or a truncation; report one of them"
            )
        # Some environments keep everybody in `agents` when an episode is over.
        if cut or not (going or set(self.acting) - died):
            self.acting, self.watching = [], sorted(cut)
        return earned, died, bool(cut)

    def observation(self, agent: str) -> np.ndarray:
        """What a watching agent sees, with the shape of its space."""
        seen, space = self._of(self._observations, agent, "observation"), self._spaces[agent][0]
        if isinstance(space, gymnasium.spaces.Dict):
            seen, space = seen["observation"], space["observation"]
        array = np.asarray(seen)
        if array.shape != space.shape:
            raise self._wrong(
                f"an observation of {agent} has shape {list(array.shape)}, but its space says "
                f"{list(space.shape or ())}; the spaces of an agent must stay the same, so resize or pad"
            )
        if wrong := misfit(array, space.dtype):
            raise self._wrong(f"an observation of {agent} {wrong}")
        return array

    def mask(self, agent: str, space: ActionSpace) -> NDArray[np.bool_]:
        """Which choices of its action a watching agent has, bool [C]."""
        seen, all_of_them = self._of(self._observations, agent, "observation"), masks.choices(space)
        given = seen.get(MASK) if isinstance(seen, Mapping) else self.told_mask(agent)
        # Nobody acts after a truncation, so some environments give no masks then.
        over = not self.acting
        if given is None:
            if over:
                return np.ones(all_of_them, bool)
            raise self._wrong(
                f"{agent} acts, but got no {MASK}, as it or an agent of its class did before; give it in "
                "every step"
            )
        try:
            mask = masks.read(given, space)
        except ValueError as error:
            raise self._wrong(f"the {MASK} of {agent} {error}") from None
        if wrong := masks.obstacle(mask, space):
            if over:
                return np.ones(all_of_them, bool)
            raise self._wrong(f"the {MASK} of {agent} {wrong}")
        return mask

    def told_mask(self, agent: str) -> Any:
        """The mask in an agent's info; None where there is none."""
        info = self._infos.get(agent) if isinstance(self._infos, Mapping) else None
        return info.get(MASK) if isinstance(info, Mapping) else None

    def state(self) -> NDArray[np.float32] | None:
        """The global state, f32 [S]; None where the environment has none."""
        if not callable(getattr(self.environment, "state", None)):
            return None
        with failures(self._index, "state"):
            try:
                return np.asarray(self.environment.state(), np.float32).reshape(-1)
            except NotImplementedError:
                return None

    def picture(self) -> NDArray[np.uint8] | None:
        """A picture of it now, u8 [height, width, 3]; None where it was not made to draw."""
        if getattr(self.environment, "render_mode", None) != "rgb_array":
            return None
        with failures(self._index, "render"):
            return np.asarray(self.environment.render(), np.uint8)

    @property
    def generator(self) -> np.random.Generator | None:
        """The environment's own random generator; None where it has none of that name."""
        generator: np.random.Generator | None = getattr(self._inner, "np_random", None)
        return generator

    def order(self) -> list[int]:
        """The acting agents, as indices into `agents`, in the environment's own order; -1 fills the rest."""
        acting = [self.agents.index(agent) for agent in self.acting]
        return acting + [-1] * (len(self.agents) - len(acting))

    def go_on(self, order: Sequence[int], generator: np.random.Generator | None) -> None:
        """Make the agents act that `order` returned, and use this generator."""
        self.acting = [self.agents[i] for i in order if 0 <= i < len(self.agents)]
        self._inner.agents = list(self.acting)
        if generator is not None:
            self._inner.np_random = generator

    def _spaces_of(self, agent: str) -> tuple[Any, Any]:
        return self.environment.observation_space(agent), self.environment.action_space(agent)

    def _described(self, agent: str) -> tuple[dict[str, Any], dict[str, Any]]:
        seen, acted = self._spaces[agent]
        masked = self.told_mask(agent) is not None
        if isinstance(seen, gymnasium.spaces.Dict) and set(seen) == {"observation", MASK}:
            seen, masked = seen["observation"], True
        try:
            dtype = observation_dtype(seen, _HOW)
            action = actions(acted, _HOW).to_json()
        except EnvironmentConfigError as error:
            raise EnvironmentConfigError(f"{agent}: {error}") from None
        shape = list(seen.shape or ())
        observation = {"shape": shape, "dtype": dtype, "frame": shape, "stack": 1}
        if action["kind"] == "discrete":
            action["masked"] = masked
        elif masked and action["kind"] != "continuous":
            action["masked"] = True
        return observation, action

    def _read_agents(self) -> None:
        self.watching = self.acting = list(self.environment.agents)
        if unknown := [agent for agent in self.acting if agent not in self._spaces]:
            raise self._wrong(
                f"{unknown} act, but possible_agents does not list them; list every agent that may act"
            )

    def _of(self, values: Mapping[str, Any], agent: str, what: str) -> Any:
        if agent not in values:
            raise self._wrong(f"{agent} acts, but got no {what}; return one for every agent in `agents`")
        return values[agent]

    def _wrong(self, text: str) -> EnvironmentCallError:
        return EnvironmentCallError(f"environment {self._index}: {text}")
