"""The fast engine for gymnasium's MuJoCo locomotion tasks.

Its results are equal to gymnasium's, to the bit, but it does not run gymnasium's Python code at every step.
Each copy has one MjData, and the states of all copies are gathered into one array. Observations, rewards and
termination are vectorised over the copies. The tasks are listed in `nitro_actor.engines.tasks`. gymnasium is
not imported; only its model files are read.
"""

import importlib.util
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import mujoco
import numpy as np

from nitro_actor import wire
from nitro_actor.actions import Continuous
from nitro_actor.engines.base import (
    OneAgentEngine,
    Snapshot,
    Step,
    pack_generators,
    seeded_generators,
    unpack_generators,
)
from nitro_actor.engines.task import Task
from nitro_actor.engines.tasks import MAX_EPISODE_STEPS
from nitro_actor.protocol.agents import AGENT

# MuJoCo would print to the terminal and write MUJOCO_LOG.TXT into the current folder.
mujoco.set_mju_user_warning(lambda text: warnings.warn(f"MuJoCo: {text}", RuntimeWarning, stacklevel=2))

_STATE = int(mujoco.mjtState.mjSTATE_INTEGRATION)


class MujocoEngine(OneAgentEngine):
    """E simulations of one task, each with its own random generator."""

    resumable = True
    time_limit = MAX_EPISODE_STEPS

    def __init__(self, task: type[Task], count: int, options: Mapping[str, object]) -> None:
        self.count = count
        self._model = mujoco.MjModel.from_xml_path(str(_asset(task.xml)))
        self._data = [mujoco.MjData(self._model) for _ in range(count)]
        self._task = task(self._model, self._data, options)
        self._generators = unpack_generators(np.zeros((count, 6), np.uint64))
        # Position and velocity of all copies, gathered by one call: [E, nq + nv].
        nq, nv = self._model.nq, self._model.nv
        self._state = np.empty((count, nq + nv))
        self._parts = [part for data in self._data for part in (data.qpos, data.qvel)]
        self._initial = np.concatenate([self._data[0].qpos, self._data[0].qvel])
        self._controls = [data.ctrl for data in self._data]
        self._observations = np.zeros((count, self._task.observation_size), np.float32)
        low, high = self._model.actuator_ctrlrange.astype(np.float32).T
        self.show(self._observations, Continuous(low, high))

    def reset(self, seeds: Sequence[int]) -> None:
        self._generators = seeded_generators(seeds)
        for index in range(self.count):
            self.reset_one(index)

    def reset_one(self, index: int) -> None:
        data, nq = self._data[index], self._model.nq
        mujoco.mj_resetData(self._model, data)
        position, velocity = self._task.reset_noise(self._generators[index])
        data.qpos[:] = self._initial[:nq] + position
        data.qvel[:] = self._initial[nq:] + velocity
        mujoco.mj_forward(self._model, data)
        self._state[index, :nq] = data.qpos
        self._state[index, nq:] = data.qvel
        self._task.begin(index, self._state)
        self._task.observe(self._state, self._observations, slice(index, index + 1))

    def step(self, actions: Mapping[str, np.ndarray]) -> Step:
        model, frames, step = self._model, self._task.frame_skip, mujoco.mj_step
        given = actions[AGENT][:, 0]
        for data, control, action in zip(self._data, self._controls, given, strict=True):
            control[:] = action
            step(model, data, frames)
        if self._task.needs_contact_forces:
            for data in self._data:
                mujoco.mj_rnePostConstraint(model, data)
        np.concatenate(self._parts, out=self._state.reshape(-1))
        self._rewards[:], self._terminated[:] = self._task.outcome(self._state, given)
        self._task.observe(self._state, self._observations, slice(None))
        return self._step

    def snapshot(self) -> Snapshot:
        """The physics (with the solver's warm start), the random generators, and two values that lag behind
        the physics: the observation, which shows quantities of the last substep, and the position from which
        the forward speed is measured."""
        physics = np.empty((self.count, mujoco.mj_stateSize(self._model, _STATE)))
        for row, data in zip(physics, self._data, strict=True):
            mujoco.mj_getState(self._model, data, row, _STATE)
        return {
            "physics": physics,
            "observations": self._observations.copy(),
            "position": self._task.position.copy(),
            "generators": pack_generators(self._generators),
        }

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        size = mujoco.mj_stateSize(self._model, _STATE)
        wire.check(
            snapshot,
            {
                "physics": wire.TensorSpec("float64", (self.count, size)),
                "observations": wire.TensorSpec("float32", self._observations.shape),
                "position": wire.TensorSpec("float64", (self.count,)),
                "generators": wire.TensorSpec("uint64", (self.count, 6)),
            },
        )
        for row, data in zip(snapshot["physics"], self._data, strict=True):
            mujoco.mj_resetData(self._model, data)
            mujoco.mj_setState(self._model, data, row, _STATE)
        self._observations[:] = snapshot["observations"]
        self._task.position[:] = snapshot["position"]
        self._generators = unpack_generators(snapshot["generators"])


def _asset(name: str) -> Path:
    """One of gymnasium's model files, found without importing gymnasium, which takes long."""
    spec = importlib.util.find_spec("gymnasium")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("gymnasium is not installed: pip install gymnasium")
    return Path(spec.origin).parent / "envs" / "mujoco" / "assets" / name
