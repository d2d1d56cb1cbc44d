"""Environments that are broken in one way each, and sound ones beside them."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

_BOX = spaces.Box(-10, 10, (3,), np.float32)
_UNSEEDED = np.random.default_rng()


class Sound(gymnasium.Env[Any, Any]):
    """A walk with noise; an episode has twenty steps. It can be resumed."""

    observation_space: Any = _BOX
    action_space: Any = spaces.Box(-1, 1, (3,), np.float32)

    def __init__(self) -> None:
        self.seen = np.zeros(3, np.float32)
        self.count = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:  # noqa: ARG002
        super().reset(seed=seed)
        self.count = 0
        self.seen = self.draw()
        return self.shown(), {}

    def step(self, action: Any) -> Any:
        self.count += 1
        self.seen = np.clip(self.seen + 0.1 * self.moved(action) + 0.1 * self.draw(), -10, 10).astype(
            np.float32
        )
        return self.shown(), float(self.seen[0]), False, self.count >= 20, {}

    def moved(self, action: Any) -> Any:
        return action

    def draw(self) -> Any:
        return self.np_random.uniform(-1, 1, 3).astype(np.float32)

    def shown(self) -> Any:
        return self.seen.copy()

    def get_state(self) -> dict[str, np.ndarray]:
        return {"seen": self.seen.copy(), "count": np.array(self.count)}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        self.seen, self.count = state["seen"].copy(), int(state["count"])


class SeedIgnored(Sound):
    def draw(self) -> Any:
        return _UNSEEDED.uniform(-1, 1, 3).astype(np.float32)


class SeedIgnoredInSteps(Sound):
    def step(self, action: Any) -> Any:
        seen, _, *ends = super().step(action)
        return seen, float(_UNSEEDED.normal()), *ends


class LeftOverState(Sound):
    """What an episode changes goes on in the next one."""

    total = 0.0

    def step(self, action: Any) -> Any:
        self.total += 1.0
        seen, _, *ends = super().step(action)
        return seen, self.total, *ends


class BareObservation(Sound):
    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return super().reset(seed=seed, options=options)[0]


class ResetWithoutSeed(Sound):
    def reset(self) -> Any:  # type: ignore[override]
        return super().reset()


class ResetWithoutOptions(Sound):
    def reset(self, *, seed: int | None = None) -> Any:  # type: ignore[override]
        return super().reset(seed=seed)


class FourValues(Sound):
    def step(self, action: Any) -> Any:
        seen, reward, _, done, info = super().step(action)
        return seen, reward, done, info


def wrapped_four_values() -> Any:
    """A wrapper unpacks what the environment returns."""
    return gymnasium.wrappers.TransformReward(FourValues(), lambda reward: 2 * reward)


class Outside(Sound):
    def shown(self) -> Any:
        return self.seen + 20


class OtherDtype(Sound):
    def shown(self) -> Any:
        return self.seen.astype(np.float64)


class AsList(Sound):
    def shown(self) -> Any:
        return [float(one) for one in self.seen]


class NotANumber(Sound):
    def shown(self) -> Any:
        seen = self.seen.copy()
        if self.count == 5:
            seen[1] = np.nan
        return seen


class RewardIsText(Sound):
    def step(self, action: Any) -> Any:
        seen, _, *others = super().step(action)
        return seen, "much", *others


class RewardIsNaN(Sound):
    def step(self, action: Any) -> Any:
        seen, _, *others = super().step(action)
        return seen, float("nan"), *others


class NeverEnds(Sound):
    def step(self, action: Any) -> Any:
        seen, reward, *_ = super().step(action)
        return seen, reward, False, False, {}


class SharedObservation(Sound):
    def __init__(self) -> None:
        super().__init__()
        self.one = np.zeros(3, np.float32)

    def shown(self) -> Any:
        self.one[:] = self.seen
        return self.one


class SharedInDict(SharedObservation):
    observation_space = spaces.Dict({"a": _BOX, "b": spaces.Tuple((_BOX, spaces.Discrete(3)))})

    def shown(self) -> Any:
        self.one[:] = self.seen
        return {"a": self.seen.copy(), "b": (self.one, 1)}


class DictOutside(Sound):
    observation_space = spaces.Dict({"a": _BOX, "b": spaces.Tuple((_BOX, spaces.Discrete(3)))})

    def shown(self) -> Any:
        return {"a": self.seen.copy(), "b": (self.seen + np.float32(20), 1)}


class SharedInInfo(Sound):
    def __init__(self) -> None:
        super().__init__()
        self.told = np.zeros(2)

    def step(self, action: Any) -> Any:
        self.told += 1
        return *super().step(action)[:4], {"told": self.told}


class ChangesAction(Sound):
    def moved(self, action: Any) -> Any:
        action *= 0.5
        return action


class ForgetsState(Sound):
    def get_state(self) -> dict[str, np.ndarray]:
        return {"count": np.array(self.count)}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        self.count = int(state["count"])


class OwnGenerator(Sound):
    """Honours its seed by a generator of its own, of which gymnasium does not know."""

    own: Any = None
    get_state = None  # type: ignore[assignment]

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:  # noqa: ARG002
        if seed is not None or self.own is None:
            self.own = np.random.default_rng(seed)
        self.count = 0
        self.seen = self.draw()
        return self.shown(), {}

    def draw(self) -> Any:
        return self.own.uniform(-1, 1, 3).astype(np.float32)


class Prints(Sound):
    def __init__(self) -> None:
        super().__init__()
        print('{"end": true}')

    def step(self, action: Any) -> Any:
        print("a step", flush=True)
        sys.stdout.write("and no line break")
        return super().step(action)


class Exits(Sound):
    """Calls sys.exit, in its constructor or in a step."""

    def __init__(self, when: str) -> None:
        super().__init__()
        self.when = when
        if when == "constructor":
            sys.exit("no licence")

    def step(self, action: Any) -> Any:
        if self.when == "step":
            sys.exit("no licence")
        if self.when == "crash":
            os._exit(7)
        return super().step(action)


class NeedsDisplay(Sound):
    def __init__(self) -> None:
        super().__init__()
        raise RuntimeError("No available video device")


class Slow(Sound):
    """Takes a time to be built, or for a step."""

    def __init__(self, building: float = 0.0, step: float = 0.0) -> None:
        super().__init__()
        time.sleep(building)
        self.seconds = step

    def step(self, action: Any) -> Any:
        time.sleep(self.seconds)
        return super().step(action)


class LeavesThings(Sound):
    """Leaves a thread and a process, whose number it writes to a file."""

    def __init__(self, file: str) -> None:
        super().__init__()
        threading.Thread(target=time.sleep, args=[600], name="left").start()
        self.child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        Path(file).write_text(str(self.child.pid))


class Pair(ParallelEnv[str, Any, Any]):
    """Two agents with noise; an episode has ten steps. `how` says in which way it is broken."""

    metadata: dict[str, Any] = {"name": "pair"}  # noqa: RUF012 - as PettingZoo has it

    def __init__(self, how: str = "") -> None:
        self.possible_agents = ["a_0", "a_1"]
        self.agents: list[str] = []
        self.np_random = np.random.default_rng(0)
        self._how, self._count = how, 0
        self._one = np.zeros(3, np.float32)
        self._space, self._actions = spaces.Box(-2, 2, (3,), np.float32), spaces.Box(-1, 1, (2,), np.float32)

    def observation_space(self, agent: str) -> Any:  # noqa: ARG002
        return self._space

    def action_space(self, agent: str) -> Any:  # noqa: ARG002
        return self._actions

    def reset(self, seed: int | None = None, options: Any = None) -> Any:  # noqa: ARG002
        if seed is not None and self._how != "seed ignored":
            self.np_random = np.random.default_rng(seed)
        self.agents, self._count = list(self.possible_agents), 0
        seen = {agent: self._seen() for agent in self.agents}
        return seen if self._how == "bare observations" else (seen, {agent: {} for agent in self.agents})

    def step(self, actions: Any) -> Any:
        self._count += 1
        acted = list(self.agents)
        if self._how == "changes action":
            actions["a_1"] *= 0
        over = self._count >= 10 and self._how != "never ends"
        reward: Any = "much" if self._how == "reward is text" else float(actions["a_0"][0])
        values = [
            {agent: self._seen() for agent in acted},
            dict.fromkeys(acted, reward),
            dict.fromkeys(acted, False),
            dict.fromkeys(acted, over),
            {agent: {} for agent in acted},
        ]
        if over and self._how != "agents stay":
            self.agents = []
        return tuple(values[:4]) if self._how == "four values" else tuple(values)

    def _seen(self) -> Any:
        drawn = self.np_random.uniform(-1, 1, 3).astype(np.float32)
        if self._how == "outside":
            return drawn + np.float32(5)
        if self._how == "other dtype":
            return drawn.astype(np.float64)
        if self._how == "NaN" and self._count == 3:
            return np.full(3, np.nan, np.float32)
        if self._how == "shared observation":
            self._one[:] = drawn
            return self._one
        return drawn


class Trio(gymnasium.Env[Any, Any]):
    """Three agents in tuples of spaces; an observation may have another dtype."""

    observation_space: Any = spaces.Tuple([spaces.Box(-1, 1, (2,), np.float32)] * 3)
    action_space: Any = spaces.Tuple([spaces.Discrete(2)] * 3)

    def __init__(self, *, wrong: bool = False) -> None:
        self._wrong = wrong
        self._count = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:  # noqa: ARG002
        super().reset(seed=seed)
        self._count = 0
        return self._seen(), {}

    def step(self, action: Any) -> Any:  # noqa: ARG002
        self._count += 1
        return self._seen(), [1.0] * 3, False, self._count >= 5, {}

    def _seen(self) -> Any:
        dtype: Any = np.float64 if self._wrong else np.float32
        return tuple(self.np_random.uniform(-1, 1, 2).astype(dtype) for _ in range(3))
