"""The transitions of a gradient step or of a round, gathered from rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nitro_actor.protocol.agents import AgentClass
from nitro_learner.algorithms.agents.groups import Groups
from nitro_learner.algorithms.agents.team import Team
from nitro_learner.data.batch import on_device

Arrays = Mapping[str, NDArray[Any]]
Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Lanes:
    """Which policy learns from which agents of a class in a gradient step.

    Attributes:
        policies: the row of each lane's policy in its stack, i64 [A].
        agents: the positions of each lane's agents on the class axis. They fill it in turn.
        columns: the column of the replay buffer of each agent of the class, i64 [n_c].
        shares: the part of each lane in its policy's loss, f32 [A]. A joint loss has no such parts.
    """

    policies: Tensor
    agents: Sequence[Places]
    columns: Places
    shares: Tensor

    @classmethod
    def of(
        cls,
        team: Team,
        groups: Groups,
        agent_class: AgentClass,
        policies: Sequence[str],
        *,
        joint: bool,
        device: str,
    ) -> Lanes:
        """Make the lanes of a class.

        Each agent is a lane if the agents have a joint value, or with groupBatch `all`. Otherwise each policy
        is a lane, which its agents fill in turn. So a policy of several agents learns from as many
        transitions as a policy of one agent.

        Args:
            team, groups: which agents play which policies.
            one: the class.
            policies: of the class, in the order of their stack.
            joint: whether the team's agents have one value.
            device: a torch device.
        """
        if joint or team.group_batch == "all":
            members = [[at] for at, agent in enumerate(agent_class.agents) if agent in team.agents]
        else:
            members = [groups.positions(policy) for policy in policies]
        played = [policies.index(groups.agents[agent_class.agents[lane[0]]]) for lane in members]
        # The columns of other teams' agents are never read.
        columns = [
            0 if joint or agent not in team.agents else team.agents.index(agent)
            for agent in agent_class.agents
        ]
        return cls(
            torch.tensor(played, device=device),
            [np.array(lane) for lane in members],
            np.array(columns),
            torch.tensor([1 / played.count(row) for row in played], device=device),
        )

    def agents_of(self, size: int, turn: int) -> Places:
        """The agents of each lane's `size` draws, i64 [A, size]. Turns begin with different agents."""
        order = np.arange(size) + turn
        return np.stack([own[order % len(own)] for own in self.agents])


@dataclass(frozen=True, slots=True)
class Memories:
    """The memories of networks with a recurrent layer along S sequences of L steps.

    Attributes:
        before: before the first steps, f32 [A, S, H].
        keep: f32 [L, A, S, 1], 0 where memories are emptied before the step, 1 elsewhere.
    """

    before: Tensor
    keep: Tensor

    def at(self, rows: Tensor) -> Memories:
        """Those of the sequences whose rows these are, i64 [s L]."""
        sequences = rows[:: len(self.keep)] // len(self.keep)
        return Memories(self.before[:, sequences], self.keep[:, :, sequences])

    def of(self, lanes: Tensor) -> Memories:
        """Those of lanes i64 [a]."""
        return Memories(self.before[lanes], self.keep[:, lanes])


@dataclass(frozen=True, slots=True)
class Steps:
    """What agents of one class saw and did: A lanes of B steps, each lane of one policy.

    Attributes:
        policies: the row of each lane's policy in its stack, i64 [A].
        observations: f32 [A, B, D].
        actions: i64 [A, B].
        acted: f32 [A, B], 1 where the agent acted.
        memory: where networks remember. Then the steps are sequences, one after the other, B = S L.
    """

    policies: Tensor
    observations: Tensor
    actions: Tensor
    acted: Tensor
    memory: Memories | None = None

    def chosen(self, values: Tensor) -> Tensor:
        """Of values [A, B, N] those of the actions that were taken, [A, B]; 0 where an agent did not act."""
        return values.gather(-1, self.actions[..., None])[..., 0] * self.acted

    def at(self, rows: Tensor) -> Steps:
        """The steps in rows i64 [b]; of whole sequences where networks remember."""
        observations, actions, acted = (
            part[:, rows] for part in (self.observations, self.actions, self.acted)
        )
        return Steps(self.policies, observations, actions, acted, self.memory and self.memory.at(rows))

    def of(self, lanes: Tensor) -> Steps:
        """The steps of lanes i64 [a] of one policy, whose row becomes 0."""
        observations, actions, acted = (part[lanes] for part in (self.observations, self.actions, self.acted))
        policies = torch.zeros_like(lanes)
        return Steps(policies, observations, actions, acted, self.memory and self.memory.of(lanes))


@dataclass(frozen=True, slots=True)
class Transitions:
    """Steps of agents of one class, and what follows them.

    Attributes:
        steps: A lanes of B.
        following: what the agents see after the step, f32 [A, B, D].
        available: of the actions that follow, bool [A, B, N], or None.
        bootstraps: f32 [A, B], 1 where the value of what follows counts.
        carried: where networks remember, f32 [A, B, 1]: 1 where what follows is seen with the memory after
            the step, and 0 where it is seen with an empty one.
    """

    steps: Steps
    following: Tensor
    available: Tensor | None
    bootstraps: Tensor
    carried: Tensor | None = None


@dataclass(frozen=True, slots=True)
class Picked:
    """Steps that are gathered for agents of one class.

    Attributes:
        arrays: of rows; see `transitions.Rows`.
        name: of the class.
        agents: positions on the class axis, i64 [A, B].
        places, following: the steps' rows, and the rows that they lead to, i64 [A, B].
    """

    arrays: Arrays
    name: str
    agents: Places
    places: Places
    following: Places

    @property
    def masked(self) -> bool:
        """Whether some of the class's actions are not available."""
        return f"{self.name}/available" in self.arrays

    def now(self, field: str) -> NDArray[Any]:
        """A field of the class in the steps, [A, B, ...]."""
        return self.arrays[f"{self.name}/{field}"][self.places, self.agents]

    def then(self, field: str) -> NDArray[Any]:
        """A field of the class in the rows that follow, [A, B, ...]."""
        return self.arrays[f"{self.name}/{field}"][self.following, self.agents]


class Reader:
    """Gathers transitions from arrays of rows."""

    def __init__(self, team: Team, *, joint: bool, device: str) -> None:
        """
        Args:
            team: whose agents learn.
            joint: whether they have one value together.
            device: a torch device.
        """
        self._classes = {agent_class.name: len(agent_class.agents) for agent_class in team.classes}
        self._joint, self._agent_ids, self._device = joint, team.agent_ids, device

    def transitions(self, picked: Picked, policies: Tensor) -> Transitions:
        """Gather the transitions of a class whose lanes are of policies i64 [A]; see `Steps`."""
        # A single agent bootstraps unless it ended by itself. A team bootstraps from the agents that act
        # afterwards.
        bootstraps = picked.then("alive") if self._joint else picked.now("goes_on")
        steps = Steps(
            policies,
            self._inputs(picked, picked.now("observations")),
            self.tensor(picked.now("actions")),
            self.tensor(picked.now("alive").astype(np.float32)),
        )
        return Transitions(
            steps,
            self._inputs(picked, picked.then("observations")),
            self.tensor(picked.then("available")) if picked.masked else None,
            self.tensor(bootstraps.astype(np.float32)),
        )

    def states(self, arrays: Arrays, places: Places) -> Tensor:
        """Global states f32 [B, S] of rows [B]: the environment's own, else all observations in the order of
        the wire."""
        if "global_state" in arrays:
            return self.tensor(arrays["global_state"][places])
        parts: Sequence[NDArray[Any]] = [
            arrays[f"{name}/observations"][places].reshape(len(places), -1) for name in self._classes
        ]
        return self.tensor(np.concatenate(parts, axis=1).astype(np.float32, copy=False))

    def tensor(self, array: NDArray[Any]) -> Tensor:
        """The array on the device."""
        return on_device(array, self._device)

    def _inputs(self, picked: Picked, observations: NDArray[Any]) -> Tensor:
        """What the networks see of the picked agents' observations [A, B, .]."""
        seen = observations.astype(np.float32, copy=False)
        if self._agent_ids:
            identities = np.eye(self._classes[picked.name], dtype=np.float32)[picked.agents]
            seen = np.concatenate([seen, identities], axis=-1)
        return self.tensor(seen)
