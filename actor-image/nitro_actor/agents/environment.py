"""The environment of several agents of an actor: its spaces, and the E episodes that run in it."""

import importlib.metadata
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nitro_actor import PROTOCOL_VERSION, wire
from nitro_actor.actions import ActionSpace, action_space
from nitro_actor.agents.engine import AgentsEngine, AgentsStep
from nitro_actor.engines.base import Snapshot, require_wanted
from nitro_actor.evaluation import EVALUATION_KWARGS
from nitro_actor.protocol.agents import AgentClass
from nitro_actor.rescaling import rescaled
from nitro_actor.stacking import join, stacked_shape


@dataclass(frozen=True)
class AgentsSpec:
    """Spaces of an environment of several agents.

    Attributes:
        classes: ordered by name. `frame` is the shape of one observation as the engine shows it. `shape` is
            the shape that a policy sees: `stack` frames together.
        state_size: numbers of the global state; None where it is the concatenation of the observations.
        time_limit: steps after which an episode is truncated, None for no limit.
        resumable: whether fragments carry an end state.
        packages: names of the packages whose versions `to_json` lists.
        info_metrics: entries of the agents' infos whose numbers fragments carry.
    """

    id: str
    classes: tuple[AgentClass, ...]
    state_size: int | None
    time_limit: int | None
    resumable: bool
    packages: tuple[str, ...] = ("numpy",)
    info_metrics: tuple[str, ...] = ()

    @cached_property
    def agents(self) -> tuple[str, ...]:
        """All agents: by class in the order of the classes' names, then as a class lists them."""
        return tuple(agent for one in self.classes for agent in one.agents)

    def to_json(self) -> dict[str, Any]:
        """The answer to GET /v1/spec."""
        spec: dict[str, Any] = {
            "protocol": PROTOCOL_VERSION,
            "id": self.id,
            "classes": {
                one.name: {
                    "agents": list(one.agents),
                    "observation": dict(one.observation),
                    "action": dict(one.action),
                }
                for one in self.classes
            },
            "resumable": self.resumable,
            **EVALUATION_KWARGS,
            "versions": {name: importlib.metadata.version(name) for name in self.packages},
        }
        if self.info_metrics:
            spec["infoMetrics"] = list(self.info_metrics)
        return spec if self.state_size is None else spec | {"state": {"size": self.state_size}}


class AgentsEnvironment:
    """E episodes in one engine: time limits, returns, lengths, stacks of frames, and their state.

    Attributes:
        frames: [E, n_c, *frame] by class, the current ones, updated in place; so are the next two.
        alive: bool [E, n_c] by class: who acts in the next step.
        available: bool [E, n_c, C] by class, where the class's actions are masked.
        clip_rewards: whether fragments shall carry only the rewards' signs.
        returns: f64 [E, agents], sums of rewards of the running episodes, in the order of `spec.agents`.
        lengths: i64 [E], steps of each running episode.
        info: takes in the infos of each step; None where the job names no entries of them.
    """

    def __init__(
        self,
        engine: AgentsEngine,
        *,
        id: str,
        packages: tuple[str, ...],
        frame_stack: int = 1,
        clip_rewards: bool = False,
    ) -> None:
        classes = tuple(_stacked(one, frame_stack) for one in engine.classes)
        self.info = engine.info
        self.spec = AgentsSpec(
            id,
            classes,
            engine.state_size,
            engine.time_limit,
            engine.resumable,
            packages,
            self.info.names if self.info else (),
        )
        self.count = engine.count
        self.frames = engine.observations
        self.alive = engine.alive
        self.available = engine.available
        self.clip_rewards = clip_rewards
        self.returns = np.zeros((engine.count, len(self.spec.agents)))
        self.lengths = np.zeros(engine.count, np.int64)
        self.over: threading.Event | None = None
        self._engine = engine
        self._limit = engine.time_limit or np.iinfo(np.int64).max
        self._columns: dict[str, slice] = {}
        self._bounded: dict[str, ActionSpace] = {}
        self._stacks: dict[str, np.ndarray] = {}
        first = 0
        for one in classes:
            self._columns[one.name] = slice(first, first := first + len(one.agents))
            if one.action["kind"] == "continuous":
                self._bounded[one.name] = action_space(one.action)
            frames = self.frames[one.name]
            if frame_stack > 1:
                self._stacks[one.name] = np.repeat(frames[:, :, None], frame_stack, axis=2)

    @property
    def observations(self) -> Mapping[str, np.ndarray]:
        """The policies' observations, [E, n_c, *shape] by class; the next step may overwrite them."""
        return {name: join(stack, 2) for name, stack in self._stacks.items()} or self.frames

    @property
    def earlier_frames(self) -> dict[str, np.ndarray]:
        """The stacks without their newest frames, [E, n_c, k - 1, *frame] by class; none where k is 1."""
        return {name: stack[:, :, :-1] for name, stack in self._stacks.items()}

    def rescale_actions(self) -> None:
        """Let -1 to 1 in the policies' actions stand for the environment's bounds, of all classes whose
        actions are a Box.

        Raises:
            EnvironmentConfigError: no class has such actions, or bounds are not finite.
        """
        classes = self.spec.classes
        boxes = [one for one in classes if one.action["kind"] == "continuous"] or classes
        changed = {one.name: replace(one, action=rescaled(one.action)) for one in boxes}
        self.spec = replace(self.spec, classes=tuple(changed.get(one.name, one) for one in classes))
        self._bounded = {name: action_space(one.action) for name, one in changed.items()}

    def reset(self, seeds: Sequence[int]) -> None:
        """Begin new episodes with new random generators."""
        self._engine.reset(seeds)
        self.returns[:] = 0
        self.lengths[:] = 0
        for name, stack in self._stacks.items():
            stack[:] = self.frames[name][:, :, None]

    def reset_one(self, index: int) -> None:
        """Begin a new episode in one copy."""
        self._engine.reset_one(index)
        self.returns[index] = 0
        self.lengths[index] = 0
        for name, stack in self._stacks.items():
            stack[index] = self.frames[name][index][:, None]

    def step(self, actions: Mapping[str, np.ndarray]) -> AgentsStep:
        """Step all copies; finished ones wait for `reset_one`.

        Args:
            actions: by class, [E, n_c, *action shape]; continuous ones are clipped to the action space here,
                and rescaled where the job says so.

        Raises:
            OverError: `over` is set.
        """
        require_wanted(self.over)
        if self._bounded:
            actions = dict(actions) | {
                name: space.bounded(actions[name]) for name, space in self._bounded.items()
            }
        step = self._engine.step(actions)
        for name, columns in self._columns.items():
            self.returns[:, columns] += step.rewards[name]
        self.lengths += 1
        for name, stack in self._stacks.items():
            stack[:, :, :-1] = stack[:, :, 1:]
            stack[:, :, -1] = self.frames[name]
        return replace(step, truncated=step.truncated | (self.lengths >= self._limit))

    def state(self) -> NDArray[np.float32] | None:
        """The global state, f32 [E, S]; None where the environment has none of its own."""
        return self._engine.state()

    def snapshot(self) -> Snapshot:
        """State from which `restore` goes on to the bit; empty where not resumable."""
        if not self.spec.resumable:
            return {}
        own = {"returns": self.returns.copy(), "lengths": self.lengths.copy()}
        own |= {f"stack/{name}": earlier.copy() for name, earlier in self.earlier_frames.items()}
        return self._engine.snapshot() | own

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        """Go on from a snapshot.

        Raises:
            WireError: it is no snapshot of this environment with this E.
        """
        if not self.spec.resumable:
            raise wire.WireError("the request carries a state, but this environment cannot be resumed")
        expected = {
            "returns": wire.TensorSpec("float64", self.returns.shape),
            "lengths": wire.TensorSpec("int64", self.lengths.shape),
        }
        for name, earlier in self.earlier_frames.items():
            expected[f"stack/{name}"] = wire.TensorSpec(str(earlier.dtype), earlier.shape)
        own = {name: array for name, array in snapshot.items() if name in expected}
        wire.check(own, expected)
        self._engine.restore({name: array for name, array in snapshot.items() if name not in own})
        self.returns[:] = own["returns"]
        self.lengths[:] = own["lengths"]
        for name, stack in self._stacks.items():
            stack[:, :, :-1] = own[f"stack/{name}"]
            stack[:, :, -1] = self.frames[name]

    def picture(self, index: int) -> NDArray[np.uint8] | None:
        """The engine's picture of one copy."""
        return self._engine.picture(index)

    def raw(self) -> Any:
        """The engine's first copy, as its package made it; None where the engine computes it itself."""
        return self._engine.raw()

    def close(self) -> None:
        self._engine.close()


def _stacked(one: AgentClass, stack: int) -> AgentClass:
    """The class, with the observations that policies see."""
    shape = list(stacked_shape(tuple(one.observation["frame"]), stack))
    return replace(one, observation={**one.observation, "shape": shape, "stack": stack}, mortal=True)
