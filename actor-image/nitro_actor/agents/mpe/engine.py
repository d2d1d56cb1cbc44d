"""The engine of the particle environments. Equal seeds and actions give mpe2's trajectories, to the bit."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nitro_actor import wire
from nitro_actor.agents.mpe.scenario import Scenario
from nitro_actor.agents.mpe.scenarios import SCENARIOS
from nitro_actor.agents.mpe.world import ACTIONS, Array, World
from nitro_actor.engines.base import (
    Engine,
    Snapshot,
    Step,
    pack_generators,
    seeded_generators,
    unpack_generators,
)
from nitro_actor.protocol.agents import AgentClass


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


_SIZE = 400
"""Pixels of either side."""
_FIELD = 1.2
"""The smallest view: from minus this value to plus this value, along both axes."""


def draw(
    positions: NDArray[np.float64], radii: NDArray[np.float64], colors: NDArray[np.uint8]
) -> NDArray[np.uint8]:
    """Draw bodies as circles on white, each above those before it; the view grows until it holds them all.

    Args:
        positions: [M, 2], y upwards.
        radii: [M].
        colors: u8 [M, 3].

    Returns:
        u8 [400, 400, 3].
    """
    reach = max(_FIELD, float(np.max(np.abs(positions) + radii[:, None])))
    ticks = ((np.arange(_SIZE) + 0.5) / _SIZE * 2 - 1) * reach
    image = np.full((_SIZE, _SIZE, 3), 255, np.uint8)
    for (x, y), radius, color in zip(positions, radii, colors, strict=True):
        inside = (ticks[None, :] - x) ** 2 + (-ticks[:, None] - y) ** 2 <= radius**2
        image[inside] = color
    return image


class MpeEngine(Engine):
    """E copies of one scenario, each with its own random generator.

    `Environment` applies the time limit. If a scenario ends by success in the same step as the time
    limit, mpe2 reports the episode as truncated, and this engine reports it as terminated.

    Attributes:
        time_limit: mpe2's `max_cycles`, steps.
    """

    resumable = True

    def __init__(self, environment: str, count: int, options: Mapping[str, object]) -> None:
        """Make the copies; they need a `reset`.

        Args:
            environment, options: an id with keyword arguments that `scenarios.supports` knows.
        """
        kind = SCENARIOS[environment]
        settings = {**kind.defaults, **options}
        self.count = count
        self.time_limit: int = settings["max_cycles"]
        self._scenario: Scenario = kind(settings)
        self._world = World(self._scenario.bodies, count)
        self._observer = Observer(self._scenario, self._world.state)
        self._generators = unpack_generators(np.zeros((count, 6), np.uint64))
        # Distances lag behind the positions after a reset, until the next step needs them.
        self._distances_lag = True

        teams = self._scenario.teams
        self.observations = self._observer.observations
        self.classes = tuple(_agent_class(name, seen) for name, seen in self.observations.items())
        self.alive = {name: np.ones((count, len(agents)), bool) for name, agents in teams.items()}
        self.available: dict[str, NDArray[np.bool_]] = {}
        self._actions = np.zeros((self._scenario.bodies.agents, count), np.intp)
        self._actions_by_class = {name: _of(agents, self._actions) for name, agents in teams.items()}
        self._rewards = np.zeros(self._actions.shape)
        rewards = {name: _of(agents, self._rewards) for name, agents in teams.items()}
        self._terminated = np.zeros(count, bool)
        self._died = {name: np.zeros_like(alive) for name, alive in self.alive.items()}
        self._step = Step(rewards, self._died, self._terminated, np.zeros(count, bool))

    def reset(self, seeds: Sequence[int]) -> None:
        self._generators = seeded_generators(seeds)
        for index in range(self.count):
            self.reset_one(index)

    def reset_one(self, index: int) -> None:
        world = self._world
        world.positions[:, :, index] = self._scenario.begin(self._generators[index]).T
        world.velocities[:, :, index] = 0
        self._distances_lag = True
        self._observer.write_one(index)
        for alive in self.alive.values():
            alive[index] = True

    def step(self, actions: Mapping[str, np.ndarray]) -> Step:
        for name, chosen in self._actions_by_class.items():
            chosen[:] = actions[name]
        if self._distances_lag:
            self._world.measure()
            self._distances_lag = False
        self._world.step(self._actions)
        self._observer.write()
        ended = self._scenario.outcome(self._world, self._rewards)
        if ended is not None:
            self._end(ended)
        return self._step

    def snapshot(self) -> Snapshot:
        return {
            "positions": self._world.positions.T.copy(),
            "velocities": self._world.velocities.T.copy(),
            "generators": pack_generators(self._generators),
        }

    def restore(self, snapshot: Mapping[str, np.ndarray]) -> None:
        bodies = self._scenario.bodies
        wire.check(
            snapshot,
            {
                "positions": wire.TensorSpec("float64", (self.count, bodies.count, 2)),
                "velocities": wire.TensorSpec("float64", (self.count, bodies.agents, 2)),
                "generators": wire.TensorSpec("uint64", (self.count, 6)),
            },
        )
        self._world.positions[:] = snapshot["positions"].T
        self._world.velocities[:] = snapshot["velocities"].T
        self._generators = unpack_generators(snapshot["generators"])
        self._distances_lag = True
        self._observer.write()
        for alive in self.alive.values():
            alive[:] = True

    def picture(self, index: int) -> NDArray[np.uint8]:
        scenario = self._scenario
        # Agents above landmarks.
        order = np.roll(np.arange(scenario.bodies.count), -scenario.bodies.agents)
        positions = self._world.positions[:, :, index].T
        return draw(positions[order], np.array(scenario.bodies.radii)[order], scenario.colors[order])

    def _end(self, ended: NDArray[np.bool_]) -> None:
        """Mark copies whose episodes ended by themselves: nobody acts there until a reset."""
        self._terminated[:] = ended
        for name, alive in self.alive.items():
            self._died[name][:] = ended[:, None]
            np.logical_not(self._died[name], out=alive)
            self.observations[name][ended] = 0


def _agent_class(name: str, observations: NDArray[np.float32]) -> AgentClass:
    """A class of agents with observations [E, n_c, size]."""
    _, agents, size = observations.shape
    return AgentClass(
        name=name,
        agents=tuple(f"{name}_{index}" for index in range(agents)),
        observation={"shape": [size], "dtype": "float32", "frame": [size], "stack": 1},
        action={"kind": "discrete", "n": ACTIONS, "masked": False},
        mortal=True,
    )


def _of(agents: range, values: NDArray[Any]) -> NDArray[Any]:
    """A class's part of values [n, E] of all agents: a view of the form [E, n_c]."""
    return values[agents.start : agents.stop].T
