"""Which policy learns from which agents' transitions in a gradient step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nitro_actor.protocol.agents import AgentClass
from nitro_learner.algorithms.agents.groups import Groups
from nitro_learner.algorithms.agents.team import Team

Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Lanes:
    """The lanes of a class's agents in a gradient step.

    Attributes:
        policies: the row of each lane's policy, i64 [A].
        agents: the positions of each lane's agents on the class axis. They fill it in turn.
        columns: the column of the replay buffer of each agent of the class, i64 [n_c].
        shares: the part of each lane in its policy's loss, f32 [A]. A joint loss has no such parts.
    """

    policies: Tensor
    agents: Sequence[Places]
    columns: Places
    shares: Tensor

    def agents_of(self, size: int, turn: int) -> Places:
        """The agents of each lane's `size` transitions, i64 [A, size]. Turns begin with different agents."""
        order = np.arange(size) + turn
        return np.stack([own[order % len(own)] for own in self.agents])


def lanes_of(
    team: Team, groups: Groups, one: AgentClass, policies: Sequence[str], *, joint: bool, device: str
) -> Lanes:
    """Make the lanes of a class.

    Each agent is a lane if the agents have a joint value, or with groupBatch `all`. Otherwise each policy is
    a lane, which its agents fill in turn. So a policy of several agents learns from as many transitions as a
    policy of one agent.

    Args:
        team, groups: which agents play which policies.
        one: the class.
        policies: of the class, in the order of their stack.
        joint: whether the team's agents have one value.
        device: a torch device.
    """
    if joint or team.group_batch == "all":
        members = [[at] for at, agent in enumerate(one.agents) if agent in team.agents]
    else:
        members = [groups.positions(policy) for policy in policies]
    played = [policies.index(groups.agents[one.agents[lane[0]]]) for lane in members]
    # The columns of other teams' agents are never read.
    columns = [0 if joint or agent not in team.agents else team.agents.index(agent) for agent in one.agents]
    return Lanes(
        torch.tensor(played, device=device),
        [np.array(lane) for lane in members],
        np.array(columns),
        torch.tensor([1 / played.count(row) for row in played], device=device),
    )
