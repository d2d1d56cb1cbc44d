"""The environment of an actor: its spaces, and the E episodes that run in it."""

import importlib.metadata
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nitro_actor import PROTOCOL_VERSION, wire
from nitro_actor.actions import ActionSpace, action_space
from nitro_actor.engines.base import Engine, Snapshot, require_wanted
from nitro_actor.evaluation import EVALUATION_KWARGS
from nitro_actor.protocol.agents import AgentClass, agent_classes
from nitro_actor.rescaling import rescaled
from nitro_actor.stacking import join, stacked_shape


@dataclass(frozen=True)
class EnvironmentSpec:
    """Spaces of an environment.

    Attributes:
        frame_shape: shape of one observation, as the engine shows it and as fragments carry it.
        observation_dtype: float32 or uint8.
        time_limit: steps after which an episode is truncated, None for no limit.
        resumable: whether fragments carry an end state.
        frame_stack: k, observations that the policy sees at once.
        masked: whether the environment tells which actions are allowed.
        stateful_wrappers: gymnasium's wrappers whose state goes on from episode to episode, by their names.
        largest: whole number that observations may hold, where float32 does not hold all of them; else 0.
        info_metrics: entries of the steps' info whose numbers fragments carry.
    """

    id: str
    frame_shape: tuple[int, ...]
    observation_dtype: str
    action: ActionSpace
    time_limit: int | None
    resumable: bool
    frame_stack: int = 1
    masked: bool = False
    stateful_wrappers: tuple[str, ...] = ()
    largest: int = 0
    info_metrics: tuple[str, ...] = ()

    @property
    def classes(self) -> tuple[AgentClass, ...]:
        """The only class."""
        return agent_classes(self.to_json())

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """Shape of what the policy sees."""
        return stacked_shape(self.frame_shape, self.frame_stack)

    def to_json(self) -> dict[str, Any]:
        """The answer to GET /v1/spec. A missing bound of an action is null."""
        described = {
            "protocol": PROTOCOL_VERSION,
            "id": self.id,
            "observation": {
                "shape": list(self.observation_shape),
                "dtype": self.observation_dtype,
                "frame": list(self.frame_shape),
                "stack": self.frame_stack,
                **({"largest": self.largest} if self.largest else {}),
            },
            "action": self.action.to_json() | ({"masked": True} if self.masked else {}),
            "resumable": self.resumable,
            "versions": {name: importlib.metadata.version(name) for name in ("gymnasium", "mujoco", "numpy")},
        }
        described |= EVALUATION_KWARGS
        lists = {"statefulWrappers": self.stateful_wrappers, "infoMetrics": self.info_metrics}
        return described | {name: list(kept) for name, kept in lists.items() if kept}


class Environment:
    """E episodes in one engine: time limits, returns, lengths, and their state.

    Attributes:
        frames: [E, *frame shape], the current ones, updated in place.
        available: bool [E, C], which choices of an action are allowed now, updated in place; None where
            actions are not masked.
        clip_rewards: whether fragments shall carry only the rewards' signs.
        returns: f64 [E], sum of rewards of each running episode.
        lengths: i64 [E], steps of each running episode.
        over: if it is set, no further step is made.
        info: takes in the info of each step; None where the job names no entries of it.
    """

    def __init__(self, engine: Engine, spec: EnvironmentSpec, *, clip_rewards: bool = False) -> None:
        self.spec = spec
        self.count = engine.count
        self.frames = engine.observations
        self.available = engine.available
        self.info = engine.info
        self.clip_rewards = clip_rewards
        self.returns = np.zeros(engine.count)
        self.lengths = np.zeros(engine.count, np.int64)
        self.over: threading.Event | None = None
        self._engine = engine
        self._limit = spec.time_limit or np.iinfo(np.int64).max
        # Without a stack no frames are kept: the engine's own array is shown.
        shape = (engine.count, spec.frame_stack, *spec.frame_shape)
        self._stack = np.zeros(shape, self.frames.dtype) if spec.frame_stack > 1 else None

    @property
    def observations(self) -> np.ndarray:
        """What the policy sees, [E, *observation shape]; the next step may overwrite it."""
        return self.frames if self._stack is None else join(self._stack, 1)

    @property
    def earlier_frames(self) -> np.ndarray | None:
        """The stacks without their newest frames, [E, k - 1, *frame shape]; None where k is 1."""
        return None if self._stack is None else self._stack[:, :-1]

    def rescale_actions(self) -> None:
        """Let -1 to 1 in the policy's actions stand for the environment's bounds.

        Raises:
            EnvironmentConfigError: the actions are no Box, or have no finite bounds.
        """
        self.spec = replace(self.spec, action=action_space(rescaled(self.spec.action.to_json())))

    def reset(self, seeds: Sequence[int]) -> None:
        """Begin new episodes with new random generators."""
        self._engine.reset(seeds)
        self.returns[:] = 0
        self.lengths[:] = 0
        if self._stack is not None:
            self._stack[:] = self.frames[:, None]

    def reset_one(self, index: int) -> None:
        """Begin a new episode in one copy."""
        self._engine.reset_one(index)
        self.returns[index] = 0
        self.lengths[index] = 0
        if self._stack is not None:
            self._stack[index] = self.frames[index]

    def step(self, actions: np.ndarray) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
        """Step all copies; finished ones wait for `reset_one`.

        Args:
            actions: [E, *action shape]; continuous ones are clipped to the action space here, and rescaled
                where the job says so.

        Returns:
            rewards f64 [E], terminated bool [E], truncated bool [E]; the next step may overwrite them.

        Raises:
            OverError: `over` is set.
        """
        require_wanted(self.over)
        rewards, terminated, truncated = self._engine.step(self.spec.action.bounded(actions))
        self.returns += rewards
        self.lengths += 1
        if self._stack is not None:
            self._stack[:, :-1] = self._stack[:, 1:]
            self._stack[:, -1] = self.frames
        return rewards, terminated, truncated | (self.lengths >= self._limit)

    def snapshot(self) -> Snapshot:
        """State from which `restore` goes on to the bit; empty where not resumable."""
        if not self.spec.resumable:
            return {}
        own = {"returns": self.returns.copy(), "lengths": self.lengths.copy()}
        if self._stack is not None:
            own["stack"] = self._stack[:, :-1].copy()
        return self._engine.snapshot() | own

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        """Go on from a snapshot.

        Raises:
            WireError: it is no snapshot of this environment with this E.
        """
        if not self.spec.resumable:
            raise wire.WireError("the request carries a state, but this environment cannot be resumed")
        shape = (self.count,)
        expected = {"returns": wire.TensorSpec("float64", shape), "lengths": wire.TensorSpec("int64", shape)}
        if self._stack is not None:
            earlier = self._stack[:, :-1]
            expected["stack"] = wire.TensorSpec(str(earlier.dtype), earlier.shape)
        own = {name: array for name, array in snapshot.items() if name in expected}
        wire.check(own, expected)
        self._engine.restore({name: array for name, array in snapshot.items() if name not in own})
        self.returns[:] = own["returns"]
        self.lengths[:] = own["lengths"]
        if self._stack is not None:
            self._stack[:, :-1] = own["stack"]
            self._stack[:, -1] = self.frames

    def part(self, index: int) -> str:
        """The name of the part of an observation that holds the number at an index of a frame."""
        return self._engine.part(index)

    def picture(self, index: int) -> NDArray[np.uint8] | None:
        """The engine's picture of one copy."""
        return self._engine.picture(index)

    def raw(self) -> Any:
        """The engine's first copy, as its package made it; None where the engine computes it itself."""
        return self._engine.raw()

    def close(self) -> None:
        self._engine.close()
