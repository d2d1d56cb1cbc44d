"""Random actions in one copy of an environment, and what comes of them.

The environment is an actor's own, so it is played exactly as in a training.
"""

import time
from collections.abc import Mapping

import numpy as np

from nitro_actor import masks
from nitro_actor.actions import ActionSpace, action_space
from nitro_actor.check_process import Calls
from nitro_actor.environment import Environment

Seen = dict[str, np.ndarray]
"""What a reset or a step led to, by names for a sentence."""


class Player:
    """Play one copy.

    Args:
        calls: is told each reset and step.

    Attributes:
        steps: of the running episode.
        episodes: that have ended.
        step_seconds: that all steps took.
        reset_seconds: that the last reset took.
    """

    def __init__(self, environment: Environment, calls: Calls) -> None:
        self.environment = environment
        self.calls = calls
        self.steps = self.episodes = 0
        self.step_seconds = self.reset_seconds = 0.0
        self._spaces = {
            agent_class.name: (action_space(agent_class.action), len(agent_class.agents))
            for agent_class in environment.spec.classes
        }
        self.draw_from(0)

    def draw_from(self, seed: int) -> None:
        """Draw the same actions again from here on."""
        self._generator = np.random.Generator(np.random.PCG64(seed))

    def begin(self, seed: int) -> Seen:
        """Begin an episode with a seed."""
        began = time.perf_counter()
        with self.calls.during("reset"):
            self.environment.reset([seed])
        self.reset_seconds = time.perf_counter() - began
        self.steps = 0
        return self._seen()

    def play(self) -> Seen:
        """Play one step, and begin the next episode where one ends."""
        drawn = {name: self._draw(name, *space) for name, space in self._spaces.items()}
        began = time.perf_counter()
        with self.calls.during("step"):
            step = self.environment.step(drawn)
        self.step_seconds += time.perf_counter() - began
        results = self._by_class("the reward", step.rewards)
        terminated, truncated = step.terminated, step.truncated
        ends = {"terminated": np.array(terminated[0]), "truncated": np.array(truncated[0])}
        seen = results | ends | self._seen()
        self.steps += 1
        if terminated[0] or truncated[0]:
            with self.calls.during("reset"):
                self.environment.reset_one(0)
            self.steps, self.episodes = 0, self.episodes + 1
            seen |= {f"{name} of the next episode": value for name, value in self._seen().items()}
        return seen

    def _draw(self, name: str, space: ActionSpace, agents: int) -> np.ndarray:
        distribution = np.zeros((1, agents, space.parameters), np.float32)
        mask = self.environment.available.get(name)
        if mask is not None:
            masks.apply(mask, space, distribution)
        drawn = np.empty((1, agents, *space.shape), space.dtype)
        space.sample(distribution, space.noise(self._generator, (1, agents)), drawn)
        return drawn

    def _seen(self) -> Seen:
        return self._by_class("the observation", self.environment.frames)

    def _by_class(self, what: str, arrays: Mapping[str, np.ndarray]) -> Seen:
        """Copies of arrays [1, n_c, ...] by names for a sentence; one agent needs no name."""
        if not self.environment.spec.several:
            (array,) = arrays.values()
            return {what: np.array(array[0, 0])}
        return {f"{what} of {name}": array[0].copy() for name, array in arrays.items()}


def difference(first_play: list[Seen], second_play: list[Seen]) -> tuple[str, bool] | None:
    """Where two plays first differ, as a sentence's end, and whether only in the last digits; None where
    they are equal to the bit."""
    for index, (first, second) in enumerate(zip(first_play, second_play, strict=False)):
        when = "after reset" if index == 0 else f"after {index} step{'s' if index > 1 else ''}"
        for name in first:
            a, b = first[name], second.get(name)
            if b is None or a.shape != b.shape:
                return f"{when} one play has {name}, and the other has not", False
            same = (a == b) | (np.isnan(a) & np.isnan(b)) if a.dtype.kind == "f" else a == b
            if not same.all():
                place = tuple(np.argwhere(~same)[0]) if a.ndim else ()
                at = f"[{', '.join(map(str, place))}]" if place else ""
                close = a.dtype.kind == "f" and bool(np.allclose(a, b, 1e-5, 1e-5, equal_nan=True))
                return f"{when} {name}{at} is {a[place]} and {b[place]}", close
    return None
