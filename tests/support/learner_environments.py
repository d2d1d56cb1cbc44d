"""Environments whose best policy is known, to be found within seconds."""

import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class TwoState(gymnasium.Env[np.ndarray, Any]):
    """Two states; action 1 changes the state, and every step spent in the second pays 1.

    What an action is worth comes one step later, so advantages must look ahead. The best return
    is 19 of 20 steps; a random policy's is about 9.5. Episodes are truncated, never terminated.
    """

    observation_space = spaces.Box(0, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._state, self._steps = 0, 0
        return self._observation(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        reward = float(self._state)
        self._state ^= int(action)
        self._steps += 1
        return self._observation(), reward, False, self._steps >= 20, {}

    def _observation(self) -> np.ndarray:
        return np.eye(2, dtype=np.float32)[self._state]


class Identity(gymnasium.Env[np.ndarray, Any]):
    """The best action is the observation: a step pays -(action - observation)^2. Ends after 20 steps."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._steps = 0
        return self._draw(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        reward = -float((action[0] - self._target[0]) ** 2)
        self._steps += 1
        return self._draw(), reward, self._steps >= 20, False, {}

    def _draw(self) -> np.ndarray:
        self._target = self.np_random.uniform(-1, 1, 1).astype(np.float32)
        return self._target.copy()


class _Shown(gymnasium.Env[Any, Any]):
    """The best action is told by the observation, anew in each of 20 steps; a step pays the share of its
    numbers that are right. The best return is 20. Resumable."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._steps = 0
        self._draw()
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), f"{action!r} is not in {self.action_space}"
        reward = float((action == self._best).mean())
        self._steps += 1
        self._draw()
        return self._observation(), reward, False, self._steps >= 20, {}

    def get_state(self) -> dict[str, np.ndarray]:
        return {"best": self._best.astype(np.int64), "steps": np.array(self._steps)}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        self._best = state["best"].astype(self.action_space.dtype)
        self._steps = int(state["steps"])

    def _draw(self) -> None:
        raise NotImplementedError

    def _observation(self) -> Any:
        raise NotImplementedError


class Dials(_Shown):
    """Three dials of different sizes, which do not begin at 0. A random policy's return is 7.2. The
    observation is a Dict with another space inside."""

    action_space = spaces.MultiDiscrete([[3], [4], [2]], np.int16, start=[[1], [-1], [0]])
    observation_space = spaces.Dict(
        {
            "dials": spaces.Tuple((spaces.MultiDiscrete([3, 4]), spaces.Discrete(2, start=5))),
            "clock": spaces.Box(0, 1, (2, 1)),
        }
    )

    def _draw(self) -> None:
        self._best = self.np_random.integers(0, [[3], [4], [2]]).astype(np.int16) + self.action_space.start

    def _observation(self) -> Any:
        shown = (self._best - self.action_space.start)[:, 0]
        clock = np.full((2, 1), self._steps / 20, np.float32)
        return {"dials": (shown[:2], int(shown[2]) + 5), "clock": clock}


class Switches(_Shown):
    """Four switches in two rows. A random policy's return is 10."""

    action_space = spaces.MultiBinary((2, 2))
    observation_space = spaces.MultiBinary(4)

    def _draw(self) -> None:
        self._best = self.np_random.integers(0, 2, (2, 2), np.int8)

    def _observation(self) -> Any:
        return 1 - self._best.reshape(-1)


class Colours(gymnasium.Env[np.ndarray, Any]):
    """Coloured pictures without meaning. Episodes end, or are cut, by chance; resumable."""

    observation_space = spaces.Box(0, 255, (5, 6, 3), np.uint8)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        return self._draw(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        chance = self.np_random.random()
        return self._draw(), float(action), chance < 0.1, 0.1 <= chance < 0.2, {}

    def _draw(self) -> np.ndarray:
        return self.np_random.integers(0, 256, (5, 6, 3), np.uint8)

    def get_state(self) -> dict[str, np.ndarray]:
        return {}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        assert not state


class Catch(gymnasium.Env[np.ndarray, Any]):
    """A stone falls aslant, to the left or to the right, in pictures that show only where it is now.

    A step pays 1 for naming the side. Two frames tell it (but not the first one of a stone, which takes four
    steps), so the best mean return of 20 steps is 17.5; a random policy's is 10.
    """

    observation_space = spaces.Box(0, 255, (8, 12), np.uint8)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._steps = 0
        self._drop()
        return self._picture(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        reward = float(int(action) == (self._drift > 0))
        self._steps += 1
        self._row += 1
        self._column += self._drift
        if self._row > 3:
            self._drop()
        return self._picture(), reward, False, self._steps >= 20, {}

    def _drop(self) -> None:
        self._row = 0
        self._drift = int(self.np_random.integers(0, 2)) * 2 - 1
        self._column = int(self.np_random.integers(4, 8))

    def _picture(self) -> np.ndarray:
        picture = np.zeros((8, 12), np.uint8)
        picture[2 * self._row : 2 * self._row + 2, self._column] = 255
        return picture


class Endless(gymnasium.Env[np.ndarray, Any]):
    """Never ends an episode, and takes a millisecond for each step while the file `brake` is there: so a run
    is met where it samples."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, brake: str) -> None:
        self._brake = Path(brake)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:  # noqa: ARG002
        if self._brake.exists():
            time.sleep(0.001)
        return np.zeros(1, np.float32), 1.0, False, False, {}
