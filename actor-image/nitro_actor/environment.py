"""The environment of an actor: its spaces, and the E episodes that run in it."""

import importlib.metadata
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nitro_actor import PROTOCOL_VERSION, wire
from nitro_actor.actions import ActionSpace, action_space, without_bounds
from nitro_actor.config import EnvironmentConfig, EnvironmentConfigError
from nitro_actor.engines.base import Engine, Snapshot, Step, require_wanted
from nitro_actor.evaluation import EVALUATION_KWARGS
from nitro_actor.protocol.agents import AgentClass
from nitro_actor.stacking import join, stacked_shape


def rescaled(action: Mapping[str, Any]) -> dict[str, Any]:
    """The action of an EnvironmentSpec, so that a policy's -1 to 1 stand for the environment's bounds.

    Raises:
        EnvironmentConfigError: it is no Box, or a bound is missing.
    """
    if action["kind"] != "continuous":
        raise EnvironmentConfigError(
            f"rescaleActions is for actions that are a Box, and these are {action['kind']}; leave it out"
        )
    if missing := without_bounds(action):
        raise EnvironmentConfigError(
            f"rescaleActions needs finite bounds, and {missing}; give the action space bounds, or leave "
            "rescaleActions out"
        )
    return {**action, "rescaled": True}


@dataclass(frozen=True)
class EnvironmentSpec:
    """Spaces of an environment.

    Attributes:
        classes: ordered by name. `frame` is the shape of one observation as the engine shows it and as
            fragments carry it. `shape` is the shape that a policy sees: `stack` frames together.
        state_size: numbers of the global state; None where it is the concatenation of the observations.
        time_limit: steps after which an episode is truncated, None for no limit.
        resumable: whether fragments carry an end state.
        packages: names of the packages whose versions `to_json` lists.
        stateful_wrappers: gymnasium's wrappers whose state goes on from episode to episode, by their names.
        info_metrics: entries of the steps' info whose numbers fragments carry.
    """

    id: str
    classes: tuple[AgentClass, ...]
    time_limit: int | None
    resumable: bool
    state_size: int | None = None
    packages: tuple[str, ...] = ("numpy",)
    stateful_wrappers: tuple[str, ...] = ()
    info_metrics: tuple[str, ...] = ()

    @property
    def agents(self) -> tuple[str, ...]:
        """All agents: by class in the order of the classes' names, then as a class lists them."""
        return tuple(agent for agent_class in self.classes for agent in agent_class.agents)

    @property
    def several(self) -> bool:
        """Whether the environment is one of several agents; messages then name its classes."""
        return self.classes[0].mortal

    def to_json(self) -> dict[str, Any]:
        """The answer to GET /v1/spec. A missing bound of an action is null."""
        spaces = {
            agent_class.name: {
                "observation": dict(agent_class.observation),
                "action": dict(agent_class.action),
            }
            for agent_class in self.classes
        }
        described: dict[str, Any] = {"protocol": PROTOCOL_VERSION, "id": self.id}
        if self.several:
            described["classes"] = {
                agent_class.name: {"agents": list(agent_class.agents), **spaces[agent_class.name]}
                for agent_class in self.classes
            }
        else:
            described |= spaces[self.classes[0].name]
        described |= {
            "resumable": self.resumable,
            "versions": {name: importlib.metadata.version(name) for name in self.packages},
            **EVALUATION_KWARGS,
        }
        lists = {"statefulWrappers": self.stateful_wrappers, "infoMetrics": self.info_metrics}
        described |= {name: list(kept) for name, kept in lists.items() if kept}
        return described if self.state_size is None else described | {"state": {"size": self.state_size}}


class Environment:
    """E episodes in one engine: time limits, returns, lengths, stacks of frames, and their state.

    Attributes:
        frames: [E, n_c, *frame] by class, the current ones, updated in place; so are the next two.
        alive: bool [E, n_c] by class: who acts in the next step.
        available: bool [E, n_c, C] by class, where the class's actions are masked.
        clip_rewards: whether fragments shall carry only the rewards' signs.
        returns: f64 [E, agents], sums of rewards of the running episodes, in the order of `spec.agents`.
        lengths: i64 [E], steps of each running episode.
        over: if it is set, no further step is made.
        info: takes in the info of each step; None where the job names no entries of it.
    """

    def __init__(self, engine: Engine, config: EnvironmentConfig, *packages: str) -> None:
        """
        Args:
            packages: names of those that compute the environment, for its spec; some may not be installed.

        Raises:
            EnvironmentConfigError: frames shall be stacked that cannot be.
        """
        frame_stack = config.frame_stack
        classes = tuple(_stacked(agent_class, frame_stack) for agent_class in engine.classes)
        self.info = engine.info
        self.spec = EnvironmentSpec(
            config.id,
            classes,
            engine.time_limit,
            engine.resumable,
            engine.state_size,
            ("numpy", *(name for name in dict.fromkeys(packages) if _installed(name))),
            engine.stateful_wrappers,
            self.info.names if self.info else (),
        )
        self.count = engine.count
        self.frames = engine.observations
        self.alive = engine.alive
        self.available = engine.available
        self.clip_rewards = config.clip_rewards
        self.returns = np.zeros((engine.count, len(self.spec.agents)))
        self.lengths = np.zeros(engine.count, np.int64)
        self.over: threading.Event | None = None
        self._engine = engine
        self._limit = engine.time_limit or np.iinfo(np.int64).max
        self._surely = 0  # steps before any episode can reach the limit
        self._lanes = {name: array.reshape(-1, *array.shape[2:]) for name, array in self.frames.items()}
        # Without a stack no frames are kept: the engine's own arrays are shown.
        self._stacks: dict[str, np.ndarray] = {}
        if frame_stack > 1:
            self._stacks = {
                name: np.repeat(lanes[:, None], frame_stack, axis=1) for name, lanes in self._lanes.items()
            }
        self._bounded: dict[str, ActionSpace] = {}
        self._returns: list[tuple[str, NDArray[np.float64]]] = []
        first = 0
        for agent_class in classes:
            self._returns.append((agent_class.name, self.returns[:, first : first + len(agent_class.agents)]))
            first += len(agent_class.agents)
            if agent_class.action["kind"] == "continuous":
                self._bounded[agent_class.name] = action_space(agent_class.action)

    @property
    def observations(self) -> Mapping[str, np.ndarray]:
        """What the policies see, [E n_c, *shape] by class; the next step may overwrite it."""
        return {name: join(stack, 1) for name, stack in self._stacks.items()} if self._stacks else self._lanes

    @property
    def earlier_frames(self) -> dict[str, np.ndarray]:
        """The stacks without their newest frames, [E, n_c, k - 1, *frame] by class; none where k is 1."""
        return {
            name: stack.reshape(*self.frames[name].shape[:2], *stack.shape[1:])[:, :, :-1]
            for name, stack in self._stacks.items()
        }

    def rescale_actions(self) -> None:
        """Let -1 to 1 in the policies' actions stand for the environment's bounds, of all classes whose
        actions are a Box.

        Raises:
            EnvironmentConfigError: no class has such actions, or bounds are not finite.
        """
        classes = self.spec.classes
        boxes = [box for box in classes if box.action["kind"] == "continuous"] or classes
        changed = {box.name: replace(box, action=rescaled(box.action)) for box in boxes}
        self.spec = replace(
            self.spec, classes=tuple(changed.get(agent_class.name, agent_class) for agent_class in classes)
        )
        self._bounded = {name: action_space(box.action) for name, box in changed.items()}

    def reset(self, seeds: Sequence[int]) -> None:
        """Begin new episodes with new random generators."""
        self._engine.reset(seeds)
        self.returns[:] = 0
        self.lengths[:] = 0
        for name, stack in self._stacks.items():
            stack[:] = self._lanes[name][:, None]

    def reset_one(self, index: int) -> None:
        """Begin a new episode in one copy."""
        self._engine.reset_one(index)
        self.returns[index] = 0
        self.lengths[index] = 0
        for name, stack in self._stacks.items():
            agents = len(stack) // self.count
            own = slice(index * agents, (index + 1) * agents)
            stack[own] = self._lanes[name][own][:, None]

    def step(self, actions: Mapping[str, np.ndarray], boxes: Mapping[str, ActionSpace] | None = None) -> Step:
        """Step all copies; finished ones wait for `reset_one`.

        Args:
            actions: by class, [E, n_c, *action shape]; continuous ones are clipped to the action space here,
                and rescaled where the job or the policies' head says so.
            boxes: the continuous classes' actions as policies choose them; by default as the job says.

        Raises:
            OverError: `over` is set.
        """
        require_wanted(self.over)
        if boxes := self._bounded if boxes is None else boxes:
            actions = dict(actions)
            for name, space in boxes.items():
                actions[name] = space.bounded(actions[name])
        step = self._engine.step(actions)
        for name, returns in self._returns:
            returns += step.rewards[name]
        self.lengths += 1
        for name, stack in self._stacks.items():
            stack[:, :-1] = stack[:, 1:]
            stack[:, -1] = self._lanes[name]
        self._surely -= 1
        if self._surely > 0:  # no episode has come to the limit
            return step
        self._surely = self._limit - int(self.lengths.max())
        return step._replace(truncated=step.truncated | (self.lengths >= self._limit))

    def state(self) -> NDArray[np.float32] | None:
        """The global state, f32 [E, S]; None where the environment has none of its own."""
        return self._engine.state()

    def snapshot(self) -> Snapshot:
        """State from which `restore` goes on to the bit; empty where not resumable."""
        if not self.spec.resumable:
            return {}
        return self._engine.snapshot() | {name: array.copy() for name, array in self._kept().items()}

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        """Go on from a snapshot.

        Raises:
            WireError: it is no snapshot of this environment with this E.
        """
        if not self.spec.resumable:
            raise wire.WireError("the request carries a state, but this environment cannot be resumed")
        kept = self._kept()
        own = {name: array for name, array in snapshot.items() if name in kept}
        wire.check(
            own, {name: wire.TensorSpec(str(array.dtype), array.shape) for name, array in kept.items()}
        )
        self._engine.restore({name: array for name, array in snapshot.items() if name not in own})
        for name, array in kept.items():
            array[...] = own[name]
        self._surely = 0
        for name, stack in self._stacks.items():
            stack[:, -1] = self._lanes[name]

    def _kept(self) -> dict[str, np.ndarray]:
        """The arrays of an end state that are not the engine's, as views."""
        earlier = self.earlier_frames
        classes = self.spec.classes if earlier else ()
        stacks = (agent_class.in_state("stack", earlier[agent_class.name]) for agent_class in classes)
        returns = self.returns if self.spec.several else self.returns[:, 0]
        return {"returns": returns, "lengths": self.lengths, **dict(stacks)}

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


def _stacked(agent_class: AgentClass, stack: int) -> AgentClass:
    """The class, with the observations that policies see."""
    if stack > 1 and not agent_class.observation["frame"]:
        whose = f" as those of {agent_class.agents[0]}" if agent_class.mortal else ""
        raise EnvironmentConfigError(
            f"frameStack needs observations that are vectors or images, not single numbers{whose}; set "
            "frameStack: 1"
        )
    shape = list(stacked_shape(tuple(agent_class.observation["frame"]), stack))
    return replace(agent_class, observation={**agent_class.observation, "shape": shape, "stack": stack})


def _installed(package: str) -> bool:
    try:
        return bool(importlib.metadata.version(package))
    except importlib.metadata.PackageNotFoundError:
        return False
