"""The transitions of one policy's agents in a round, as rows for networks and as lanes along time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from nitro_actor.protocol.agents import AgentClass
from nitro_actor.protocol.fragment import AGENT_AXIS
from nitro_learner.algorithms.agents.team import Team
from nitro_learner.data import gae
from nitro_learner.data.batch import Fragment, RewardLanes, check_shapes, vectors

When = Literal["", "last_", "final_"]
"""Which observations: those of the steps, the ones after the last step, or those of truncated episodes."""


@dataclass(frozen=True, slots=True)
class Estimates:
    """The results of GAE for a round.

    Attributes:
        values: of the critic, f32 [N].
        advantages: f32 [N].
    """

    values: np.ndarray
    advantages: np.ndarray


class PolicyRollouts:
    """A round of one policy's k agents, which are of one class.

    A row is one agent's transition; rows are ordered by fragment, then step, environment and agent. A lane is
    one agent in one environment of one fragment.

    Attributes:
        fragments: of the round.
        agents: k.
        slots: fragments.
        length: L, steps of each.
        envs: environments of each.
    """

    def __init__(
        self, team: Team, agent_class: AgentClass, positions: Sequence[int], fragments: Sequence[Fragment]
    ) -> None:
        """
        Args:
            team: to which the agents belong.
            agent_class: theirs.
            positions: where they are on its axis.
            fragments: of the round.

        Raises:
            ValueError: there is no fragment, or their steps and environments differ.
        """
        check_shapes(fragments)
        self._team, self._class, self._positions = team, agent_class, list(positions)
        self.fragments = list(fragments)
        self._own = [fragment.by_class[agent_class.name] for fragment in fragments]
        self.agents = len(self._positions)
        self.slots = len(fragments)
        self.length, self.envs = map(int, fragments[0].tensors["terminated"].shape)

    @classmethod
    def alone(cls, team: Team, fragments: Sequence[Fragment]) -> PolicyRollouts:
        """A round of the only agent of its environment. Raises ValueError if the fragments do not fit
        together."""
        (agent_class,) = team.classes
        return cls(team, agent_class, [0], fragments)

    def fields(self, name: str) -> list[np.ndarray]:
        """A per-agent field of each fragment for the policy's agents alone."""
        arrays = [own[name] for own in self._own]
        if self._positions == list(range(len(self._class.agents))):
            return arrays
        return [np.take(array, self._positions, axis=AGENT_AXIS[name]) for array in arrays]

    def rows(self, name: str) -> np.ndarray:
        """A per-agent field with a row for each transition, [N, ...]."""
        stacked = np.stack(self.fields(name))
        return stacked.reshape(-1, *stacked.shape[4:])

    @property
    def masked(self) -> bool:
        """Whether choices of actions may be unavailable."""
        return bool(self._class.action.get("masked"))

    @cached_property
    def alive(self) -> np.ndarray:
        """Whether the agent acted, bool [N]; always, where fragments do not say it."""
        return self.rows("alive") if "alive" in self._own[0] else np.ones(self._size, bool)

    @cached_property
    def died(self) -> np.ndarray:
        """Whether the agent ended by itself in the step, bool [N]; never, where fragments do not say it."""
        return self.rows("died") if "died" in self._own[0] else np.zeros(self._size, bool)

    @property
    def ended(self) -> np.ndarray:
        """Whether nothing follows the transition, bool [N]: its episode terminated, or the agent died."""
        ended: np.ndarray = self.by_row(self.terminated) | self.died
        return ended

    @property
    def lives_end(self) -> np.ndarray:
        """Whether what an agent remembers ends with a step, bool [F, lanes, L] of F fragments: its episode
        ended, it died, or it was not alive."""
        ends = self.by_row(self.terminated | self.truncated) | self.died | ~self.alive
        by_lane: np.ndarray = ends.reshape(self.slots, self.length, -1).swapaxes(1, 2)
        return by_lane

    @property
    def memory(self) -> np.ndarray:
        """What the agents' policies remember before the first step, f32 [F, lanes, H]."""
        return np.stack([field.reshape(-1, field.shape[-1]) for field in self.fields("memory")])

    @property
    def cut(self) -> list[np.ndarray]:
        """The truncated and not terminated steps of each fragment, int64 [n, 2]: step and environment."""
        return [np.argwhere(f.tensors["truncated"] & ~f.tensors["terminated"]) for f in self.fragments]

    def observations(self, when: When) -> np.ndarray:
        """Raw observations [n, *obs] of the policy's agents."""
        name = f"{when}observations"
        shape = self._class.observation["shape"]
        return np.concatenate([field.reshape(-1, *shape) for field in self.fields(name)])

    def states(self, when: When) -> np.ndarray:
        """Global states f32 [n / k, S]: the environment's own, or all agents' observations together."""
        if self._team.state_size is not None:
            states = [fragment.tensors[f"{when}global_state"] for fragment in self.fragments]
            return np.concatenate([state.reshape(-1, self._team.state_size) for state in states])
        return np.concatenate([self._joined(fragment, when) for fragment in self.fragments])

    def of_agents(self, rows: np.ndarray) -> np.ndarray:
        """Repeat an environment's rows [n / k, ...] for each of the policy's agents, [n, ...]."""
        return np.repeat(rows, self.agents, axis=0)

    def identities(self, rows: int) -> np.ndarray:
        """The agents' indices in their class, one-hot, f32 [rows, n_c]."""
        one_hot = np.eye(len(self._class.agents), dtype=np.float32)[self._positions]
        return np.tile(one_hot, (rows // self.agents, 1))

    def lanes(self) -> list[RewardLanes]:
        """The rewards of each fragment along time."""
        rewards = [self._rewards(*pair) for pair in zip(self.fragments, self.fields("rewards"), strict=True)]
        ended = self._by_fragment(self.terminated | self.truncated | self.by_lane(self.died))
        alive = self._by_fragment(self.by_lane(self.alive))
        return [
            RewardLanes(fragment.slot, fragment.resumed, *arrays)
            for fragment, *arrays in zip(self.fragments, rewards, ended, alive, strict=True)
        ]

    @cached_property
    def terminated(self) -> np.ndarray:
        """Whether a step ended its episode in a terminal state, bool [L, lanes of all fragments]."""
        return self._of_episodes("terminated")

    @cached_property
    def truncated(self) -> np.ndarray:
        """Whether a step ended its episode by a limit, bool [L, lanes of all fragments]."""
        return self._of_episodes("truncated")

    def by_lane(self, rows: np.ndarray) -> np.ndarray:
        """Rows [N] as lanes, [L, lanes of all fragments]."""
        return np.concatenate(list(rows.reshape(self.slots, self.length, -1)), axis=1)

    def by_row(self, lanes: np.ndarray) -> np.ndarray:
        """RewardLanes of all fragments, [L, lanes], as rows [N]."""
        return np.stack(self._by_fragment(lanes)).reshape(-1)

    def valued(self, critic: Callable[[When], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """V of each step, and V of what followed it as `gae.next_values` gives it, f32 [L, lanes of all
        fragments].

        Args:
            critic: V of the observations or states of that kind, f32 [n]. The first call is of the steps'.
        """
        rows = critic("")
        steps = rows.reshape(self.slots, self.length, -1)
        last = critic("last_").reshape(self.slots, -1)
        final = np.split(critic("final_"), np.cumsum([len(cut) * self.agents for cut in self.cut])[:-1])
        ends = map(self._by_fragment, (self.terminated, self.truncated))
        following = map(gae.next_values, steps, last, final, *ends)
        return self.by_lane(rows), np.concatenate(list(following), axis=1)

    def estimates(
        self,
        rewards: Sequence[np.ndarray],
        critic: Callable[[When], np.ndarray],
        *,
        gamma: float,
        gae_lambda: float,
    ) -> Estimates:
        """Generalised advantage estimates along the lanes.

        Args:
            rewards: f32 [L, lanes] of each fragment, as the critic sees them.
            critic: see `valued`.
            gamma: discount per step.
            gae_lambda: lambda of the estimate.
        """
        seen = np.concatenate(rewards, axis=1)
        values, following = self.valued(critic)
        of_steps = self.by_row(values)
        if not self.alive.all():
            alive = self.by_lane(self.alive)
            values, following = gae.through_waiting(
                seen, values, following, alive, self.terminated, self.truncated, gamma=gamma
            )
        ended = self.terminated | self.by_lane(self.died)
        advantages = gae.advantages(
            seen, values, following, ended, self.truncated, gamma=gamma, lam=gae_lambda
        )
        return Estimates(of_steps, self.by_row(advantages))

    @property
    def _size(self) -> int:
        """N."""
        return self.slots * self.length * self.envs * self.agents

    def _of_episodes(self, name: str) -> np.ndarray:
        ends = [np.repeat(fragment.tensors[name], self.agents, axis=1) for fragment in self.fragments]
        return np.concatenate(ends, axis=1)

    def _by_fragment(self, lanes: np.ndarray) -> list[np.ndarray]:
        """The lanes of all fragments, [L, lanes], fragment by fragment."""
        return np.split(lanes, self.slots, axis=1)

    def _rewards(self, fragment: Fragment, own: np.ndarray) -> np.ndarray:
        """[L, E * k]: each agent's own [L, E, k], or the sum over the team."""
        if self._team.reward == "own":
            return own.reshape(len(own), -1)
        total = np.zeros(own.shape[:2], np.float32)
        for agent_class in self._team.classes:
            played = [i for i, agent in enumerate(agent_class.agents) if agent in self._team.agents]
            total += fragment.by_class[agent_class.name]["rewards"][:, :, played].sum(2)
        return np.repeat(total, self.agents, axis=1)

    def _joined(self, fragment: Fragment, when: When) -> np.ndarray:
        """All agents' observations of a fragment in one vector each, f32 [n / k, S]."""
        name = f"{when}observations"
        parts = [fragment.by_class[agent_class.name][name] for agent_class in self._team.classes]
        axes = AGENT_AXIS[name]
        return np.concatenate([vectors(_rows(part, axes)) for part in parts], axis=1)


def _rows(array: np.ndarray, axes: int) -> np.ndarray:
    """Flatten the leading axes, [*leading, ...] to [n, ...]."""
    count = int(np.prod(array.shape[:axes]))
    return array.reshape(count, *array.shape[axes:])
