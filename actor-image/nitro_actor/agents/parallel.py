"""The engine for environments of PettingZoo's parallel interface: E of them, stepped one after the other.

The agents in the environment's list `agents` act. An agent that terminated leaves the list, and may come back
later in the episode. An environment is resumable where it has

    def get_state(self) -> dict[str, np.ndarray]: ...   # everything but agents and np_random
    def set_state(self, state: dict[str, np.ndarray]) -> None: ...   # after a reset
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nitro_actor import wire
from nitro_actor.actions import ActionSpace, action_space
from nitro_actor.agents.game import Game, Place
from nitro_actor.config import EnvironmentConfigError
from nitro_actor.engines.base import (
    Engine,
    EnvironmentCallError,
    Snapshot,
    Step,
    pack_generators,
    unpack_generators,
)
from nitro_actor.engines.failures import close, failures
from nitro_actor.engines.states import Hook
from nitro_actor.masks import MASK, ONLY_WHOLE_NUMBERS, choices
from nitro_actor.protocol.agents import AGENT, RESERVED, AgentClass
from nitro_actor.protocol.fields import NAME


def group(spaces: Mapping[str, tuple[dict[str, Any], dict[str, Any]]]) -> tuple[AgentClass, ...]:
    """Make classes of the agents whose spaces are equal, ordered by name.

    The name of a class is the common beginning of its agents' names, without the separator before a number:
    `adversary` for `adversary_0` and `adversary_1`. The name is `agent` if they have nothing in common. It
    gets a number if another class already has that name.

    Args:
        spaces: observation and action of each agent, as the EnvironmentSpec has them.

    Raises:
        EnvironmentConfigError: the name of an agent is not allowed.
    """
    members: list[tuple[tuple[dict[str, Any], dict[str, Any]], list[str]]] = []
    for agent, own in spaces.items():
        if not isinstance(agent, str) or not NAME.fullmatch(agent):
            raise EnvironmentConfigError(
                f"possible_agents: {agent!r} is no name of an agent; a name is 1 to 64 letters, digits, "
                "'.', '_' and '-', and begins with a letter or a digit"
            )
        agents = next((agents for known, agents in members if known == own), None)
        if agents is None:
            members.append((own, agents := []))
        agents.append(agent)
    classes: dict[str, AgentClass] = {}
    for (observation, action), agents in members:
        name = _unused(_common(agents), classes)
        classes[name] = AgentClass(name, tuple(agents), observation, action, mortal=True)
    return tuple(classes[name] for name in sorted(classes))


def _common(agents: list[str]) -> str:
    first, last = min(agents), max(agents)  # a prefix of both is a prefix of all
    same = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    return "".join(letter for letter, _ in same).rstrip("0123456789").rstrip("._-") or AGENT


def _unused(name: str, taken: Mapping[str, Any]) -> str:
    name = f"{name}s" if name in RESERVED else name
    number, unused = 1, name
    while unused in taken:
        number += 1
        unused = f"{name}_{number}"
    return unused


_PATIENCE = 100
"""Episodes in which an agent must have acted at least once, where the same agents began all of them. Where
line-ups change, nobody knows when an agent's turn comes."""


class ParallelEngine(Engine):
    """E environments made by one factory, each with observations cast to f32 or u8."""

    def __init__(self, make: Callable[[], Any], count: int, time_limit: int | None) -> None:
        """Build and reset them.

        Raises:
            EnvironmentConfigError: their agents or spaces are not supported.
            EnvironmentCallError: an environment raised, or did what its interface does not allow.
        """
        self.count = count
        self.time_limit = time_limit
        first = Game(0, make())
        self.classes = group(first.probe())
        self.observations: dict[str, np.ndarray] = {}
        self.alive: dict[str, NDArray[np.bool_]] = {}
        self.available: dict[str, NDArray[np.bool_]] = {}
        unmasked = [agent_class for agent_class in self.classes if not agent_class.action.get("masked")]
        self._unmasked = {agent_class.name: agent_class.action["kind"] for agent_class in unmasked}
        self._masked: dict[str, ActionSpace] = {}
        self._rewards: dict[str, NDArray[np.float64]] = {}
        self._died: dict[str, NDArray[np.bool_]] = {}
        places: dict[str, Place] = {}
        for agent_class in self.classes:
            shape = (count, len(agent_class.agents))
            frame, dtype = agent_class.observation["frame"], agent_class.observation["dtype"]
            self.observations[agent_class.name] = np.zeros((*shape, *frame), dtype)
            self.alive[agent_class.name] = np.zeros(shape, bool)
            self._rewards[agent_class.name] = np.zeros(shape)
            self._died[agent_class.name] = np.zeros(shape, bool)
            if agent_class.action.get("masked"):
                space = self._masked[agent_class.name] = action_space(agent_class.action)
                self.available[agent_class.name] = np.ones((*shape, choices(space)), bool)
            places |= {agent: Place(agent_class.name, i) for i, agent in enumerate(agent_class.agents)}
        self._places = places
        self._games = [first, *(Game(index, make()) for index in range(1, count))]
        self._step = Step(self._rewards, self._died, *np.zeros((2, count), bool))
        self._never_acted = set(places)
        self._line_ups: set[frozenset[str]] = set()
        self._episodes = 0
        self.reset([0] * count)  # checks the spaces before the first round
        self.state_size = self._state_size()
        self._keepers = [_keeper(game) for game in self._games]
        self.resumable = all(keeper is not None for keeper in self._keepers)

    def reset(self, seeds: Sequence[int]) -> None:
        for index, seed in enumerate(seeds):
            self._reset(index, seed % 2**32)  # NumPy's global generator takes 32 bits

    def reset_one(self, index: int) -> None:
        self._episodes += 1
        if self._never_acted and self._episodes >= _PATIENCE and len(self._line_ups) == 1:
            raise EnvironmentCallError(
                f"{sorted(self._never_acted)} acted in none of {self._episodes} episodes, and the same "
                "agents began all of them; possible_agents must list only agents that play"
            )
        self._reset(index, None)

    def _reset(self, index: int, seed: int | None) -> None:
        game = self._games[index]
        game.reset(seed)
        self._clear(index)
        self._show(index, game)
        if not game.acting:
            raise EnvironmentCallError(
                f"reset of environment {index} left nobody in `agents`; somebody must act"
            )
        if len(self._line_ups) < 2:  # whether there is more than one is all that counts
            self._line_ups.add(frozenset(game.acting))

    def step(self, actions: Mapping[str, np.ndarray]) -> Step:
        step = self._step
        for index, game in enumerate(self._games):
            self._clear(index)
            played = {
                agent: actions[self._places[agent].name][index, self._places[agent].row]
                for agent in game.acting
            }
            rewards, died, cut = game.step(played)
            if self.info is not None:
                game.add_infos(self.info, rewards)
            for agent, reward in rewards.items():
                name, row = self._places[agent]
                self._rewards[name][index, row] = reward
                self._died[name][index, row] = agent in died
            self._show(index, game)
            step.terminated[index] = not game.acting and not cut
            step.truncated[index] = cut
        return step

    def _clear(self, index: int) -> None:
        """Reset the arrays of one copy: no agent is alive, and all actions are available."""
        for arrays in (self.observations, self.alive, self._rewards, self._died):
            for array in arrays.values():
                array[index] = 0
        for array in self.available.values():
            array[index] = True

    def _show(self, index: int, game: Game) -> None:
        """Write into the arrays who acts in one copy, and what its agents see and may do."""
        for agent in game.acting:
            name, row = self._places[agent]
            self.alive[name][index, row] = True
        for agent in game.watching:
            name, row = self._places[agent]
            game.observe(agent, self.observations[name][index, row, ...])
            if name in self.available:
                self.available[name][index, row] = game.mask(agent, self._masked[name])
            elif name in self._unmasked and game.mask_in_info(agent) is not None:
                wrong = (
                    f"{ONLY_WHOLE_NUMBERS}; leave it out"
                    if self._unmasked[name] == "continuous"
                    else "but no agent of its class had one in the infos of the first reset; give it there, "
                    "for agents that act later too"
                )
                raise EnvironmentCallError(f"environment {index}: {agent} got an {MASK}, {wrong}")
        self._never_acted.difference_update(game.acting)
        for name, array in self.observations.items():
            if array.dtype.kind == "f" and not np.isfinite(array[index]).all():
                row = np.argwhere(~np.isfinite(array[index]))[0][0]
                agent = next(agent for agent, place in self._places.items() if place == (name, row))
                raise EnvironmentCallError(
                    f"environment {index}: an observation of {agent} holds NaN or infinity; "
                    "it must hold finite numbers"
                )

    def state(self) -> NDArray[np.float32] | None:
        if self.state_size is None:
            return None
        states = np.zeros((self.count, self.state_size), np.float32)
        for index, game in enumerate(self._games):
            state = game.state()
            if state is None or len(state) != self.state_size or not np.isfinite(state).all():
                raise EnvironmentCallError(
                    f"environment {index}: state() must return {self.state_size} finite numbers, as at first"
                )
            states[index] = state
        return states

    def _state_size(self) -> int | None:
        """The size of the global state; None if it says no more than the observations do."""
        states = [state for game in self._games if (state := game.state()) is not None]
        if not states:
            return None
        seen = [
            self.observations[name][:, row].reshape(self.count, -1) for name, row in self._places.values()
        ]
        listed = [seen[list(self._places).index(agent)] for agent in self._games[0].agents]
        for order in (seen, listed):
            if np.array_equal(np.stack(states), np.concatenate(order, axis=1).astype(np.float32)):
                return None
        return len(states[0])

    def picture(self, index: int) -> NDArray[np.uint8] | None:
        return self._games[index].picture()

    def snapshot(self) -> Snapshot:
        if not self.resumable:
            return {}
        with failures(None, "get_state"):
            games = zip(self._games, self._keepers, strict=True)
            states = [game.run(keeper.get) for game, keeper in games if keeper]
            own = {f"own/{name}": np.stack([state[name] for state in states]) for name in states[0]}
        own["agents"] = np.array([game.order() for game in self._games], np.int64)
        own |= {f"observations/{name}": array.copy() for name, array in self.observations.items()}
        own |= {f"available/{name}": array.copy() for name, array in self.available.items()}
        generators = [generator for game in self._games if (generator := game.generator) is not None]
        return own | ({"generators": pack_generators(generators)} if generators else {})

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        count = self.count
        own = {
            name.removeprefix("own/"): array for name, array in snapshot.items() if name.startswith("own/")
        }
        expected = {"agents": wire.TensorSpec("int64", (count, len(self._places)))}
        for kind, arrays in (("observations", self.observations), ("available", self.available)):
            for name, array in arrays.items():
                expected[f"{kind}/{name}"] = wire.TensorSpec(str(array.dtype), array.shape)
        self.reset([0] * count)
        with_generator = self._games[0].generator is not None
        if with_generator:
            expected["generators"] = wire.TensorSpec("uint64", (count, 6))
        wire.check({name: array for name, array in snapshot.items() if not name.startswith("own/")}, expected)
        if any(array.shape[:1] != (count,) for array in own.values()):
            raise wire.WireError(f"the state's tensors must have {count} rows, one for each environment")
        generators = unpack_generators(snapshot["generators"]) if with_generator else [None] * count
        for index, (game, keeper) in enumerate(zip(self._games, self._keepers, strict=True)):
            assert keeper is not None
            with failures(index, "set_state"):
                game.run(keeper.set, {name: array[index].copy() for name, array in own.items()})
                game.go_on(snapshot["agents"][index], generators[index])
            self._clear(index)
            for agent in game.acting:
                name, row = self._places[agent]
                self.alive[name][index, row] = True
        for kind, arrays in (("observations", self.observations), ("available", self.available)):
            for name, array in arrays.items():
                array[:] = snapshot[f"{kind}/{name}"]

    def raw(self) -> Any:
        return self._games[0].environment

    def close(self) -> None:
        for index, game in enumerate(self._games):
            game.run(close, game.environment, index)


def _keeper(game: Game) -> Hook | None:
    """The object that saves and restores an environment's state; None if that is not possible."""
    # Only a generator of gymnasium's kind can be saved.
    if game.generator is not None and not isinstance(
        getattr(game.generator, "bit_generator", None), np.random.PCG64
    ):
        return None
    hooks = (getattr(game.environment, name, None) for name in ("get_state", "set_state"))
    return Hook(game.environment) if all(callable(hook) for hook in hooks) else None
