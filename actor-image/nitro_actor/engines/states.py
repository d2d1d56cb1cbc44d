"""How the generic engine saves and restores the state of one environment, where that is possible.

gymnasium's own MuJoCo and classic control environments are resumable as they are. A user's environment is
resumable when it has

    def get_state(self) -> dict[str, np.ndarray]: ...   # everything but np_random, arrays of fixed shapes
    def set_state(self, state: dict[str, np.ndarray]) -> None: ...   # after a reset

as methods of the object that its entry point makes (a wrapper around it must pass them on).
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import gymnasium
import numpy as np

from nitro_actor import wire
from nitro_actor.engines.base import EnvironmentCallError


class StateKeeper(Protocol):
    """Save and restore the state of one environment between two steps, without its random generator.

    Attributes:
        resets: whether every `set` needs a reset before it, which takes longer than `set` itself. Otherwise
            one reset in the environment's life is enough.
    """

    resets: bool

    def get(self) -> dict[str, np.ndarray]:
        """Arrays of fixed shapes."""

    def set(self, state: dict[str, np.ndarray]) -> None:
        """Go on from what `get` returned; the environment has been reset."""


_ELAPSED = "gymnasium.TimeLimit"
"""Name of the steps that time limits inside of an environment have counted, in its state."""


class Hook:
    """The state of an environment that has `get_state` and `set_state`.

    Time limits inside of it stay on, so their counters are kept, too.
    """

    resets = True

    def __init__(self, environment: Any) -> None:
        self._environment = environment
        self._limits = [
            layer for layer in layers(environment) if isinstance(layer, gymnasium.wrappers.TimeLimit)
        ]

    def get(self) -> dict[str, np.ndarray]:
        """The state. Raises EnvironmentCallError if a message cannot have it."""
        state = {}
        for name, value in self._environment.get_state().items():
            array = np.asarray(value)
            if not isinstance(name, str) or not wire.nameable(f"state/own/{name}"):
                raise EnvironmentCallError(
                    f"get_state: the key {name!r:.60} must be a text of at most 190 printable characters"
                )
            if not wire.sendable(array.dtype):
                raise EnvironmentCallError(
                    f"get_state: {name!r} has the dtype {array.dtype}; return arrays of one of "
                    f"{wire.dtypes()}, for example by .astype(np.int64)"
                )
            state[name] = array
        if self._limits:
            state[_ELAPSED] = np.array([limit._elapsed_steps or 0 for limit in self._limits], np.int64)
        return state

    def set(self, state: dict[str, np.ndarray]) -> None:
        own = dict(state)
        elapsed = own.pop(_ELAPSED) if self._limits else ()
        self._environment.set_state(own)
        for limit, steps in zip(self._limits, elapsed, strict=True):
            limit._elapsed_steps = int(steps)  # type: ignore[assignment]


class MujocoReplay:
    """The state of one of gymnasium's MuJoCo environments: the physics before its last step, and its action.

    Derived quantities lag one substep behind the physics and some rewards start from them. Repeating the last
    step restores all of them, whichever of them the environment reads.
    """

    resets = True

    def __init__(self, environment: Any) -> None:
        import mujoco  # only here: environments without physics need not load it

        self._mujoco = mujoco
        self._signature = int(mujoco.mjtState.mjSTATE_INTEGRATION)
        self._environment = environment
        self._model, self._data = environment.unwrapped.model, environment.unwrapped.data
        self._physics = np.zeros(mujoco.mj_stateSize(self._model, self._signature))
        self._action = np.zeros(environment.action_space.shape, environment.action_space.dtype)
        self._stepped = False

    def after_reset(self) -> None:
        self._stepped = False

    def before_step(self, action: Any) -> None:
        self._mujoco.mj_getState(self._model, self._data, self._physics, self._signature)
        self._action[...] = action
        self._stepped = True

    def get(self) -> dict[str, np.ndarray]:
        if not self._stepped:
            self._mujoco.mj_getState(self._model, self._data, self._physics, self._signature)
        return {
            "physics": self._physics.copy(),
            "action": self._action.copy(),
            "stepped": np.array(self._stepped),
        }

    def set(self, state: dict[str, np.ndarray]) -> None:
        wire.check(
            state,
            {
                "physics": wire.TensorSpec("float64", self._physics.shape),
                "action": wire.TensorSpec(str(self._action.dtype), self._action.shape),
                "stepped": wire.TensorSpec("bool", ()),
            },
        )
        self._mujoco.mj_setState(self._model, self._data, state["physics"], self._signature)
        if state["stepped"]:
            self.before_step(state["action"])
            self._environment.step(state["action"])
        else:
            self._mujoco.mj_forward(self._model, self._data)
            # mj_forward moved the solver's warm start.
            self._mujoco.mj_setState(self._model, self._data, state["physics"], self._signature)


class ClassicControl:
    """The state of one of gymnasium's classic control environments: a few numbers and their precision.

    Some of them are f32 after a reset and f64 after a step, or the other way round. The precision of the next
    step's arithmetic depends on it.
    """

    resets = False

    def __init__(self, environment: Any, optional: Mapping[str, Callable[[float], Any]]) -> None:
        self._environment = environment
        self._optional = optional

    @functools.cached_property
    def _tensors(self) -> dict[str, wire.TensorSpec]:
        """Dtypes and shapes of a state, known after a reset."""
        return {name: wire.TensorSpec(str(array.dtype), array.shape) for name, array in self.get().items()}

    def get(self) -> dict[str, np.ndarray]:
        state = np.asarray(self._environment.state)
        kept = {"state": state.astype(np.float64), "single": np.array(state.dtype == np.float32)}
        for name in self._optional:
            value = getattr(self._environment, name)
            # Two numbers: whether there is a value, and the value.
            kept[name] = np.array([value is not None, 0.0 if value is None else value], np.float64)
        return kept

    def set(self, state: dict[str, np.ndarray]) -> None:
        wire.check(state, self._tensors)
        self._environment.state = state["state"].astype(np.float32 if state["single"] else np.float64)
        for name, kind in self._optional.items():
            known, value = state[name]
            setattr(self._environment, name, kind(value) if known else None)


_CLASSIC: dict[str, dict[str, Callable[[float], Any]]] = {
    "gymnasium.envs.classic_control.acrobot.AcrobotEnv": {},
    "gymnasium.envs.classic_control.cartpole.CartPoleEnv": {"steps_beyond_terminated": int},
    "gymnasium.envs.classic_control.continuous_mountain_car.Continuous_MountainCarEnv": {},
    "gymnasium.envs.classic_control.mountain_car.MountainCarEnv": {},
    "gymnasium.envs.classic_control.pendulum.PendulumEnv": {"last_u": np.float32},
}
"""The classic control classes, with the attributes beside `state` that are None or a number."""


def state_keeper(environment: gymnasium.Env[Any, Any]) -> StateKeeper | None:
    """The class that saves and restores the environment's state; None if that is not possible."""
    # An old environment's own np_random may be a RandomState, which has no bit_generator.
    if not isinstance(getattr(environment.unwrapped.np_random, "bit_generator", None), np.random.PCG64):
        return None
    inner = without_checks(environment)
    if callable(getattr(inner, "get_state", None)) and callable(getattr(inner, "set_state", None)):
        return Hook(inner)
    if inner is not inner.unwrapped:
        return None
    # Only these classes themselves: a derived class may hold more state.
    kind = f"{type(inner).__module__}.{type(inner).__qualname__}"
    if kind.startswith("gymnasium.envs.mujoco."):
        return MujocoReplay(inner)
    optional = _CLASSIC.get(kind)
    return None if optional is None else ClassicControl(inner, optional)


def without_checks(environment: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """The environment without gymnasium's own wrappers around a registered one, which hold no state."""
    # Only these classes themselves: a derived class may hold state.
    while type(environment) in (gymnasium.wrappers.OrderEnforcing, gymnasium.wrappers.PassiveEnvChecker):
        environment = environment.env  # type: ignore[attr-defined]
    return environment


def keeping_state(environment: Any) -> tuple[str, ...]:
    """The names of gymnasium's wrappers in an environment whose state goes on from episode to episode."""
    names = [
        name
        for layer in layers(environment)
        for name in ("NormalizeObservation", "NormalizeReward")
        if isinstance(layer, getattr(gymnasium.wrappers, name)) and layer.update_running_mean
    ]
    return tuple(sorted(set(names)))


def layers(environment: Any) -> Iterator[Any]:
    """An environment and all that its wrappers wrap, from the outermost to the innermost."""
    yield environment
    while isinstance(environment, gymnasium.Wrapper):
        environment = environment.env
        yield environment
