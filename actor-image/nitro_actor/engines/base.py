"""The interface of engines: E copies of one environment, stepped together, without time limits or episodes.

    engine.reset(seeds)
    while True:
        step = engine.step(actions)  # engine.observations, alive and available now show what follows
        for i in finished: engine.reset_one(i)

Agents of equal spaces form a class. Arrays are per class, with one entry for each of its n_c agents; one
agent is a class of one. `nitro_actor.environment.Environment` adds what is the same for every engine:
episodes and time limits.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nitro_actor.actions import ActionSpace
from nitro_actor.engines.info_metrics import InfoMetrics
from nitro_actor.protocol.agents import AGENT, AgentClass

Snapshot = dict[str, np.ndarray]
"""The state of an engine between two steps, as tensors whose first axis is E."""


class EnvironmentCallError(RuntimeError):
    """The environment failed, or returned a value outside its spaces. The text says what and where."""


class OverError(RuntimeError):
    """Nobody wants what is played any more: its round has ended."""


def require_wanted(over: threading.Event | None) -> None:
    """Raise OverError once an event is set."""
    if over is not None and over.is_set():
        raise OverError("the round has ended, and nobody takes its fragments any more")


class Step(NamedTuple):
    """The result of one step of all copies. The next step may overwrite the arrays.

    Attributes:
        rewards: f64 [E, n_c] by class; 0 for an agent that did not act.
        died: bool [E, n_c] by class: the agent ended by itself in this step, so nothing follows for it.
        terminated: bool [E], the episode ended because no agent goes on.
        truncated: bool [E], the episode was cut by the environment itself, not by its time limit.
    """

    rewards: Mapping[str, NDArray[np.float64]]
    died: Mapping[str, NDArray[np.bool_]]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]


class Engine(ABC):
    """E copies of one environment.

    Attributes:
        count: E.
        classes: the agent classes, ordered by name, of single frames.
        observations: [E, n_c, *observation shape], f32 or u8, by class. The current ones, updated in place; 0
            for an agent that is not alive.
        alive: bool [E, n_c] by class, who acts in the next step; updated in place.
        available: bool [E, n_c, C] by class, for classes whose action space is masked; updated in place. An
            agent that is not alive has all actions available.
        state_size: S of the environment's own global state; None if it has no state, or if its state is the
            concatenation of all observations.
        time_limit: steps after which `Environment` cuts an episode; None for no limit.
        resumable: whether `snapshot` and `restore` are exact.
        stateful_wrappers: gymnasium's wrappers whose state goes on from episode to episode, by their names.
        info: takes in the info of each step, where the job names entries of it.
    """

    count: int
    info: InfoMetrics | None = None
    classes: tuple[AgentClass, ...]
    observations: Mapping[str, np.ndarray]
    alive: Mapping[str, NDArray[np.bool_]]
    available: Mapping[str, NDArray[np.bool_]]
    state_size: int | None = None
    time_limit: int | None
    stateful_wrappers: tuple[str, ...] = ()
    resumable: bool

    @abstractmethod
    def reset(self, seeds: Sequence[int]) -> None:
        """Begin new episodes in all copies. The random generator of copy i is seeded anew with seeds[i]."""

    @abstractmethod
    def reset_one(self, index: int) -> None:
        """Begin a new episode in one copy; its random generator goes on."""

    @abstractmethod
    def step(self, actions: Mapping[str, np.ndarray]) -> Step:
        """Step all copies once.

        Args:
            actions: by class, [E, n_c, *action shape] within the action space, see `nitro_actor.actions`.
                Those of agents that are not alive are ignored.
        """

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """The state from which `restore` goes on. Empty if the environment is not resumable."""

    @abstractmethod
    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        """Go on from a snapshot of an engine of the same environment and E.

        Raises:
            WireError: the tensors are no snapshot of such an engine.
        """

    def state(self) -> NDArray[np.float32] | None:
        """The environment's own global state, f32 [E, S]; None where `state_size` is None."""
        return None

    def part(self, index: int) -> str:  # noqa: ARG002
        """The name of the part of an observation that holds the number at an index; empty where it has no
        parts."""
        return ""

    def picture(self, index: int) -> NDArray[np.uint8] | None:  # noqa: ARG002
        """A picture of one copy now, u8 [height, width, 3]; None where the engine draws nothing."""
        return None

    def raw(self) -> Any:
        """The first copy, as its package made it; None where the engine computes the environment itself."""
        return None

    def close(self) -> None:
        """Release what the environment holds."""
        return


class OneAgentEngine(Engine):
    """An engine of one agent. Its own arrays have no axis of a class; those of the interface are views."""

    def show(
        self,
        observations: np.ndarray,
        action: ActionSpace,
        available: NDArray[np.bool_] | None = None,
        *,
        largest: int = 0,
    ) -> None:
        """Make the arrays of the interface.

        Args:
            observations: [E, *observation shape], f32 or u8.
            action: the action space.
            available: bool [E, C]; None where actions are not masked.
            largest: whole number that observations may hold, where float32 does not hold all of them; else 0.
        """
        count, shape = len(observations), list(observations.shape[1:])
        seen = {"shape": shape, "dtype": str(observations.dtype), "frame": shape, "stack": 1}
        acted = action.to_json() | ({} if available is None else {"masked": True})
        seen |= {"largest": largest} if largest else {}
        self.classes = (AgentClass(AGENT, (AGENT,), seen, acted, mortal=False),)
        self.observations = {AGENT: observations[:, None]}
        self.alive = {AGENT: np.ones((count, 1), bool)}
        self.available = {} if available is None else {AGENT: available[:, None]}
        self._rewards, (self._terminated, self._truncated) = np.zeros(count), np.zeros((2, count), bool)
        died = {AGENT: np.zeros((count, 1), bool)}
        self._step = Step({AGENT: self._rewards[:, None]}, died, self._terminated, self._truncated)


def seeded_generators(seeds: Sequence[int]) -> list[np.random.Generator]:
    """A PCG64 generator for each seed."""
    return [np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed))) for seed in seeds]


def pack_generators(generators: Sequence[np.random.Generator]) -> NDArray[np.uint64]:
    """The states of PCG64 generators, u64 [E, 6]."""
    rows = []
    for generator in generators:
        state = generator.bit_generator.state
        words = [
            word for n in (state["state"]["state"], state["state"]["inc"]) for word in (n >> 64, n & _LOW)
        ]
        rows.append([*words, state["has_uint32"], state["uinteger"]])
    return np.array(rows, np.uint64)


def unpack_generators(rows: NDArray[np.uint64]) -> list[np.random.Generator]:
    """Generators in the states that `pack_generators` wrote."""
    generators = []
    for row in rows:
        state_high, state_low, inc_high, inc_low, has_uint32, uinteger = (int(word) for word in row)
        bits = np.random.PCG64(0)
        bits.state = {
            "bit_generator": "PCG64",
            "state": {"state": state_high << 64 | state_low, "inc": inc_high << 64 | inc_low},
            "has_uint32": has_uint32,
            "uinteger": uinteger,
        }
        generators.append(np.random.Generator(bits))
    return generators


_LOW = 2**64 - 1
