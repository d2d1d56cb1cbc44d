"""Observations of all agents, gathered from a world's state."""

import numpy as np
from numpy.typing import NDArray

from nitro_actor.agents.mpe.scenario import Scenario
from nitro_actor.agents.mpe.world import Array


class Observer:
    """Writes what the agents of E copies see.

    Attributes:
        observations: f32 [E, n_c, size] by class, updated in place.
    """

    def __init__(self, scenario: Scenario, state: Array) -> None:
        """Args:
        state: of the scenario's world, f64 [K, E].
        """
        count = state.shape[1]
        views = [scenario.view(agent) for agent in range(scenario.bodies.agents)]
        self._state = state
        self._rows = np.array([row for view in views for row in view.rows], np.intp)
        self._subtracted = np.array([row for view in views for row in view.subtracted], np.intp)
        self._seen = np.empty((len(self._rows), count))
        self._minus = np.empty_like(self._seen)
        self._single = np.empty_like(self._seen, np.float32)
        self.observations: dict[str, NDArray[np.float32]] = {}
        # The values of each class, among those of all agents.
        self._parts: dict[str, slice] = {}
        begin = 0
        for name, agents in scenario.teams.items():
            size = len(views[agents.start].rows)
            values = len(agents) * size
            self.observations[name] = np.zeros((count, len(agents), size), np.float32)
            self._parts[name] = slice(begin, begin + values)
            begin += values

    def write(self) -> None:
        """Write the observations of all copies."""
        np.take(self._state, self._rows, axis=0, out=self._seen, mode="clip")
        np.take(self._state, self._subtracted, axis=0, out=self._minus, mode="clip")
        np.subtract(self._seen, self._minus, out=self._seen)
        # This is twice as fast as changing the order of the axes and the dtype in one copy.
        self._single[:] = self._seen
        for name, part in self._parts.items():
            observations = self.observations[name]
            observations.reshape(len(observations), -1)[:] = self._single[part].T

    def write_one(self, index: int) -> None:
        """Write the observations of one copy."""
        state = self._state[:, index]
        values = state.take(self._rows) - state.take(self._subtracted)
        for name, part in self._parts.items():
            self.observations[name][index].reshape(-1)[:] = values[part]
