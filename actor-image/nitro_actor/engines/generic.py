"""The engine for every other environment: E plain gymnasium environments, stepped one after the other.

`states.py` says which of them can be resumed, and how.
"""

import contextvars
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np

from nitro_actor import wire
from nitro_actor.actions import ActionSpace
from nitro_actor.engines import returned
from nitro_actor.engines.base import (
    EnvironmentCallError,
    OneAgentEngine,
    Snapshot,
    Step,
    pack_generators,
    unpack_generators,
)
from nitro_actor.engines.failures import close, failures
from nitro_actor.engines.masked import Masks, apart
from nitro_actor.engines.observations import Observations
from nitro_actor.engines.states import MujocoReplay, keeping_state, state_keeper
from nitro_actor.protocol.agents import AGENT
from nitro_actor.spaces import largest_integer, native_action

MakeEnvironment = Callable[[], gymnasium.Env[Any, Any]]


class GenericEngine(OneAgentEngine):
    """E environments made by one factory.

    Args:
        dtype: float32 or uint8, to which observations are cast.
        action: their action space.
        masked: whether actions are masked; see `nitro_actor.engines.masked`.
        time_limit: steps after which an episode is cut, None for no limit.
    """

    def __init__(
        self,
        make: MakeEnvironment,
        count: int,
        dtype: str,
        action: ActionSpace,
        *,
        masked: bool = False,
        time_limit: int | None = None,
    ) -> None:
        self.count, self.time_limit = count, time_limit
        self._environments = [make() for _ in range(count)]
        self.stateful_wrappers = keeping_state(self._environments[0])
        self._state_keepers = [state_keeper(environment) for environment in self._environments]
        # What the environments' code sets there, such as NumPy's error state, is nothing to ours.
        self._context = contextvars.copy_context()
        self._context.run(np.seterr, all="ignore")
        # After the keepers were made: the wrapper has no state.
        self._environments = [apart(environment) for environment in self._environments]
        first = self._environments[0]
        self._masks = Masks(self._environments, action) if masked else None
        self._available = self._masks.available if self._masks else None
        # Only keepers of this kind are called at every step; for the others the loop does no work.
        self._replays = [
            keeper if isinstance(keeper, MujocoReplay) else None for keeper in self._state_keepers
        ]
        self.resumable = self._state_keepers[0] is not None
        self._action_space = first.action_space
        self._reader = Observations(first.observation_space)
        self._observations = np.zeros((count, *self._reader.shape), dtype)
        self._rows = [self._observations[index, ...] for index in range(count)]
        largest = largest_integer(first.observation_space)
        self.show(self._observations, action, self._available, largest=largest)
        self._was_reset = [False] * count

    def reset(self, seeds: Sequence[int]) -> None:
        for index, seed in enumerate(seeds):
            self._reset(index, seed % 2**32)  # NumPy's global generator takes 32 bits

    def reset_one(self, index: int) -> None:
        self._reset(index, None)

    def _reset(self, index: int, seed: int | None) -> None:
        with failures(index, "reset"):
            result = self._context.run(self._environments[index].reset, seed=seed)
        try:
            observation, _ = returned.values(result, returned.RESET, "reset")
            self._reader.read(observation, self._rows[index])
        except returned.Unfit as error:
            raise EnvironmentCallError(f"environment {index}: {error}") from None
        self._was_reset[index] = True
        if self._masks:
            self._context.run(self._masks.show, index)
        if replay := self._replays[index]:
            replay.after_reset()

    def step(self, actions: Mapping[str, np.ndarray]) -> Step:
        given = actions[AGENT]
        for index, environment in enumerate(self._environments):
            action = native_action(self._action_space, given[index, 0])
            if replay := self._replays[index]:
                replay.before_step(action)
            with failures(index, "step"):
                result = self._context.run(environment.step, action)
            try:
                observation, reward, terminated, truncated, info = returned.values(
                    result, returned.STEP, "step"
                )
                self._reader.read(observation, self._rows[index])
                self._rewards[index] = returned.reward(reward)
                self._terminated[index] = returned.flag(terminated, "terminated")
                self._truncated[index] = returned.flag(truncated, "truncated")
                if self.info is not None:
                    self.info.add(info)
            except returned.Unfit as error:
                raise EnvironmentCallError(f"environment {index}: {error}") from None
            if self._masks:
                ends = {
                    "terminated": bool(self._terminated[index]),
                    "truncated": bool(self._truncated[index]),
                }
                self._context.run(self._masks.show, index, **ends)
        return self._step

    def snapshot(self) -> Snapshot:
        keepers = [keeper for keeper in self._state_keepers if keeper]
        if not keepers:
            return {}
        with failures(None, "get_state"):
            states = [self._context.run(keeper.get) for keeper in keepers]
            own = {f"own/{name}": np.stack([state[name] for state in states]) for name in states[0]}
        generators = pack_generators([environment.unwrapped.np_random for environment in self._environments])
        own |= {"observations": self._observations.copy(), "generators": generators}
        return own if self._available is None else own | {"available": self._available.copy()}

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        observations, available, count = self._observations, self._available, self.count
        common = {
            "observations": wire.TensorSpec(str(observations.dtype), observations.shape),
            "generators": wire.TensorSpec("uint64", (count, 6)),
        }
        if available is not None:
            common["available"] = wire.TensorSpec("bool", available.shape)
        own = {name.removeprefix("own/"): array for name, array in snapshot.items() if name not in common}
        wire.check({name: array for name, array in snapshot.items() if name in common}, common)
        if any(array.shape[:1] != (count,) for array in own.values()):
            raise wire.WireError(f"the state's tensors must have {count} rows, one for each environment")
        generators = unpack_generators(snapshot["generators"])
        for index, keeper in enumerate(self._state_keepers):
            if keeper is None:
                raise wire.WireError("the request carries a state, but this environment cannot be resumed")
            if keeper.resets or not self._was_reset[index]:
                self._reset(index, seed=0)
            with failures(index, "set_state"):
                self._context.run(keeper.set, {name: array[index].copy() for name, array in own.items()})
            self._environments[index].unwrapped.np_random = generators[index]
        observations[:] = snapshot["observations"]
        if available is not None:
            available[:] = snapshot["available"]

    def raw(self) -> Any:
        return self._environments[0]

    def close(self) -> None:
        for index, environment in enumerate(self._environments):
            self._context.run(close, environment, index)

    def part(self, index: int) -> str:
        return self._reader.place(index)
