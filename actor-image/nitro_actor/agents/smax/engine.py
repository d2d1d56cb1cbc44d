"""The engine of SMAX. Equal keys and actions give JaxMARL's battles."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from nitro_actor import wire
from nitro_actor.agents.smax import programs
from nitro_actor.engines.base import Engine, Snapshot, Step
from nitro_actor.protocol.agents import AgentClass

_CLASS = "ally"


class SmaxEngine(Engine):
    """E battles of one map, each with its own random key.

    All agents have the reward of their army: the share of the enemies' health that it took, and 1 for the
    victory. An agent that fell earns nothing more, so its return ends there.
    """

    resumable = True
    time_limit = 100

    def __init__(self, map_name: str, count: int) -> None:
        """Make the copies; they need a `reset`.

        Raises:
            EnvironmentConfigError: see `programs.load`.
        """
        self.count = count
        self._programs = programs.load(map_name, count)
        self._state = {
            name: np.zeros(array.shape, array.dtype) for name, array in self._programs.state.items()
        }
        _, shown = self._programs.begin(self._state["key"][0])
        self._shown = {name: np.repeat(np.asarray(leaf)[None], count, axis=0) for name, leaf in shown.items()}
        self.observations = {_CLASS: self._shown["observations"]}
        self.alive = {_CLASS: self._shown["alive"]}
        self.available = {_CLASS: self._shown["available"]}
        self.state_size: int = self._shown["global_state"].shape[-1]
        agents, size = self._shown["observations"].shape[1:]
        self.classes = (
            AgentClass(
                name=_CLASS,
                agents=tuple(f"{_CLASS}_{index}" for index in range(agents)),
                observation={"shape": [size], "dtype": "float32", "frame": [size], "stack": 1},
                action={"kind": "discrete", "n": self._shown["available"].shape[-1], "masked": True},
                mortal=True,
            ),
        )
        self._uncut = np.zeros(count, bool)

    def reset(self, seeds: Sequence[int]) -> None:
        for index, seed in enumerate(seeds):
            self._state["key"][index] = np.random.SeedSequence(seed).generate_state(2).view(np.int32)
            self.reset_one(index)

    def reset_one(self, index: int) -> None:
        state, shown = self._programs.begin(self._state["key"][index])
        for kept, arrays in ((self._state, state), (self._shown, shown)):
            for name, array in arrays.items():
                kept[name][index] = array

    def step(self, actions: Mapping[str, np.ndarray]) -> Step:
        acted = self.alive[_CLASS].copy()
        state, shown, outcome = self._programs.step(self._state, actions[_CLASS].astype(np.int32))
        for kept, arrays in ((self._state, state), (self._shown, shown)):
            for name, array in arrays.items():
                np.copyto(kept[name], array)
        rewards = np.where(acted, np.asarray(outcome["reward"], np.float64)[:, None], 0.0)
        died = {_CLASS: acted & ~self.alive[_CLASS]}
        return Step({_CLASS: rewards}, died, np.asarray(outcome["ended"]), self._uncut)

    def state(self) -> NDArray[np.float32]:
        return self._shown["global_state"]

    def snapshot(self) -> Snapshot:
        return {name: array.copy() for name, array in self._arrays().items()}

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        arrays = self._arrays()
        wire.check(
            snapshot, {name: wire.TensorSpec(str(kept.dtype), kept.shape) for name, kept in arrays.items()}
        )
        for name, kept in arrays.items():
            np.copyto(kept, snapshot[name])

    def _arrays(self) -> dict[str, np.ndarray]:
        """All arrays that change. Shown ones are saved too: another program would round them differently."""
        groups = {"state": self._state, "shown": self._shown}
        return {f"{group}/{name}": array for group, kept in groups.items() for name, array in kept.items()}
