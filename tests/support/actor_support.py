"""What the actor's tests and benchmarks share: weights, requests, and environments of a user's own."""

import contextlib
import functools
import os
import re
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

from learner_environments import Dials
from nitro_actor import PROTOCOL_VERSION, keys
from nitro_actor import rollout as actors
from nitro_actor.actions import ActionSpace, Continuous, action_space
from nitro_actor.config import AtariConfig, EnvironmentConfig
from nitro_actor.environment import Environment, EnvironmentSpec
from nitro_actor.make_env import make_env
from nitro_actor.networks import NETWORKS
from nitro_actor.policy import ClassPolicies, Policies
from nitro_actor.protocol.agents import AGENT, AgentClass
from nitro_actor.protocol.fragment import AGENT_AXIS
from nitro_actor.protocol.request import OPTIONAL_TENSORS
from nitro_actor.protocol.weights import PolicyWeights, WeightsContainer
from nitro_actor.stacking import stacked_shape
from nitro_api.resolution.presets import preset_values

RUN = "test-run"


def environment(
    id_: str = "Hopper-v5",
    count: int = 2,
    entry_point: str | None = None,
    *,
    frame_stack: int = 1,
    clip_rewards: bool = False,
    atari: AtariConfig | None = None,
    **kwargs: Any,
) -> Environment:
    return make_env(EnvironmentConfig(id_, count, kwargs, entry_point, frame_stack, clip_rewards, atari))


def spec_of(
    id_: str, frame: tuple[int, ...], dtype: str, action: ActionSpace, frame_stack: int = 1
) -> EnvironmentSpec:
    """The spec of an environment of one agent, without a time limit."""
    shape = list(stacked_shape(frame, frame_stack))
    seen = {"shape": shape, "dtype": dtype, "frame": list(frame), "stack": frame_stack}
    one = AgentClass(AGENT, (AGENT,), seen, action.to_json(), mortal=False)
    return EnvironmentSpec(id_, (one,), time_limit=None, resumable=False)


def action_of(spec: EnvironmentSpec) -> ActionSpace:
    """The actions of an environment of one agent."""
    (one,) = spec.classes
    return action_space(one.action)


class Alone:
    """An environment of one agent, whose arrays tests see without the axis of its class."""

    def __init__(self, whole: Environment) -> None:
        self.whole = whole

    def __getattr__(self, name: str) -> Any:
        return getattr(self.whole, name)

    @property
    def frames(self) -> np.ndarray:
        frames: np.ndarray = self.whole.frames[AGENT][:, 0]
        return frames

    @property
    def observations(self) -> np.ndarray:
        return self.whole.observations[AGENT]

    @property
    def available(self) -> np.ndarray | None:
        available = self.whole.available.get(AGENT)
        return None if available is None else available[:, 0]

    @property
    def returns(self) -> np.ndarray:
        returns: np.ndarray = self.whole.returns[:, 0]
        return returns

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        step = self.whole.step({AGENT: np.asarray(actions)[:, None]})
        return step.rewards[AGENT][:, 0], step.terminated, step.truncated


def lone_environment(*arguments: Any, **settings: Any) -> Any:
    """As `environment`, of one agent."""
    return Alone(environment(*arguments, **settings))


def rollout(env: Any, policies: Policies, **arguments: Any) -> dict[str, np.ndarray]:
    """The rollout of one agent, without the axis and the name of its class."""
    return of_one_agent(actors.rollout(getattr(env, "whole", env), policies, **arguments))


def evaluate(env: Any, policies: Policies, **arguments: Any) -> dict[str, np.ndarray]:
    """The evaluation of one agent, likewise."""
    return of_one_agent(actors.evaluate(getattr(env, "whole", env), policies, **arguments))


def of_one_agent(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Take the class's name and axis from the arrays of one agent; the results are views."""
    plain = {}
    for name, array in tensors.items():
        field = name.removeprefix(f"{AGENT}/")
        if name != field:
            plain[field] = array[:, 0] if AGENT_AXIS[field] == 1 else array[:, :, 0]
        else:
            plain[name] = array[:, 0] if name == "episode_returns" else array
    return plain


def from_one_agent(tensors: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Undo `of_one_agent`."""
    named = {}
    for name, array in tensors.items():
        axis = AGENT_AXIS.get(name)
        if axis is not None:
            named[f"{AGENT}/{name}"] = np.expand_dims(array, axis)
        else:
            named[name] = array[:, None] if name == "episode_returns" else array
    return named


class Game:
    """An environment, and what an actor does with it."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment

    def policy(self, container: WeightsContainer) -> Policies:
        return Policies(container, self.environment.spec.classes)

    def rollout(self, policies: Policies, **arguments: Any) -> dict[str, np.ndarray]:
        return actors.rollout(self.environment, policies, **arguments)

    def evaluate(self, policies: Policies, **arguments: Any) -> dict[str, np.ndarray]:
        return actors.evaluate(self.environment, policies, **arguments)


def weights(
    spec: EnvironmentSpec,
    *,
    version: int = 1,
    hidden: tuple[int, ...] = (16, 16),
    activation: str = "tanh",
    log_std: str = "parameter",
    normalise: bool = True,
) -> PolicyWeights:
    """A policy that fits the environment, with random parameters that depend on the version."""
    (one,) = spec.classes
    shape, actions = tuple(one.observation["shape"]), action_space(one.action)
    rng = np.random.default_rng(version)
    tensors: dict[str, np.ndarray] = {}
    fan_in = int(np.prod(shape))
    for i, width in enumerate(hidden):
        tensors[f"policy.layers.{i}.weight"] = rng.normal(0, fan_in**-0.5, (width, fan_in)).astype(np.float32)
        tensors[f"policy.layers.{i}.bias"] = rng.normal(0, 0.1, width).astype(np.float32)
        fan_in = width
    continuous = isinstance(actions, Continuous)
    outputs = actions.outputs * (2 if continuous and log_std == "state" else 1)
    tensors["policy.head.weight"] = rng.normal(0, 0.3 * fan_in**-0.5, (outputs, fan_in)).astype(np.float32)
    tensors["policy.head.bias"] = rng.normal(0, 0.1, outputs).astype(np.float32)
    if continuous and log_std == "parameter":
        tensors["policy.log_std"] = np.full(actions.outputs, -0.5, np.float32)
    if normalise:
        tensors["observation.mean"] = rng.normal(0, 0.1, shape)
        tensors["observation.var"] = rng.uniform(0.5, 2.0, shape)
    network = {
        "kind": "mlp",
        "hidden": list(hidden),
        "activation": activation,
        **actions.network(),
        "logStd": log_std,
    }
    return PolicyWeights(network, tensors, 10.0)


def container(spec: EnvironmentSpec, *, version: int = 1, **options: Any) -> bytes:
    """The weights container of such a policy."""
    return WeightsContainer.of_one_agent(RUN, version, weights(spec, version=version, **options)).encode()


def policies_of(given: PolicyWeights, spec: EnvironmentSpec) -> Policies:
    """The policy of an environment of one agent, as an actor has it."""
    return Policies(WeightsContainer.of_one_agent(RUN, 1, given), spec.classes)


def policy_of(given: PolicyWeights, spec: EnvironmentSpec) -> ClassPolicies:
    """The same, to be asked for its distribution and its actions."""
    return policies_of(given, spec).classes[AGENT]


def conv_weights(spec: EnvironmentSpec, preset: str) -> PolicyWeights:
    """A policy with a preset's convolutional network and random parameters."""
    values = preset_values(preset, atari=True, conv=True)
    layers, hidden = values["network.convLayers"], values["network.hiddenSizes"]
    network = {"kind": "conv", "convolutions": layers, "hidden": hidden, "activation": "relu"}
    network |= {"head": "categorical", "logStd": "parameter"}
    shapes, width = NETWORKS["conv"].parameters(network, spec.classes[0].observation["shape"])
    head = {
        "policy.head.weight": (action_of(spec).outputs, width),
        "policy.head.bias": (action_of(spec).outputs,),
    }
    rng = np.random.default_rng(0)
    tensors = {
        name: rng.normal(0, 0.02, shape).astype(np.float32)
        for name, shape in ({name: one.shape for name, one in shapes.items()} | head).items()
    }
    return PolicyWeights(network, tensors)


def request(**changes: Any) -> dict[str, Any]:
    """Metadata of a rollout request."""
    meta = {
        "protocol": PROTOCOL_VERSION,
        "kind": "rollout",
        "run": RUN,
        "round": 3,
        "slot": 5,
        "attempt": 0,
        "seed": 1234,
        "weights": {"version": 1, "key": keys.weights(RUN, 1)},
        "steps": 64,
        "optionalTensors": list(OPTIONAL_TENSORS),
        "result": {"key": keys.round_fragments(RUN, 3), "ttl": 60},
    }
    return meta | changes


class Walk(gymnasium.Env[np.ndarray, Any]):
    """A random walk of a user's own, resumable by the documented hook. It ends at +-5 or after 20 steps."""

    observation_space = spaces.Box(-10, 10, (2,), np.float64)
    action_space = spaces.Discrete(3, start=-1)

    def __init__(self, drift: float = 0.0) -> None:
        self._drift = drift
        self._state = np.zeros(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._state = np.array([self.np_random.normal(), 0.0])
        return self._state.copy(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        assert action in (-1, 0, 1)
        self._state += [action + self._drift + 0.1 * self.np_random.normal(), 1.0]
        position, time = self._state
        return self._state.copy(), float(position), bool(abs(position) > 5), bool(time >= 20), {}

    def get_state(self) -> dict[str, np.ndarray]:
        return {"state": self._state.copy()}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        self._state = state["state"].copy()


class SlowWalk(Walk):
    """A walk whose steps take so many seconds."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        time.sleep(self._seconds)
        return super().step(action)


class HeldWalk(Walk):
    """A walk whose steps wait for the file `go` in a folder. Each process that waits leaves a file there."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._folder = Path(folder)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        (self._folder / f"waits-{os.getpid()}").touch()
        while not (self._folder / "go").exists():
            time.sleep(0.01)
        return super().step(action)


class Forgetful(Walk):
    """The same without the hook."""

    get_state = None  # type: ignore[assignment]
    set_state = None  # type: ignore[assignment]


class HeavyCartPole(CartPoleEnv):
    """Derived from gymnasium's, with state of its own that only it knows of."""

    weight = 1.0

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.weight *= 1.01
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, float(reward) / self.weight, terminated, truncated, info


class Pixels(gymnasium.Env[np.ndarray, Any]):
    """Small uint8 pictures and actions of shape (2, 1) with one bound missing."""

    observation_space = spaces.Box(0, 255, (4, 4, 1), np.uint8)
    action_space = spaces.Box(np.array([[-1.0], [-np.inf]]), np.array([[1.0], [np.inf]]), dtype=np.float64)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        return self.np_random.integers(0, 256, (4, 4, 1), np.uint8), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action)
        return self.np_random.integers(0, 256, (4, 4, 1), np.uint8), 1.0, False, False, {}


class Dimmed(Pixels):
    """The same pictures as floats, times a factor."""

    def __init__(self, factor: float, dtype: str = "float64") -> None:
        self._factor, self._dtype = factor, dtype

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        picture, *rest = super().step(action)
        return self._factor * picture.astype(self._dtype), *rest


class Stuck(Walk):
    """Its first step never ends."""

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        threading.Event().wait()
        return super().step(action)


class Locked(Walk):
    """Its first step never ends, and holds Python's lock: no other thread runs."""

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        re.match(r"(a+)+$", "a" * 60 + "b")
        return super().step(action)


class Loud(Walk):
    """Prints bytes that are no text, then a line that is."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        os.write(1, b"\xff caf\xe9\n")
        os.write(1, b"a second line\n")
        return super().reset(seed=seed, options=options)


class Broken(Walk):
    """Fails at step 7, in the way it is told to."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self._how = how
        self._steps = 0

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        observation, reward, *rest = super().step(action)
        self._steps += 1
        if self._steps == 7:
            if self._how == "raise":
                raise ZeroDivisionError("the wheel came off")
            if self._how == "shape":
                observation = np.zeros(3)
            if self._how == "observation":
                observation = np.array([np.nan, 0.0])
            if self._how == "reward":
                reward = float("inf")
        return observation, reward, *rest


class Hoarder(Walk):
    """Its state has so many bytes more."""

    def __init__(self, hoard: int) -> None:
        super().__init__()
        self._hoard = np.zeros(hoard, np.uint8)

    def get_state(self) -> dict[str, np.ndarray]:
        return {**super().get_state(), "hoard": self._hoard}


class OddState(Walk):
    """Its state is of a kind that no message can have."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self._how = how

    def get_state(self) -> dict[str, np.ndarray]:
        odd: dict[Any, Any] = {
            "int16": {"x": np.zeros(3, np.int16)},
            "text": {"x": "a"},
            "key": {0: np.ones(1)},
        }
        return {**super().get_state(), **odd[self._how]}


class OtherShape(Walk):
    """Begins with another shape than its space's."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        return np.zeros(3), super().reset(seed=seed, options=options)[1]


class Narrow(Walk):
    """Its bounds lie between two numbers of float32."""

    action_space = spaces.Box(-0.1, 0.1, (1,), np.float64)  # type: ignore[assignment]

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action)
        return super().step(0)


class Legacy(Walk):
    """Seeds NumPy's global generator, and begins with an old one of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.np_random = np.random.RandomState(0)  # type: ignore[assignment]

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        if seed is not None:
            np.random.seed(seed)
        return super().reset(seed=seed, options=options)


class Few(Walk):
    """There may be two of it."""

    made = 0

    def __init__(self) -> None:
        super().__init__()
        Few.made += 1
        if Few.made > 2:  # one tells of its wrappers and its spaces
            raise OSError("the port is in use")


class SequenceInDict(Walk):
    observation_space = spaces.Dict(  # type: ignore[assignment]
        {"place": spaces.Discrete(2), "seen": spaces.Tuple((spaces.Sequence(spaces.Discrete(2)),))}
    )


class ImageInDict(Walk):
    observation_space = spaces.Dict(  # type: ignore[assignment]
        {"camera": spaces.Box(0, 255, (8, 8, 3), np.uint8), "speed": spaces.Box(-1, 1, (1,))}
    )


class TextSpace(Walk):
    observation_space = spaces.Text(5)  # type: ignore[assignment]


class ManyPlaces(Walk):
    observation_space = spaces.Tuple((spaces.Discrete(10**9),))  # type: ignore[assignment]


class WrongDials(Dials):
    """Shows a dial that its space does not have, from the second observation on."""

    def _observation(self) -> Any:
        shown = super()._observation()
        dials, last = shown["dials"]
        return {**shown, "dials": (dials + 9 * min(self._steps, 1), last)}


class ManyActions(Walk):
    """More actions than a policy can have, of a kind."""

    def __init__(self, kind: str) -> None:
        many = {
            "Discrete": spaces.Discrete(10**8, start=-5),
            "MultiDiscrete": spaces.MultiDiscrete([10**18] * 10),
            "many numbers": spaces.MultiDiscrete([[2] * 30_000] * 2),
            "MultiBinary": spaces.MultiBinary((10**5, 10**5)),
            "Box": spaces.Box(-1, 1, (100_001,)),
        }
        self.action_space = many[kind]


class NothingSeen(Walk):
    observation_space = spaces.Box(0, 1, (0,), np.float32)  # type: ignore[assignment]


class EmptyImage(Walk):
    observation_space = spaces.Box(0, 255, (0, 84, 84), np.uint8)  # type: ignore[assignment]


class NothingToDo(Walk):
    action_space = spaces.Box(-1, 1, (2, 0), np.float32)  # type: ignore[assignment]


class DictActions(Walk):
    action_space = spaces.Dict({"a": spaces.Discrete(3)})  # type: ignore[assignment]


def limited_walk() -> gymnasium.Env[np.ndarray, Any]:
    """A factory with a time limit around it."""
    return gymnasium.wrappers.TimeLimit(Walk(), 8)


def normalised_walk() -> gymnasium.Env[np.ndarray, Any]:
    """A walk in a wrapper that gathers statistics over its episodes."""
    return gymnasium.wrappers.NormalizeObservation(Walk())


def gated_walk(passes: str) -> gymnasium.Env[np.ndarray, Any]:
    """A factory that waits for a file in the folder `passes` and removes it: one file lets one process in."""
    _wait_for_pass(Path(passes))
    return Walk()


@functools.cache
def _wait_for_pass(passes: Path) -> None:
    while True:
        for one in passes.iterdir():
            with contextlib.suppress(FileNotFoundError):
                one.unlink()
                return
        time.sleep(0.01)
