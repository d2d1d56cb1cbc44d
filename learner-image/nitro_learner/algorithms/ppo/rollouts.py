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
from nitro_learner.data.batch import Fragment, vectors

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
        self, team: Team, one: AgentClass, positions: Sequence[int], fragments: Sequence[Fragment]
    ) -> None:
        """
        Args:
            team: to which the agents belong.
            one: their class.
            positions: where they are on its axis.
            fragments: of the round, of equal steps and environments.
        """
        self._team, self._class, self._positions = team, one, list(positions)
        self.fragments = list(fragments)
        self._own = [fragment.by_class[one.name] for fragment in fragments]
        self.agents = len(self._positions)
        self.slots = len(fragments)
        self.length, self.envs = fragments[0].tensors["terminated"].shape

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

    @property
    def alive(self) -> np.ndarray:
        """Whether the agent acted, bool [N]."""
        return np.stack([alive for alive, _ in self._lives]).reshape(-1)

    @property
    def ended(self) -> np.ndarray:
        """Whether nothing follows the transition, bool [N]: its episode terminated, or the agent died."""
        each = zip(self.fragments, self._lives, strict=True)
        ended = [fragment.tensors["terminated"][:, :, None] | died for fragment, (_, died) in each]
        return np.stack(ended).reshape(-1)

    @property
    def lives_end(self) -> np.ndarray:
        """Whether what an agent remembers ends with a step, bool [F, lanes, L] of F fragments: its episode
        ended, it died, or it was not alive."""
        ends = []
        for fragment, (alive, died) in zip(self.fragments, self._lives, strict=True):
            over = fragment.tensors["terminated"] | fragment.tensors["truncated"]
            ends.append((over[:, :, None] | died | ~alive).reshape(len(over), -1).T)
        return np.stack(ends)

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
            return np.concatenate([one.reshape(-1, self._team.state_size) for one in states])
        return np.concatenate([self._joined(fragment, when) for fragment in self.fragments])

    def of_agents(self, rows: np.ndarray) -> np.ndarray:
        """Repeat an environment's rows [n / k, ...] for each of the policy's agents, [n, ...]."""
        return np.repeat(rows, self.agents, axis=0)

    def identities(self, rows: int) -> np.ndarray:
        """The agents' indices in their class, one-hot, f32 [rows, n_c]."""
        one_hot = np.eye(len(self._class.agents), dtype=np.float32)[self._positions]
        return np.tile(one_hot, (rows // self.agents, 1))

    def lanes(self) -> list[Fragment]:
        """Rewards, ends, and who acted and died, as fragments of lanes, [L, E * k]."""
        found = []
        own = self.fields("rewards")
        for fragment, (alive, died), rewards in zip(self.fragments, self._lives, own, strict=True):
            tensors = {
                "rewards": self._rewards(fragment, rewards),
                "terminated": self._ends(fragment, "terminated"),
                "truncated": self._ends(fragment, "truncated"),
                "alive": alive.reshape(self.length, -1),
                "died": died.reshape(self.length, -1),
            }
            found.append(Fragment(fragment.meta, tensors))
        return found

    def estimates(
        self,
        rewards: Sequence[np.ndarray],
        values: Callable[[When], np.ndarray],
        *,
        gamma: float,
        gae_lambda: float,
    ) -> Estimates:
        """Generalised advantage estimates along the lanes.

        Args:
            rewards: f32 [L, E * k] of each fragment, as the critic sees them.
            values: the critic's, f32 [n], of the observations or states of that kind.
            gamma: discount per step.
            gae_lambda: lambda of the estimate.
        """
        lanes = self.envs * self.agents
        steps = values("")
        by_fragment = steps.reshape(-1, self.length, lanes)
        last = values("last_").reshape(-1, lanes)
        terminated, truncated = (
            [self._ends(fragment, name) for fragment in self.fragments]
            for name in ("terminated", "truncated")
        )
        counts = [int((cut & ~end).sum()) for cut, end in zip(truncated, terminated, strict=True)]
        final = np.split(values("final_"), np.cumsum(counts)[:-1])
        following = map(gae.next_values, by_fragment, last, final, terminated, truncated)
        advantages = self._advantages(
            np.concatenate(rewards, axis=1),
            np.concatenate(list(by_fragment), axis=1),
            np.concatenate(list(following), axis=1),
            np.concatenate(terminated, axis=1),
            np.concatenate(truncated, axis=1),
            gamma,
            gae_lambda,
        )
        by_fragment = np.stack(np.split(advantages, len(self.fragments), axis=1))
        return Estimates(steps, by_fragment.reshape(-1))

    def _advantages(
        self,
        rewards: np.ndarray,
        values: np.ndarray,
        following: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        gamma: float,
        gae_lambda: float,
    ) -> np.ndarray:
        """The advantages of the lanes of all fragments, f32 [L, lanes]."""
        alive, died = (
            np.concatenate([each.reshape(len(rewards), -1) for each in lanes], axis=1)
            for lanes in zip(*self._lives, strict=True)
        )
        if not alive.all():
            values, following = gae.through_waiting(
                rewards, values, following, alive, terminated, truncated, gamma=gamma
            )
        return gae.advantages(
            rewards, values, following, terminated | died, truncated, gamma=gamma, lam=gae_lambda
        )

    @cached_property
    def _lives(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Whether an agent acted in a step and whether it died in it, bool [L, E, k] of each fragment.
        Fragments carry neither for agents that live as long as their episode."""
        if "alive" in self._own[0]:
            return list(zip(self.fields("alive"), self.fields("died"), strict=True))
        shape = (self.length, self.envs, self.agents)
        return [(np.ones(shape, bool), np.zeros(shape, bool))] * self.slots

    def _ends(self, fragment: Fragment, name: str) -> np.ndarray:
        return np.repeat(fragment.tensors[name], self.agents, axis=1)

    def _rewards(self, fragment: Fragment, own: np.ndarray) -> np.ndarray:
        """[L, E * k]: each agent's own [L, E, k], or the sum over the team."""
        if self._team.reward == "own":
            return own.reshape(len(own), -1)
        total = np.zeros(own.shape[:2], np.float32)
        for one in self._team.classes:
            played = [i for i, agent in enumerate(one.agents) if agent in self._team.agents]
            total += fragment.by_class[one.name]["rewards"][:, :, played].sum(2)
        return np.repeat(total, self.agents, axis=1)

    def _joined(self, fragment: Fragment, when: When) -> np.ndarray:
        """All agents' observations of a fragment in one vector each, f32 [n / k, S]."""
        name = f"{when}observations"
        parts = [fragment.by_class[one.name][name] for one in self._team.classes]
        axes = AGENT_AXIS[name]
        return np.concatenate([vectors(_rows(part, axes)) for part in parts], axis=1)


def _rows(array: np.ndarray, axes: int) -> np.ndarray:
    """Flatten the leading axes, [*leading, ...] to [n, ...]."""
    count = int(np.prod(array.shape[:axes]))
    return array.reshape(count, *array.shape[axes:])
