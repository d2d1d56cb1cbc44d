"""The engine for every other environment: E plain gymnasium environments, stepped one after the other.

`states.py` says which of them can be resumed, and how.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from nitro_actor import traces, wire
from nitro_actor.engines.base import (
    Engine,
    EnvironmentCallError,
    Snapshot,
    pack_generators,
    unpack_generators,
)
from nitro_actor.engines.states import MujocoReplay, state_keeper

MakeEnvironment = Callable[[], gymnasium.Env[Any, Any]]


class GenericEngine(Engine):
    """E environments made by one factory. Observations are cast to `dtype` (f32 or u8)."""

    def __init__(self, make: MakeEnvironment, count: int, dtype: str) -> None:
        self.count = count
        self._environments = [make() for _ in range(count)]
        first = self._environments[0]
        self._state_keepers = [state_keeper(environment) for environment in self._environments]
        # Only these look at every step: the others cost the loop nothing.
        self._replays = [
            keeper if isinstance(keeper, MujocoReplay) else None for keeper in self._state_keepers
        ]
        self.resumable = self._state_keepers[0] is not None
        self._action_space = first.action_space
        self.observations = np.zeros((count, *(first.observation_space.shape or ())), dtype)
        self._rewards = np.zeros(count)
        self._terminated = np.zeros(count, bool)
        self._truncated = np.zeros(count, bool)

    def reset(self, seeds: Sequence[int]) -> None:
        for index, seed in enumerate(seeds):
            self._reset(index, seed % 2**32)  # NumPy's global generator takes no more

    def reset_one(self, index: int) -> None:
        self._reset(index, None)

    def _reset(self, index: int, seed: int | None) -> None:
        with _failures(index, "reset"):
            self._store(index, self._environments[index].reset(seed=seed)[0])
        if replay := self._replays[index]:
            replay.after_reset()

    def step(self, actions: np.ndarray) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
        for index, environment in enumerate(self._environments):
            action = self._native(actions[index])
            if replay := self._replays[index]:
                replay.before_step(action)
            with _failures(index, "step"):
                observation, reward, terminated, truncated, _ = environment.step(action)
                self._store(index, observation)
                self._rewards[index] = float(reward)
                self._terminated[index] = terminated
                self._truncated[index] = truncated
        return self._rewards, self._terminated, self._truncated

    def snapshot(self) -> Snapshot:
        keepers = [keeper for keeper in self._state_keepers if keeper]
        if not keepers:
            return {}
        with _failures(None, "get_state"):
            states = [keeper.get() for keeper in keepers]
            own = {f"own/{name}": np.stack([state[name] for state in states]) for name in states[0]}
        generators = pack_generators([environment.unwrapped.np_random for environment in self._environments])
        return own | {"observations": self.observations.copy(), "generators": generators}

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        observations, count = self.observations, self.count
        common = {
            "observations": wire.TensorSpec(str(observations.dtype), observations.shape),
            "generators": wire.TensorSpec("uint64", (count, 6)),
        }
        own = {name.removeprefix("own/"): array for name, array in snapshot.items() if name not in common}
        wire.check({name: array for name, array in snapshot.items() if name in common}, common)
        if any(array.shape[:1] != (count,) for array in own.values()):
            raise wire.WireError(f"the state's tensors must have {count} rows, one for each environment")
        self.reset([0] * count)
        generators = unpack_generators(snapshot["generators"])
        for index, keeper in enumerate(self._state_keepers):
            if keeper is None:
                raise wire.WireError("the request carries a state, but this environment cannot be resumed")
            with _failures(index, "set_state"):
                keeper.set({name: array[index].copy() for name, array in own.items()})
            self._environments[index].unwrapped.np_random = generators[index]
        observations[:] = snapshot["observations"]

    def close(self) -> None:
        for environment in self._environments:
            environment.close()

    def _store(self, index: int, observation: Any) -> None:
        array = np.asarray(observation)
        if array.shape != self.observations.shape[1:]:
            raise EnvironmentCallError(
                f"environment {index}: an observation of shape {list(array.shape)}, "
                f"but its space says {list(self.observations.shape[1:])}; all must have the shape of "
                "observation_space, so resize or pad what changes"
            )
        self.observations[index] = array

    def _native(self, action: np.ndarray) -> Any:
        space = self._action_space
        if isinstance(space, gymnasium.spaces.Discrete):
            return int(action) + int(space.start)
        assert isinstance(space, gymnasium.spaces.Box)
        action = action.astype(space.dtype).reshape(space.shape)
        if action.dtype == np.float32:
            return action
        # It came within the bounds as float32, which may lie outside of them.
        return np.minimum(np.maximum(action, space.low), space.high)


class _failures:  # noqa: N801 - a context manager, read as a word
    """Turn what an environment raises into an EnvironmentCallError that says where."""

    def __init__(self, index: int | None, call: str) -> None:
        self._where = call if index is None else f"{call} of environment {index}"

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        known = isinstance(error, EnvironmentCallError | wire.WireError)
        if isinstance(error, Exception | SystemExit) and not known:
            told = f"{self._where} raised {type(error).__name__}: {error}{traces.raised_at(error)}"
            raise EnvironmentCallError(told) from error
