"""One environment with PettingZoo's parallel interface; each of its calls is checked."""

import contextvars
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeVar

import gymnasium
import numpy as np
from numpy.typing import NDArray

from nitro_actor import masks
from nitro_actor.actions import ActionSpace
from nitro_actor.config import EnvironmentConfigError
from nitro_actor.engines import returned
from nitro_actor.engines.base import EnvironmentCallError
from nitro_actor.engines.failures import failures
from nitro_actor.engines.info_metrics import InfoMetrics
from nitro_actor.engines.observations import Observations
from nitro_actor.masks import MASK
from nitro_actor.spaces import actions, largest_integer, native_action, observation_dtype

_HOW = " so that each agent observes one array and has one action"

_P = ParamSpec("_P")
_T = TypeVar("_T")


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
        # What its code sets there, such as NumPy's error state, is nothing to ours.
        self._apart = contextvars.copy_context()
        self._apart.run(np.seterr, all="ignore")
        with failures(index, "observation_space and action_space"):
            self._spaces = {agent: self._spaces_of(agent) for agent in self.agents}
        self._readers: dict[str, Observations] = {}
        self._observations: Mapping[str, Any] = {}
        self._infos: Mapping[str, Any] = {}

    def run(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call the environment's code apart from ours."""
        return self._apart.run(function, *args, **kwargs)

    def probe(self) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
        """Observation and action of each agent, as the EnvironmentSpec has them; it resets the environment.

        Raises:
            EnvironmentConfigError: they are not supported.
            EnvironmentCallError: the environment raised.
        """
        self.reset(0)
        described = {agent: self._described(agent) for agent in self.agents}
        masked = [(seen, action) for seen, action in described.values() if action.get("masked")]
        for agent in set(self.agents).difference(self.acting):
            # Whether an agent gets masks shows when it acts. Until then it is like those of equal spaces.
            observation, action = described[agent]
            like = observation, action | {"masked": True}
            described[agent] = like if like in masked else (observation, action)
        return described

    def reset(self, seed: int | None) -> None:
        """Begin an episode."""
        with failures(self._index, "reset"):
            result = self.run(self.environment.reset, seed=seed)
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
        try:
            self._observations, self._infos = returned.values(result, returned.AGENTS_RESET, "reset")
        except returned.Unfit as error:
            raise self._wrong(str(error)) from None
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
            result = self.run(self.environment.step, native)
        try:
            self._observations, rewards, terminations, truncations, self._infos = returned.values(
                result, returned.AGENTS_STEP, "step"
            )
            died = {agent for agent in acted if self._ended(terminations, agent, "termination")}
            cut = {agent for agent in acted if self._ended(truncations, agent, "truncation")} - died
            earned = {agent: returned.reward(self._of(rewards, agent, "reward"), agent) for agent in acted}
        except returned.Unfit as error:
            raise self._wrong(str(error)) from None
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

    def add_infos(self, to: InfoMetrics, acted: Iterable[str]) -> None:
        """Hand over the infos of those that acted in the last step; an agent may have none."""
        infos = self._infos if isinstance(self._infos, Mapping) else {}
        try:
            for agent in acted:
                if infos.get(agent) is not None:
                    to.add(infos[agent])
        except returned.Unfit as error:
            raise self._wrong(str(error)) from None

    def observe(self, agent: str, row: np.ndarray) -> None:
        """Write what a watching agent sees."""
        seen, space = self._of(self._observations, agent, "observation"), self._spaces[agent][0]
        if isinstance(space, gymnasium.spaces.Dict):
            space = space["observation"]
            seen = seen.get("observation") if isinstance(seen, Mapping) else seen
        reader = self._readers.get(agent)
        if reader is None:
            reader = self._readers[agent] = Observations(space, f"an observation of {agent}")
        try:
            reader.read(seen, row)
        except returned.Unfit as error:
            raise self._wrong(str(error)) from None

    def mask(self, agent: str, space: ActionSpace) -> NDArray[np.bool_]:
        """Which choices of its action a watching agent has, bool [C]."""
        seen, all_of_them = self._of(self._observations, agent, "observation"), masks.choices(space)
        given = seen.get(MASK) if isinstance(seen, Mapping) else self.mask_in_info(agent)
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

    def mask_in_info(self, agent: str) -> Any:
        """The mask in an agent's info; None where there is none."""
        info = self._infos.get(agent) if isinstance(self._infos, Mapping) else None
        return info.get(MASK) if isinstance(info, Mapping) else None

    def state(self) -> NDArray[np.float32] | None:
        """The global state, f32 [S]; None where the environment has none."""
        if not callable(getattr(self.environment, "state", None)):
            return None
        with failures(self._index, "state"):
            try:
                given = self.run(self.environment.state)
            except NotImplementedError:
                return None
        if given is None:
            return None
        try:
            return returned.numbers(given, "the value of state()").astype(np.float32).reshape(-1)
        except returned.Unfit as error:
            raise self._wrong(str(error)) from None

    def picture(self) -> NDArray[np.uint8] | None:
        """A picture of it now, u8 [height, width, 3]; None where it was not made to draw."""
        if getattr(self.environment, "render_mode", None) != "rgb_array":
            return None
        with failures(self._index, "render"):
            return np.asarray(self.run(self.environment.render), np.uint8)

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
        seen = self.run(self.environment.observation_space, agent)
        return seen, self.run(self.environment.action_space, agent)

    def _described(self, agent: str) -> tuple[dict[str, Any], dict[str, Any]]:
        seen, acted = self._spaces[agent]
        masked = self.mask_in_info(agent) is not None
        if isinstance(seen, gymnasium.spaces.Dict) and set(seen) == {"observation", MASK}:
            seen, masked = seen["observation"], True
        try:
            dtype = observation_dtype(seen, _HOW)
            action = actions(acted, _HOW).to_json()
            if masked and action["kind"] == "continuous":
                raise EnvironmentConfigError(
                    f"it has an {MASK} in its observations or its info, {masks.ONLY_WHOLE_NUMBERS}, but its "
                    f"action space is {acted}. Leave the mask out, or make the actions whole numbers"
                )
        except EnvironmentConfigError as error:
            raise EnvironmentConfigError(f"{agent}: {error}") from None
        shape = list(seen.shape or ())
        observation = {"shape": shape, "dtype": dtype, "frame": shape, "stack": 1}
        if largest := largest_integer(seen):
            observation["largest"] = largest
        if action["kind"] == "discrete":
            action["masked"] = masked
        elif masked:
            action["masked"] = True
        return observation, action

    def _read_agents(self) -> None:
        with failures(self._index, "the list `agents`"):
            self.watching = self.acting = list(self.environment.agents)
        if unknown := [agent for agent in self.acting if agent not in self._spaces]:
            raise self._wrong(
                f"{unknown} act, but possible_agents does not list them; list every agent that may act"
            )

    def _of(self, given: Any, agent: str, what: str) -> Any:
        if type(given) is not dict and not isinstance(given, Mapping):
            raise self._wrong(
                f"the {what}s are {returned.described(given)}; return a dictionary, with one for each agent"
            )
        if agent not in given:
            raise self._wrong(f"{agent} acts, but got no {what}; return one for every agent in `agents`")
        return given[agent]

    def _ended(self, given: Any, agent: str, what: str) -> bool:
        return returned.flag(self._of(given, agent, what), f"the {what}", agent)

    def _wrong(self, text: str) -> EnvironmentCallError:
        return EnvironmentCallError(f"environment {self._index}: {text}")
