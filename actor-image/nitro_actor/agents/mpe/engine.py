"""The engine of the particle environments. Equal seeds and actions give mpe2's trajectories, to the bit."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from nitro_actor import wire
from nitro_actor.agents.engine import AgentsEngine, AgentsStep
from nitro_actor.agents.mpe.picture import draw
from nitro_actor.agents.mpe.scenario import Scenario
from nitro_actor.agents.mpe.scenarios import SCENARIOS
from nitro_actor.agents.mpe.world import ACTIONS, World
from nitro_actor.engines.base import Snapshot, pack_generators, unpack_generators
from nitro_actor.protocol.agents import AgentClass


class MpeEngine(AgentsEngine):
    """E copies of one scenario, each with its own random generator.

    The time limit is the environment's affair. Where a scenario ends by success in the very step of the time
    limit, mpe2 calls the episode truncated; here it terminated.

    Attributes:
        time_limit: mpe2's `max_cycles`, steps.
    """

    resumable = True
    state_size = None

    def __init__(self, environment: str, count: int, options: Mapping[str, object]) -> None:
        """Args:
        environment: an id that `scenarios.supports` knows, with these keyword arguments.
        """
        kind = SCENARIOS[environment]
        settings = {**kind.defaults, **options}
        self.count = count
        self.time_limit: int = settings["max_cycles"]
        self._scenario: Scenario = kind(settings)
        bodies = self._scenario.bodies
        self._world = World(bodies, count)
        self._generators = unpack_generators(np.zeros((count, 6), np.uint64))
        self._actions = np.zeros((bodies.agents, count), np.intp)
        self._rewards = np.zeros((bodies.agents, count))
        views = [self._scenario.view(agent) for agent in range(bodies.agents)]
        self._rows = np.array([row for view in views for row in view.rows], np.intp)
        self._subtracted = np.array([row for view in views for row in view.subtracted], np.intp)
        self._seen = np.empty((len(self._rows), count))
        self._minus = np.empty_like(self._seen)
        self._single = np.empty_like(self._seen, np.float32)

        self.classes = ()
        self.observations: dict[str, NDArray[np.float32]] = {}
        self.alive = {name: np.ones((count, size), bool) for name, size in self._scenario.teams.items()}
        self.available: dict[str, NDArray[np.bool_]] = {}
        self._values: dict[str, slice] = {}
        self._agents: dict[str, slice] = {}
        first = 0
        for name, size in self._scenario.teams.items():
            width = len(views[first].rows)
            begin = sum(len(view.rows) for view in views[:first])
            self._values[name] = slice(begin, begin + size * width)
            self._agents[name] = slice(first, first + size)
            self.observations[name] = np.zeros((count, size, width), np.float32)
            self.classes += (_agent_class(name, size, width),)
            first += size
        self._terminated = np.zeros(count, bool)
        self._died = {name: np.zeros_like(alive) for name, alive in self.alive.items()}
        rewards = {name: self._rewards[part].T for name, part in self._agents.items()}
        self._step = AgentsStep(rewards, self._died, self._terminated, np.zeros(count, bool))
        # Distances lag behind the positions after a reset, until the next step needs them.
        self._distances_lag = True

    def reset(self, seeds: Sequence[int]) -> None:
        self._generators = [np.random.Generator(np.random.PCG64(np.random.SeedSequence(s))) for s in seeds]
        for index in range(self.count):
            self.reset_one(index)

    def reset_one(self, index: int) -> None:
        world = self._world
        world.positions[:, :, index] = self._scenario.begin(self._generators[index]).T
        world.velocities[:, :, index] = 0
        self._distances_lag = True
        state = world.state[:, index]
        values = state.take(self._rows) - state.take(self._subtracted)
        for name, part in self._values.items():
            self.observations[name][index].reshape(-1)[:] = values[part]
            self.alive[name][index] = True

    def step(self, actions: Mapping[str, np.ndarray]) -> AgentsStep:
        for name, part in self._agents.items():
            self._actions[part] = actions[name].T
        if self._distances_lag:
            self._world.measure()
            self._distances_lag = False
        self._world.step(self._actions)
        self._observe()
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
        self._observe()
        for alive in self.alive.values():
            alive[:] = True

    def picture(self, index: int) -> NDArray[np.uint8]:
        scenario = self._scenario
        # Agents above landmarks.
        order = np.roll(np.arange(scenario.bodies.count), -scenario.bodies.agents)
        positions = self._world.positions[:, :, index].T
        return draw(positions[order], np.array(scenario.bodies.radii)[order], scenario.colors[order])

    def _observe(self) -> None:
        """Write the observations of all copies."""
        state = self._world.state
        np.take(state, self._rows, axis=0, out=self._seen, mode="clip")
        np.take(state, self._subtracted, axis=0, out=self._minus, mode="clip")
        np.subtract(self._seen, self._minus, out=self._seen)
        # Twice as fast as turning the axes and the type in one copy.
        self._single[:] = self._seen
        for name, part in self._values.items():
            self.observations[name].reshape(self.count, -1)[:] = self._single[part].T

    def _end(self, ended: NDArray[np.bool_]) -> None:
        """The episodes of some copies ended by themselves: nobody acts there until a reset."""
        self._terminated[:] = ended
        for name, alive in self.alive.items():
            self._died[name][:] = ended[:, None]
            np.logical_not(self._died[name], out=alive)
            self.observations[name][ended] = 0


def _agent_class(name: str, size: int, width: int) -> AgentClass:
    """A class of agents that see vectors of this width."""
    return AgentClass(
        name=name,
        agents=tuple(f"{name}_{index}" for index in range(size)),
        observation={"shape": [width], "dtype": "float32", "frame": [width], "stack": 1},
        action={"kind": "discrete", "n": ACTIONS, "masked": False},
        mortal=False,
    )
