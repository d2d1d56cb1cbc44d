"""The tasks of gymnasium that the fast engine for MuJoCo computes."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from nitro_actor.engines.task import Bounds, Costs, Task


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
        self._body = [mj_data.body(self.options["main_body"]).xpos for mj_data in data]
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
        # Two parts are not shown: the root body's entries, which are always zero, and the free joint's
        # actuator forces.
        shown = {"cinert": 1, "cvel": 1, "qfrc_actuator": 6, "cfrc_ext": 1}
        names = [name for name in shown if self.options[f"include_{name}_in_observation"] is True]
        self._extras = [
            [getattr(mj_data, name)[shown[name] :].reshape(-1) for name in names] for mj_data in data
        ]

    @property
    def observation_size(self) -> int:
        return super().observation_size + sum(int(part.size) for part in self._extras[0])

    def locate(self, state: NDArray[np.float64]) -> NDArray[np.float64]:  # noqa: ARG002
        mass = self._model.body_mass
        return np.array([(np.einsum("b,bj->j", mass, data.xipos) / mass.sum())[0] for data in self._data])

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
        forces = np.array([data.cfrc_ext.reshape(-1) for data in self._data])
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
