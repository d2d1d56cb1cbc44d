"""Observations, rewards and termination of gymnasium's MuJoCo locomotion tasks, vectorised over E copies.

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
        position: f64 [E], where the forward speed of the next step is measured from.
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
        """What a reset adds to the model's initial positions and velocities."""
        scale = self.options["reset_noise_scale"]
        position = generator.uniform(-scale, scale, self._model.nq)
        if self.gaussian_velocity_noise:
            return position, scale * generator.standard_normal(self._model.nv)
        return position, generator.uniform(-scale, scale, self._model.nv)

    def begin(self, index: int, state: NDArray[np.float64]) -> None:
        """A new episode began in one copy."""
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
        """What the actions cost, [E]."""
        cost: Costs = self.options["ctrl_cost_weight"] * np.add.reduce(np.square(actions), axis=1)
        return cost


class Hopper(Task):
    xml = "hopper.xml"
    hidden = 1
    velocity_limit = 10.0
    defaults: ClassVar = {
        "frame_skip": 4,
        "forward_reward_weight": 1.0,
        "ctrl_cost_weight": 1e-3,
        "healthy_reward": 1.0,
        "terminate_when_unhealthy": True,
        "healthy_state_range": (-100.0, 100.0),
        "healthy_z_range": (0.7, float("inf")),
        "healthy_angle_range": (-0.2, 0.2),
        "reset_noise_scale": 5e-3,
        "exclude_current_positions_from_observation": True,
    }

    def healthy_range(self) -> tuple[slice, Bounds, Bounds]:
        # Height, angle (which is bounded as part of the state, too), and the rest of the state.
        low, high = (
            np.full(self._model.nq + self._model.nv - 1, b) for b in self.options["healthy_state_range"]
        )
        low[0], high[0] = self.options["healthy_z_range"]
        angle_low, angle_high = self.options["healthy_angle_range"]
        low[1], high[1] = max(angle_low, low[1]), min(angle_high, high[1])
        return slice(1, None), low, high


class Walker2d(Task):
    xml = "walker2d_v5.xml"
    hidden = 1
    velocity_limit = 10.0
    defaults: ClassVar = {
        "frame_skip": 4,
        "forward_reward_weight": 1.0,
        "ctrl_cost_weight": 1e-3,
        "healthy_reward": 1.0,
        "terminate_when_unhealthy": True,
        "healthy_z_range": (0.8, 2.0),
        "healthy_angle_range": (-1.0, 1.0),
        "reset_noise_scale": 5e-3,
        "exclude_current_positions_from_observation": True,
    }

    def healthy_range(self) -> tuple[slice, Bounds, Bounds]:
        low, high = np.transpose([self.options["healthy_z_range"], self.options["healthy_angle_range"]])
        return slice(1, 3), low, high


class HalfCheetah(Task):
    xml = "half_cheetah.xml"
    hidden = 1
    gaussian_velocity_noise = True
    defaults: ClassVar = {
        "frame_skip": 5,
        "forward_reward_weight": 1.0,
        "ctrl_cost_weight": 0.1,
        "reset_noise_scale": 0.1,
        "exclude_current_positions_from_observation": True,
    }


class Swimmer(Task):
    xml = "swimmer.xml"
    hidden = 2
    defaults: ClassVar = {
        "frame_skip": 4,
        "forward_reward_weight": 1.0,
        "ctrl_cost_weight": 1e-4,
        "reset_noise_scale": 0.1,
        "exclude_current_positions_from_observation": True,
    }


class Ant(Task):
    xml = "ant.xml"
    hidden = 2
    gaussian_velocity_noise = True
    needs_contact_forces = True
    defaults: ClassVar = {
        "frame_skip": 5,
        "forward_reward_weight": 1,
        "ctrl_cost_weight": 0.5,
        "contact_cost_weight": 5e-4,
        "healthy_reward": 1.0,
        "main_body": 1,
        "terminate_when_unhealthy": True,
        "healthy_z_range": (0.2, 1.0),
        "contact_force_range": (-1.0, 1.0),
        "reset_noise_scale": 0.1,
        "exclude_current_positions_from_observation": True,
        "include_cfrc_ext_in_observation": True,
    }

    def __init__(self, model: Any, data: Sequence[Any], options: Mapping[str, Any]) -> None:
        super().__init__(model, data, options)
        self._body = [one.body(self.options["main_body"]).xpos for one in data]
        self._shown = bool(self.options["include_cfrc_ext_in_observation"])

    @property
    def observation_size(self) -> int:
        return super().observation_size + self._shown * 6 * (int(self._model.nbody) - 1)

    def locate(self, state: NDArray[np.float64]) -> NDArray[np.float64]:  # noqa: ARG002
        return np.array([xpos[0] for xpos in self._body])

    def observe(self, state: NDArray[np.float64], out: NDArray[np.float32], rows: slice) -> None:
        super().observe(state, out, rows)
        if self._shown:
            out[rows, state.shape[1] - self._skip :] = self._contact_forces(rows)[:, 6:]

    def healthy(self, state: NDArray[np.float64]) -> NDArray[np.bool_]:
        low, high = self.options["healthy_z_range"]
        z = state[:, 2]
        healthy: NDArray[np.bool_] = np.isfinite(state).all(axis=1) & (low <= z) & (z <= high)
        return healthy

    def cost(self, actions: NDArray[np.floating[Any]]) -> Costs:
        forces = self._contact_forces(slice(None))
        contact: Costs = self.options["contact_cost_weight"] * np.add.reduce(np.square(forces), axis=1)
        return super().cost(actions) + contact

    def _contact_forces(self, rows: slice) -> NDArray[np.float64]:
        low, high = self.options["contact_force_range"]
        forces = np.array([data.cfrc_ext.reshape(-1) for data in self._data[rows]])
        np.clip(forces, low, high, out=forces)
        return forces


class Humanoid(Task):
    xml = "humanoid.xml"
    hidden = 2
    needs_contact_forces = True
    defaults: ClassVar = {
        "frame_skip": 5,
        "forward_reward_weight": 1.25,
        "ctrl_cost_weight": 0.1,
        "contact_cost_weight": 5e-7,
        "contact_cost_range": (-np.inf, 10.0),
        "healthy_reward": 5.0,
        "terminate_when_unhealthy": True,
        "healthy_z_range": (1.0, 2.0),
        "reset_noise_scale": 1e-2,
        "exclude_current_positions_from_observation": True,
        "include_cinert_in_observation": True,
        "include_cvel_in_observation": True,
        "include_qfrc_actuator_in_observation": True,
        "include_cfrc_ext_in_observation": True,
    }

    def __init__(self, model: Any, data: Sequence[Any], options: Mapping[str, Any]) -> None:
        super().__init__(model, data, options)
        # The root body's entries are always zero and not shown, nor the free joint's actuator forces.
        shown = {"cinert": 1, "cvel": 1, "qfrc_actuator": 6, "cfrc_ext": 1}
        names = [name for name in shown if self.options[f"include_{name}_in_observation"] is True]
        self._extras = [[getattr(one, name)[shown[name] :].reshape(-1) for name in names] for one in data]

    @property
    def observation_size(self) -> int:
        return super().observation_size + sum(int(part.size) for part in self._extras[0])

    def locate(self, state: NDArray[np.float64]) -> NDArray[np.float64]:  # noqa: ARG002
        mass = self._model.body_mass
        return np.array([(np.einsum("b,bj->j", mass, one.xipos) / mass.sum())[0] for one in self._data])

    def observe(self, state: NDArray[np.float64], out: NDArray[np.float32], rows: slice) -> None:
        super().observe(state, out, rows)
        start = state.shape[1] - self._skip
        if self._extras[0]:
            for row, parts in zip(out[rows], self._extras[rows], strict=True):
                row[start:] = np.concatenate(parts)

    def healthy_range(self) -> tuple[slice, Bounds, Bounds]:
        low, high = self.options["healthy_z_range"]
        return slice(2, 3), np.array([low]), np.array([high])

    def cost(self, actions: NDArray[np.floating[Any]]) -> Costs:
        # gymnasium squares the simulator's controls here, which are f64.
        control = super().cost(actions.astype(np.float64))
        low, high = self.options["contact_cost_range"]
        forces = np.array([one.cfrc_ext.reshape(-1) for one in self._data])
        contact: Costs = self.options["contact_cost_weight"] * np.add.reduce(np.square(forces), axis=1)
        return control + np.clip(contact, low, high)


TASKS: dict[str, type[Task]] = {
    "Hopper-v5": Hopper,
    "Walker2d-v5": Walker2d,
    "HalfCheetah-v5": HalfCheetah,
    "Swimmer-v5": Swimmer,
    "Ant-v5": Ant,
    "Humanoid-v5": Humanoid,
}

MAX_EPISODE_STEPS = 1000
"""Time limit of all of them in gymnasium's registry."""


def supports(environment: str, options: Mapping[str, object]) -> bool:
    """Whether the fast engine computes this environment with these keyword arguments."""
    task = TASKS.get(environment)
    return task is not None and set(options) <= set(task.defaults)
