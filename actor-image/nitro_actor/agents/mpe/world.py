"""The physics of the particle environments: E copies of a world of round bodies, stepped together.

Source: Lowe et al., "Multi-Agent Actor-Critic for Mixed Cooperative-Competitive Environments", 2017, as it is
computed by mpe2 1.1.1. Every sum keeps mpe2's order and every product its factors, so results are equal
to the bit.

The copies are the last axis of all arrays: each NumPy call then runs over long contiguous rows, and a sum
over bodies adds row after row, in mpe2's order.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

ACTIONS = 5
"""Do nothing, push left, right, down, up."""

_DIRECTIONS = np.array([[0.0, -1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, -1.0, 1.0]])
_SECONDS = 0.1
_KEPT_SPEED = 0.75
"""Share of its velocity that an agent keeps in a step."""
_STIFFNESS = 100.0
_MARGIN = 1e-3
"""Depth of a contact over which its force rises."""


@dataclass(frozen=True)
class Bodies:
    """The bodies of a world: agents first, then landmarks, which do not move.

    Attributes:
        agents: n.
        radii: of all M bodies.
        forces: strength of each agent's push.
        speeds: the highest speed of each agent; None where agents have no limit.
        colliders: how many bodies, counted from the first one, push agents away.
    """

    agents: int
    radii: tuple[float, ...]
    forces: tuple[float, ...]
    speeds: tuple[float, ...] | None
    colliders: int

    @property
    def count(self) -> int:
        """M."""
        return len(self.radii)

    def position(self, body: int) -> list[int]:
        """The rows of a world's state that hold x and y of a body."""
        return [body, self.count + body]

    def velocity(self, agent: int) -> list[int]:
        """The rows of a world's state that hold both parts of an agent's velocity."""
        return [2 * self.count + agent, 2 * self.count + self.agents + agent]

    @property
    def zero(self) -> int:
        """The row of a world's state that is always 0."""
        return 2 * (self.count + self.agents)


class World:
    """E copies of a world of M bodies, of which the first n are agents.

    Attributes:
        state: f64 [K, E], the whole state of the worlds; `Bodies` says what its rows hold.
        positions: f64 [2, M, E], a view of it.
        velocities: f64 [2, n, E], a view of it.
        distances: f64 [M, n, E] from every body to every agent, infinite from an agent to itself. `measure`
            computes them.
    """

    def __init__(self, bodies: Bodies, count: int) -> None:
        agents, total = bodies.agents, bodies.count
        self.state = np.zeros((bodies.zero + 1, count))
        self.positions = self.state[: 2 * total].reshape(2, total, count)
        self.velocities = self.state[2 * total : -1].reshape(2, agents, count)
        self.distances = np.full((total, agents, count), np.inf)
        self._agents = self.positions[:, :agents]
        # Each agent has its own five columns of pushes, as its force is its own.
        self._pushes = np.concatenate([_DIRECTIONS * force for force in bodies.forces], axis=1)
        self._first_push = ACTIONS * np.arange(agents)[:, None]
        self._push = np.empty((agents, count), np.intp)
        self._offsets = np.empty((total, 2, agents, count))
        self._squares = np.empty_like(self._offsets)
        rows = self.distances.reshape(total * agents, count)
        self._selves = rows[: agents * agents : agents + 1]
        collide = bodies.colliders > 1
        self._contacts = _Contacts(bodies, self._offsets, self.distances) if collide else None
        self._force = np.empty((2, agents, count))
        self._moved = np.empty((2, agents, count))
        self._limits = None if bodies.speeds is None else np.array(bodies.speeds)[:, None]

    def measure(self) -> None:
        """Compute the distances for the current positions."""
        np.subtract(self.positions.transpose(1, 0, 2)[:, :, None], self._agents[None], out=self._offsets)
        np.multiply(self._offsets, self._offsets, out=self._squares)
        np.add(self._squares[:, 0], self._squares[:, 1], out=self.distances)
        np.sqrt(self.distances, out=self.distances)
        self._selves[:] = np.inf

    def step(self, actions: NDArray[np.intp]) -> None:
        """Move all copies by one step and measure the distances. They must be up to date before the call.

        Args:
            actions: intp [n, E], from 0 to 4.
        """
        np.add(actions, self._first_push, out=self._push)
        force = self._force
        if self._contacts is None:
            np.take(self._pushes, self._push, axis=1, out=force, mode="clip")
        else:
            np.take(self._pushes, self._push, axis=1, out=self._contacts.push, mode="clip")
            self._contacts.add(force)
        np.multiply(self.velocities, _SECONDS, out=self._moved)
        self._agents += self._moved
        self.velocities *= _KEPT_SPEED
        force *= _SECONDS
        self.velocities += force
        if self._limits is not None:
            self._slow_down(self._limits)
        self.measure()

    def _slow_down(self, limits: Array) -> None:
        """Reduce speeds above the limits, and keep the directions."""
        np.multiply(self.velocities, self.velocities, out=self._moved)
        speeds = np.sqrt(self._moved[0] + self._moved[1])
        fast = speeds > limits
        np.divide(self.velocities, speeds, out=self.velocities, where=fast)
        np.multiply(self.velocities, limits, out=self.velocities, where=fast)


class _Contacts:
    """The forces of bodies that touch an agent, which grow with the depth of the contact.

    Attributes:
        push: f64 [2, n, E], the agents' own forces, to be written before `add`.
    """

    def __init__(self, bodies: Bodies, offsets: Array, distances: Array) -> None:
        agents, colliders, count = bodies.agents, bodies.colliders, offsets.shape[-1]
        # Both directions of a pair of agents have the same depth; an agent has none with itself.
        pairs = [(other, agent) for agent in range(agents) for other in range(agent + 1, colliders)]
        number = {pair: index for index, pair in enumerate(pairs)}
        self._pairs = np.array([other * agents + agent for other, agent in pairs], np.intp)
        self._pair_of = np.array(
            [
                number.get((max(other, agent), min(other, agent)), 0)
                for other in range(colliders)
                for agent in range(agents)
            ],
            np.intp,
        )
        self._touching = np.array([[bodies.radii[other] + bodies.radii[agent]] for other, agent in pairs])
        self._depth = np.empty((len(pairs), count))
        self._depths = np.empty((colliders, agents, count))
        self._offsets = offsets[:colliders]
        self._distances = distances[:colliders]
        self._rows = distances.reshape(-1, count)
        # The terms of an agent's sum of forces: its own force first, then those of the bodies in their order.
        self._forces = np.empty((1 + colliders, 2, agents, count))
        self.push = self._forces[0]

    def add(self, out: Array) -> None:
        """Write the sum of the agents' own forces and those of their contacts, f64 [2, n, E]."""
        depth = self._depth
        np.take(self._rows, self._pairs, axis=0, out=depth, mode="clip")
        np.subtract(depth, self._touching, out=depth)
        np.divide(depth, -_MARGIN, out=depth)
        np.logaddexp(0.0, depth, out=depth)
        np.multiply(depth, _MARGIN, out=depth)
        depths = self._depths
        np.take(depth, self._pair_of, axis=0, out=depths.reshape(-1, depth.shape[1]), mode="clip")
        forces = self._forces[1:]
        # Offsets point from the agent to the body, forces the other way.
        np.multiply(self._offsets, -_STIFFNESS, out=forces)
        np.divide(forces, self._distances[:, None], out=forces)
        np.multiply(forces, depths[:, None], out=forces)
        np.add.reduce(self._forces, axis=0, out=out)
