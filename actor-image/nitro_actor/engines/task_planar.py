"""The tasks that are functions of the state alone: Hopper, Walker2d, HalfCheetah, Swimmer. See `Task`."""

from typing import ClassVar

import numpy as np

from nitro_actor.engines.task import Bounds, Task


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
