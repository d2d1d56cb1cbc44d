"""The base of gymnasium's MuJoCo locomotion tasks: observations, rewards and termination over E copies.

Source: gymnasium/envs/mujoco/*_v5.py. Every expression keeps gymnasium's dtypes and its order of operations
(the control cost, for one, is computed in f32), so results are equal to the bit; the tests compare them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

Noise = tuple[NDArray[np.float64], NDArray[np.float64]]
Bounds = NDArray[np.float64]
Costs = NDArray[np.floating[Any]]
Outcome = tuple[NDArray[np.float64], NDArray[np.bool_]]


class Task:
    """One task over E copies. `state` is always f64 [E, nq + nv]: positions, then velocities.

    Attributes:
        xml: the model's file among gymnasium's assets.
        defaults: the keyword arguments that are honoured, with gymnasium's defaults.
        hidden: how many leading positions an observation leaves out by default.
        position: f64 [E], the positions from which the forward speed of the next step is measured.
    """

    xml: ClassVar[str]
    defaults: ClassVar[dict[str, Any]]
    hidden: ClassVar[int]
    velocity_limit: ClassVar[float | None] = None
    gaussian_velocity_noise: ClassVar[bool] = False
    needs_contact_forces: ClassVar[bool] = False

    def __init__(self, model: Any, data: Sequence[Any], options: Mapping[str, Any]) -> None:
        self.options: dict[str, Any] = {**self.defaults, **options}
        self.frame_skip: int = self.options["frame_skip"]
        self.position = np.zeros(len(data))
        self._model = model
        self._data = data
        self._seconds = model.opt.timestep * self.frame_skip
        self._skip = self.hidden if self.options["exclude_current_positions_from_observation"] else 0
        self._terminates = self.options.get("terminate_when_unhealthy", False)
        self._never = np.zeros(len(data), bool)
        self._range, self._low, self._high = self.healthy_range()

    @property
    def observation_size(self) -> int:
        return int(self._model.nq + self._model.nv) - self._skip

    def reset_noise(self, generator: np.random.Generator) -> Noise:
        """Noise that a reset adds to the model's initial positions and velocities."""
        scale = self.options["reset_noise_scale"]
        position = generator.uniform(-scale, scale, self._model.nq)
        if self.gaussian_velocity_noise:
            return position, scale * generator.standard_normal(self._model.nv)
        return position, generator.uniform(-scale, scale, self._model.nv)

    def begin(self, index: int, state: NDArray[np.float64]) -> None:
        """Take note that a new episode began in one copy."""
        self.position[index] = self.locate(state)[index]

    def locate(self, state: NDArray[np.float64]) -> NDArray[np.float64]:
        """The forward position of each copy, f64 [E]."""
        return state[:, 0]

    def observe(self, state: NDArray[np.float64], out: NDArray[np.float32], rows: slice) -> None:
        """Write the observations of some copies."""
        width = state.shape[1] - self._skip
        out[rows, :width] = state[rows, self._skip :]
        if self.velocity_limit is not None:
            velocity = out[rows, self._model.nq - self._skip : width]
            np.minimum(velocity, self.velocity_limit, out=velocity)
            np.maximum(velocity, -self.velocity_limit, out=velocity)

    def outcome(self, state: NDArray[np.float64], actions: NDArray[np.float32]) -> Outcome:
        """Rewards and terminations of the step that led to `state`."""
        position = self.locate(state)
        speed = (position - self.position) / self._seconds
        self.position[:] = position
        rewards = self.options["forward_reward_weight"] * speed
        terminated = self._never
        if "healthy_reward" in self.options:
            healthy = self.healthy(state)
            rewards += healthy * self.options["healthy_reward"]
            if self._terminates:
                terminated = ~healthy
        rewards -= self.cost(actions)
        return rewards, terminated

    def healthy_range(self) -> tuple[slice, Bounds, Bounds]:
        """The part of the state that decides whether a copy may go on, and its bounds, both exclusive."""
        return slice(0), np.empty(0), np.empty(0)

    def healthy(self, state: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Whether each copy may go on, bool [E]."""
        part = state[:, self._range]
        healthy: NDArray[np.bool_] = np.logical_and.reduce((self._low < part) & (part < self._high), axis=1)
        return healthy

    def cost(self, actions: NDArray[np.floating[Any]]) -> Costs:
        """Costs of the actions, [E]."""
        cost: Costs = self.options["ctrl_cost_weight"] * np.add.reduce(np.square(actions), axis=1)
        return cost
