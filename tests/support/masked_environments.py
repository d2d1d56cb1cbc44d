"""Environments of one agent that forbid actions, and raise where a forbidden one is taken."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, pairwise
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

SPACES: dict[str, Any] = {
    "Discrete": spaces.Discrete(5, start=-1),
    "MultiDiscrete": spaces.MultiDiscrete([[3], [2], [4]], np.int16, start=[[1], [-1], [0]]),
    "MultiBinary": spaces.MultiBinary((2, 2)),
}
SIZES = {"Discrete": [5], "MultiDiscrete": [3, 2, 4], "MultiBinary": [2] * 4}
"""How many choices each number of an action has."""


class ForbiddenError(RuntimeError):
    """A forbidden action was taken."""


class Doors(gymnasium.Env[Any, Any]):
    """In each step some choices are forbidden, by chance. The best action is the last allowed choice of each
    number, which the observation shows; a step pays the share of its numbers that are right, at most 1.

    Episodes end by chance or are cut by chance, and nothing is allowed when one is over. Resumable.

    Args:
        kind: of the action space.
        form: `dict`, with the mask in the observation, or `method`.
        shape: of the mask; one axis by default.
        change: of a mask before it is given, for masks that are wrong.
    """

    def __init__(
        self,
        kind: str = "Discrete",
        form: str = "dict",
        shape: Any = None,
        change: Callable[[Any], Any] | None = None,
    ) -> None:
        self.sizes, self.form, self.shape, self.change = SIZES[kind], form, shape, change
        self.action_space = SPACES[kind]
        self.observation_space = seen = spaces.Box(-1, 1, (sum(self.sizes),), np.float32)
        if form == "dict":
            mask = spaces.Box(0, 1, shape or (sum(self.sizes),), np.int8)
            self.observation_space = spaces.Dict({"action_mask": mask, "observation": seen})
        else:
            self.action_masks = self._told

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._draw()
        return self._seen(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        chosen = self.numbers(action)
        begins = np.cumsum(self.sizes) - self.sizes
        if not self._mask[begins + chosen].all():
            raise ForbiddenError(f"{action!r} is forbidden by {self._mask}")
        reward = float((begins + chosen == self._best()).mean())
        self._draw()
        chance = self.np_random.random()
        ended, cut = chance < 0.05, 0.05 <= chance < 0.1
        if ended or cut:
            self._mask[:] = False
        return self._seen(), reward, ended, cut, {}

    def numbers(self, action: Any) -> Any:
        """An action as numbers from 0."""
        assert self.action_space.contains(action), f"{action!r} is not in {self.action_space}"
        return np.asarray(action - getattr(self.action_space, "start", 0)).reshape(-1)

    def get_state(self) -> dict[str, np.ndarray]:
        return {"mask": self._mask}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        self._mask = state["mask"].copy()

    def _draw(self) -> None:
        parts = []
        for size in self.sizes:
            part = self.np_random.random(size) < 0.4
            part[self.np_random.integers(size)] = True
            parts.append(part)
        self._mask = np.concatenate(parts)

    def _best(self) -> Any:
        begins = np.cumsum([0, *self.sizes])
        parts = [self._mask[begin:end] for begin, end in pairwise(begins)]
        return np.array(
            [begin + np.flatnonzero(part)[-1] for begin, part in zip(begins, parts, strict=False)]
        )

    def _told(self) -> Any:
        told = self._mask.copy() if self.shape is None else self._mask.reshape(self.shape)
        return told if self.change is None else self.change(told)

    def _seen(self) -> Any:
        seen = np.zeros(sum(self.sizes), np.float32)
        if self._mask.any():
            seen[self._best()] = 1
        if self.form == "method":
            return seen
        return {"observation": seen, "action_mask": np.asarray(self._told(), np.int8)}


class Wrapped(gymnasium.Wrapper[Any, Any, Any, Any]):
    """A wrapper that knows nothing of masks."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(Doors(**arguments))


class Parts(Doors):
    """The mask is beside two other parts, of which one is a Dict."""

    def __init__(self) -> None:
        super().__init__()
        assert isinstance(self.observation_space, spaces.Dict)
        self.observation_space = spaces.Dict(
            {**self.observation_space.spaces, "more": spaces.Dict({"dial": spaces.Discrete(3)})}
        )

    def _seen(self) -> Any:
        return super()._seen() | {"more": {"dial": 2}}


class Pictures(Doors):
    """Pictures beside the mask."""

    def __init__(self) -> None:
        super().__init__()
        mask = spaces.MultiBinary(5)
        seen = spaces.Box(0, 255, (6, 5), np.uint8)
        self.observation_space = spaces.Dict({"observation": seen, "action_mask": mask})

    def _seen(self) -> Any:
        seen = super()._seen()
        picture = np.repeat((seen["observation"] * 255).astype(np.uint8)[None], 6, axis=0)
        return seen | {"observation": picture}


class Steering(Doors):
    """Real numbers, which no mask can forbid."""

    def __init__(self, form: str = "dict") -> None:
        super().__init__(form=form)
        self.action_space = spaces.Box(-1, 1, (2,), np.float32)


def nothing(mask: Any) -> Any:
    """A mask that forbids everything."""
    return np.zeros_like(mask)


def no_last(mask: Any) -> Any:
    """A mask that forbids every value of the last number."""
    return np.concatenate([mask[:-2], [0, 0]])


def wrong(kind: str, how: str) -> Doors:
    """Doors whose masks are wrong, with `later` from the 40th one on."""
    calls = count(1)
    changes: dict[str, Callable[[Any], Any]] = {
        "nothing": nothing,
        "last": no_last,
        "short": lambda mask: mask[1:],
        "later": lambda mask: mask * (next(calls) < 40),
        "none": lambda _: None,
        "ragged": lambda mask: [mask[:2], mask[2:3]],
    }
    return Doors(kind, "method", change=changes[how])
