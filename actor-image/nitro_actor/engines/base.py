"""The interface of engines: E copies of one environment, stepped together, without time limits or episodes.

    engine.reset(seeds)
    while True:
        rewards, terminated = engine.step(actions)  # engine.observations now shows the next ones
        for i in finished: engine.reset_one(i)

`nitro_actor.environment.Environment` adds what is the same for every engine: episodes and time limits.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nitro_actor.engines.info_metrics import InfoMetrics

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


class Engine(ABC):
    """E copies of one environment.

    Attributes:
        count: E.
        observations: [E, *observation shape], f32 or u8. The current ones, updated in place.
        available: bool [E, C], which choices of an action are allowed now, as `nitro_actor.masks` has them,
            updated in place; None where actions are not masked.
        resumable: whether `snapshot` and `restore` are exact.
        info: takes in the info of each step, where the job names entries of it.
    """

    count: int
    observations: np.ndarray
    info: InfoMetrics | None = None
    available: NDArray[np.bool_] | None = None
    resumable: bool

    @abstractmethod
    def reset(self, seeds: Sequence[int]) -> None:
        """Begin new episodes in all copies. The random generator of copy i is seeded anew with seeds[i]."""

    @abstractmethod
    def reset_one(self, index: int) -> None:
        """Begin a new episode in one copy; its random generator goes on."""

    @abstractmethod
    def step(self, actions: np.ndarray) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
        """Step all copies once.

        Args:
            actions: [E, *action shape] within the action space; see `nitro_actor.actions`.

        Returns:
            rewards f64 [E], terminated bool [E], truncated bool [E] (by the environment itself, not by its
            time limit). The next step may overwrite them.
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
