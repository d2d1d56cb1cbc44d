"""Variants of Pair that differ in more than one place."""

from typing import Any

import numpy as np
from gymnasium import spaces

from parallel_environments import Agents, Pair


class Solo(Pair):
    """One of 60 agents plays each episode, drawn at random."""

    def __init__(self) -> None:
        super().__init__()
        self.possible_agents = [f"a_{i}" for i in range(60)]
        self.np_random = np.random.default_rng(0)

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[Agents, Agents]:
        super().reset(seed, options)
        if seed is not None:
            self.np_random = np.random.default_rng(seed)
        self.agents = [str(self.np_random.choice(self.possible_agents))]
        return self._seen(), {}


class Shades(Pair):
    """Its agents see bytes; a_1 sees half of one in step 3."""

    def observation_space(self, agent: str) -> spaces.Space[Any]:  # noqa: ARG002
        return spaces.Box(0, 255, (3,), np.uint8)

    def _seen(self, leaving: Any = ()) -> Agents:
        return super()._seen(leaving) | ({"a_1": np.full(3, 0.5)} if self.clock == 3 else {})


class Steered(Pair):
    """Its actions are real numbers, and yet its infos have masks: always, or from step 3 on."""

    def __init__(self, how: str = "forbidden") -> None:
        super().__init__(how)

    def action_space(self, agent: str) -> spaces.Space[Any]:  # noqa: ARG002
        return spaces.Box(-1, 1, (2,), np.float32)
