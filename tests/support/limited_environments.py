"""Environments whose time limits carry more than a number of steps, or stand inside of other wrappers."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import WrapperSpec
from gymnasium.wrappers import TimeAwareObservation, TimeLimit

from actor_support import Walk


class Scaled(TimeLimit):
    """A time limit that pays a hundred times as much."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # type: ignore[override]
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, 100 * float(reward), terminated, truncated, info


class Ordered(gymnasium.wrappers.OrderEnforcing):
    """A check of the order that pays a hundred times as much in the second episode."""

    episodes = 0

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        self.episodes += 1
        return super().reset(**options)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:  # type: ignore[override]
        observation, reward, *rest = super().step(action)
        return observation, float(reward) * (100 if self.episodes > 1 else 1), *rest  # type: ignore[return-value]


class Outer(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A wrapper around a time limit; it passes the state on."""

    def get_state(self) -> dict[str, np.ndarray]:
        return self.unwrapped.get_state()  # type: ignore[attr-defined, no-any-return]

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        self.unwrapped.set_state(state)  # type: ignore[attr-defined]


class Endless(Walk):
    """A walk that never ends by itself."""

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        observation, *_ = super().step(action)
        return observation, 1.0, False, False, {}


def scaled() -> gymnasium.Env[Any, Any]:
    return Scaled(Endless(), 7)


def ordered() -> gymnasium.Env[Any, Any]:
    return Ordered(gymnasium.make("CartPole-v1").unwrapped)


def wrapped() -> gymnasium.Env[Any, Any]:
    return Outer(TimeLimit(Endless(), 8))


gymnasium.register("Timed-v0", Endless, max_episode_steps=20, additional_wrappers=(
    TimeAwareObservation.wrapper_spec(normalize_time=True),
))  # fmt: skip
gymnasium.register("Outer-v0", Endless, max_episode_steps=8, additional_wrappers=(
    WrapperSpec("Outer", "limited_environments:Outer", {}),
))  # fmt: skip
