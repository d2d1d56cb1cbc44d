"""The environment of an actor: which one, what its spaces are, and E episodes running in it.

A job names either a gymnasium id or an entry point of its own. Observations must be a Box of floats or uint8,
actions a Box of floats or Discrete.
"""

import importlib
import importlib.metadata
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nitro_actor import PROTOCOL_VERSION, wire
from nitro_actor.engines import tasks
from nitro_actor.engines.base import Engine, Snapshot


class EnvironmentConfigError(ValueError):
    """The environment cannot be used. The text says why and what to do."""


@dataclass(frozen=True)
class EnvironmentConfig:
    """What to build: a gymnasium id, or an entry point `module:attribute` (a class or a factory)."""

    id: str
    count: int
    kwargs: dict[str, Any] = field(default_factory=dict)
    entry_point: str | None = None

    @classmethod
    def from_json(cls, text: str) -> "EnvironmentConfig":
        """Read {"id", "kwargs", "entryPoint", "envs"}.

        Raises:
            EnvironmentConfigError: the text is no such object.
        """
        try:
            value = json.loads(text)
            unknown = set(value) - {"id", "kwargs", "entryPoint", "envs"}
            if unknown:
                raise ValueError(f"unknown fields {sorted(unknown)}")
            count = value.get("envs", 1)
            if type(count) is not int or count < 1:
                raise ValueError(f"envs is {count!r}, it must be a whole number of at least 1")
            return cls(str(value["id"]), count, dict(value.get("kwargs") or {}), value.get("entryPoint"))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise EnvironmentConfigError(f"NITRO_ENVIRONMENT is wrong: {error!r}") from error


@dataclass(frozen=True)
class EnvironmentSpec:
    """Spaces of an environment.

    Attributes:
        observation_shape: without E.
        observation_dtype: float32 or uint8; what fragments carry.
        action_size: A for continuous actions, the number of actions for discrete ones.
        action_low, action_high: f32 [A], None for discrete actions.
        time_limit: steps after which an episode is truncated, None for no limit.
        resumable: whether fragments carry an end state.
    """

    id: str
    observation_shape: tuple[int, ...]
    observation_dtype: str
    action_size: int
    action_low: NDArray[np.float32] | None
    action_high: NDArray[np.float32] | None
    time_limit: int | None
    resumable: bool

    @property
    def continuous(self) -> bool:
        return self.action_low is not None

    def to_json(self) -> dict[str, Any]:
        """As GET /v1/spec answers. A missing bound of an action is null."""
        action: dict[str, Any] = {"kind": "discrete", "n": self.action_size}
        if self.action_low is not None and self.action_high is not None:
            low, high = _bounds(self.action_low), _bounds(self.action_high)
            action = {"kind": "continuous", "size": self.action_size, "low": low, "high": high}
        return {
            "protocol": PROTOCOL_VERSION,
            "id": self.id,
            "observation": {"shape": list(self.observation_shape), "dtype": self.observation_dtype},
            "action": action,
            "resumable": self.resumable,
            "versions": {name: importlib.metadata.version(name) for name in ("gymnasium", "mujoco", "numpy")},
        }


class Environment:
    """E episodes in one engine: time limits, returns, lengths, and their state.

    Attributes:
        observations: [E, *observation shape], the current ones, updated in place.
        returns: f64 [E], sum of rewards of each running episode.
        lengths: i64 [E], steps of each running episode.
    """

    def __init__(self, engine: Engine, spec: EnvironmentSpec) -> None:
        self.spec = spec
        self.count = engine.count
        self.observations = engine.observations
        self.returns = np.zeros(engine.count)
        self.lengths = np.zeros(engine.count, np.int64)
        self._engine = engine
        self._limit = spec.time_limit or np.iinfo(np.int64).max

    def reset(self, seeds: Sequence[int]) -> None:
        """Begin new episodes with new random generators."""
        self._engine.reset(seeds)
        self.returns[:] = 0
        self.lengths[:] = 0

    def reset_one(self, index: int) -> None:
        """Begin a new episode in one copy."""
        self._engine.reset_one(index)
        self.returns[index] = 0
        self.lengths[index] = 0

    def step(self, actions: np.ndarray) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
        """Step all copies; finished ones wait for `reset_one`.

        Args:
            actions: f32 [E, A], clipped to the action space here, or i64 [E].

        Returns:
            rewards f64 [E], terminated bool [E], truncated bool [E]; the next step may overwrite them.
        """
        if self.spec.action_low is not None and self.spec.action_high is not None:
            actions = np.minimum(np.maximum(actions, self.spec.action_low), self.spec.action_high)
        rewards, terminated, truncated = self._engine.step(actions)
        self.returns += rewards
        self.lengths += 1
        return rewards, terminated, truncated | (self.lengths >= self._limit)

    def snapshot(self) -> Snapshot:
        """State from which `restore` goes on to the bit; empty where not resumable."""
        if not self.spec.resumable:
            return {}
        return self._engine.snapshot() | {"returns": self.returns.copy(), "lengths": self.lengths.copy()}

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        """Go on from a snapshot.

        Raises:
            WireError: it is no snapshot of this environment with this E.
        """
        if not self.spec.resumable:
            raise wire.WireError("the request carries a state, but this environment cannot be resumed")
        episodes = {name: array for name, array in snapshot.items() if name in ("returns", "lengths")}
        shape = (self.count,)
        wire.check(
            episodes,
            {"returns": wire.TensorSpec("float64", shape), "lengths": wire.TensorSpec("int64", shape)},
        )
        self._engine.restore({name: array for name, array in snapshot.items() if name not in episodes})
        self.returns[:] = episodes["returns"]
        self.lengths[:] = episodes["lengths"]

    def close(self) -> None:
        self._engine.close()


def make(config: EnvironmentConfig) -> Environment:
    """Build an environment: by the fast engine where it computes the same, else by the generic one.

    Raises:
        EnvironmentConfigError: it does not exist, cannot be built, or its spaces are not supported.
    """
    if config.entry_point is None and tasks.supports(config.id, config.kwargs):
        return _make_fast(config)
    return _make_generic(config)


def _make_fast(config: EnvironmentConfig) -> Environment:
    from nitro_actor.engines.mujoco import MujocoEngine  # loads MuJoCo, which not every environment needs

    try:
        engine = MujocoEngine(tasks.TASKS[config.id], config.count, config.kwargs)
    except Exception as error:
        raise _unbuildable(config, error) from error
    low, high = engine.action_bounds
    return Environment(
        engine,
        EnvironmentSpec(
            id=config.id,
            observation_shape=engine.observations.shape[1:],
            observation_dtype="float32",
            action_size=len(low),
            action_low=low,
            action_high=high,
            time_limit=tasks.MAX_EPISODE_STEPS,
            resumable=True,
        ),
    )


def _make_generic(config: EnvironmentConfig) -> Environment:
    import gymnasium  # here: it takes long to load, and the fast engine does without

    from nitro_actor.engines.generic import GenericEngine

    try:
        factory, time_limit = _factory(config, gymnasium)
        probe = factory()
    except EnvironmentConfigError:
        raise
    except Exception as error:
        raise _unbuildable(config, error) from error
    dtype = _observation_dtype(probe.observation_space, gymnasium)
    size, low, high = _actions(probe.action_space, gymnasium)
    shape = tuple(probe.observation_space.shape or ())
    probe.close()
    engine = GenericEngine(factory, config.count, dtype)
    return Environment(
        engine, EnvironmentSpec(config.id, shape, dtype, size, low, high, time_limit, engine.resumable)
    )


def _unbuildable(config: EnvironmentConfig, error: Exception) -> EnvironmentConfigError:
    what = config.entry_point or config.id
    return EnvironmentConfigError(f"environment {what} cannot be built: {type(error).__name__}: {error}")


def _factory(config: EnvironmentConfig, gymnasium: Any) -> tuple[Any, int | None]:
    """How to make one copy without its time limit, and that limit: `Environment` counts, to resume."""
    if config.entry_point is not None:
        attribute = _load(config.entry_point)
        probe = attribute(**config.kwargs)
        if not isinstance(probe, gymnasium.Env):
            raise EnvironmentConfigError(
                f"{config.entry_point} made a {type(probe).__name__}; it must make a gymnasium.Env"
            )
        limit = probe._max_episode_steps if isinstance(probe, gymnasium.wrappers.TimeLimit) else None
        probe.close()

        def make_own() -> Any:
            environment = attribute(**config.kwargs)
            return environment.env if limit is not None else environment

        return make_own, limit
    spec = gymnasium.spec(config.id)
    kwargs = dict(config.kwargs)
    limit = kwargs.pop("max_episode_steps", spec.max_episode_steps)

    def make_registered() -> Any:
        return gymnasium.make(config.id, max_episode_steps=-1, disable_env_checker=True, **kwargs)

    return make_registered, limit


def _load(entry_point: str) -> Any:
    module, separator, attribute = entry_point.partition(":")
    if not separator:
        raise EnvironmentConfigError(f"entryPoint is {entry_point!r}; write it as module:attribute")
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise EnvironmentConfigError(
            f"entryPoint {entry_point} cannot be loaded ({error}); install its package in the actor's image"
        ) from error


def _observation_dtype(space: Any, gymnasium: Any) -> str:
    if isinstance(space, gymnasium.spaces.Box):
        if space.dtype == np.uint8:
            return "uint8"
        if np.issubdtype(space.dtype, np.floating):
            return "float32"
    raise EnvironmentConfigError(
        f"observation space {space} is not supported; it must be a Box of floats or uint8. "
        "Wrap the environment, for example in gymnasium.wrappers.FlattenObservation or DtypeObservation"
    )


def _actions(
    space: Any, gymnasium: Any
) -> tuple[int, NDArray[np.float32] | None, NDArray[np.float32] | None]:
    """Number of actions, and their bounds where they are continuous."""
    if isinstance(space, gymnasium.spaces.Discrete):
        return int(space.n), None, None
    if isinstance(space, gymnasium.spaces.Box) and np.issubdtype(space.dtype, np.floating):
        low, high = (np.asarray(bound, np.float32).reshape(-1) for bound in (space.low, space.high))
        return math.prod(space.shape), low, high
    raise EnvironmentConfigError(
        f"action space {space} is not supported; it must be a Box of floats or Discrete. "
        "Wrap the environment, for example in gymnasium.wrappers.TransformAction"
    )


def _bounds(values: NDArray[np.float32]) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]
