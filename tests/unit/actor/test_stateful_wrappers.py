"""gymnasium's wrappers whose state goes on from episode to episode are known, and no others are named."""

import inspect
import json
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces, wrappers

from actor_support import environment
from nitro_actor.engines.states import keeping_state


class Noise(gymnasium.Env[Any, Any]):
    """Draws all that it shows. Its episodes are of several lengths."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012 - as gymnasium has it
    render_mode = "rgb_array"

    def __init__(self, observation_space: Any, action_space: Any) -> None:
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed, options=options)
        self._left = int(self.np_random.integers(4, 9))
        return self._shown(), {}

    def step(self, action: Any) -> Any:  # noqa: ARG002
        self._left -= 1
        return self._shown(), float(self.np_random.normal()), self._left <= 0, False, {}

    def render(self) -> Any:
        return np.zeros((8, 8, 3), np.uint8)

    def _shown(self) -> Any:
        self.observation_space.seed(int(self.np_random.integers(2**31)))
        return self.observation_space.sample()


_VECTOR = spaces.Box(-1, 1, (3,), np.float32)
_IMAGE = spaces.Box(0, 255, (8, 8, 3), np.uint8)
_ONE = spaces.Box(-1, 1, (1,), np.float32)

ARGUMENTS: dict[str, dict[str, Any]] = {
    "DelayObservation": {"delay": 2},
    "DiscretizeAction": {"bins": 3},
    "DiscretizeObservation": {"bins": 3},
    "DtypeObservation": {"dtype": np.float64},
    "FilterObservation": {"filter_keys": ["a"]},
    "FrameStackObservation": {"stack_size": 3},
    "MaxAndSkipObservation": {"skip": 2},
    "RepeatAction": {"num_repeats": 2},
    "StickyAction": {"repeat_action_probability": 0.5},
    "TimeLimit": {"max_episode_steps": 5},
    "ReshapeObservation": {"shape": (3, 1)},
    "RescaleAction": {"min_action": -2.0, "max_action": 2.0},
    "RescaleObservation": {"min_obs": -2.0, "max_obs": 2.0},
    "ClipReward": {"min_reward": -1.0, "max_reward": 1.0},
    "TransformReward": {"func": lambda reward: 2 * reward},
    "TransformAction": {"func": lambda action: action, "action_space": None},
    "TransformObservation": {"func": lambda seen: seen, "observation_space": None},
    "AddWhiteNoise": {"probability_of_noise_per_pixel": 0.1},
    "ObstructView": {"obstructed_pixels_ratio": 0.1, "obstruction_width": 2},
}
SPACES = {
    "FilterObservation": (spaces.Dict({"a": _VECTOR, "b": _ONE}), _ONE),
    "GrayscaleObservation": (_IMAGE, _ONE),
}
NEED_MORE = ("AtariPreprocessing", "HumanRendering", "RecordVideo", "ResizeObservation")
"""They need packages that are not installed here, or a screen. They keep nothing."""

NAMES = [
    name
    for name in wrappers.__all__
    if inspect.isclass(vars(wrappers).get(name)) and name not in NEED_MORE  # others load what is not there
]


def wrapped(name: str) -> Any:
    inner: Any = Noise(*SPACES.get(name, (_VECTOR, _ONE)))
    if name == "TimeAwareObservation":
        inner = wrappers.TimeLimit(inner, 6)
    return getattr(wrappers, name)(inner, **ARGUMENTS.get(name, {}))


def played(env: Any, seed: int, episodes: int) -> list[Any]:
    """All that two or more episodes show, which begin with a seed."""
    env.action_space.seed(seed)
    seen = [env.reset(seed=seed)[0]]
    for _ in range(episodes):
        ended = False
        while not ended:
            *step, _ = env.step(env.action_space.sample())
            seen.append(step)
            ended = step[2] or step[3]
        seen.append(env.reset()[0])
    return seen


def differs(first: Any, second: Any) -> bool:
    try:
        np.testing.assert_equal(first, second)
    except AssertionError:
        return True
    return False


@pytest.mark.parametrize("name", NAMES)
def test_the_wrappers_whose_state_goes_on_are_named(name: str) -> None:
    """One copy is fresh, the other has played before; both then play the same episodes."""
    fresh, used = wrapped(name), wrapped(name)
    expected = played(fresh, 7, 3)
    played(used, 3, 4)
    goes_on = differs(expected, played(used, 7, 3))
    assert goes_on == (name in ("NormalizeObservation", "NormalizeReward"))
    assert keeping_state(used) == ((name,) if goes_on else ())


def normalised() -> Any:
    return wrappers.NormalizeReward(wrappers.TimeLimit(wrappers.NormalizeObservation(cart()), 9))


def cart() -> Any:
    return gymnasium.make("CartPole-v1")


def standing() -> Any:
    env = wrappers.NormalizeObservation(cart())
    env.update_running_mean = False
    return env


def derived() -> Any:
    class Own(wrappers.NormalizeObservation):  # type: ignore[misc, type-arg]
        """Derived from gymnasium's, so it keeps the same."""

    return Own(cart())


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (normalised, ["NormalizeObservation", "NormalizeReward"]),
        (derived, ["NormalizeObservation"]),
        (standing, None),
        (cart, None),
    ],
)
def test_the_environment_tells_them(make: Callable[[], Any], named: list[str] | None) -> None:
    spec = environment("own", 1, f"test_stateful_wrappers:{make.__name__}").spec.to_json()
    assert json.loads(json.dumps(spec)).get("statefulWrappers") == named
