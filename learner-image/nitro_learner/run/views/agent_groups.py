"""Which agents share a policy, over a run: a picture, and a table of the toggles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nitro_learner.run.policy_files import Toggle, read_groups, read_toggles
from nitro_learner.run.rundir import RunDir

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class AgentGroups:
    """Who played which policy in a run of several agents.

    Attributes:
        policies: for each round, the policy of each agent.
        toggles: in order.
    """

    policies: Sequence[Mapping[str, str]]
    toggles: Sequence[Toggle]

    @property
    def agents(self) -> list[str]:
        """All agents, in order."""
        return sorted(self.policies[0])

    def draw(self, axes: Axes, edges: Floats, colours: Sequence[str]) -> None:
        """Draw a lane for each agent, in the colour of the agent whose policy it plays.

        Args:
            edges: where each round begins, and where the last one ends, [rounds + 1].
            colours: of the policies; they are repeated after the last one.
        """
        for lane, agent in enumerate(self.agents):
            played = [policies[agent] for policies in self.policies]
            starts = [0, *(k for k in range(1, len(played)) if played[k] != played[k - 1]), len(played)]
            for begin, end in pairwise(starts):
                colour = colours[self.agents.index(played[begin]) % len(colours)]
                axes.broken_barh(
                    [(edges[begin], edges[end] - edges[begin])], (lane - 0.4, 0.8), facecolors=colour, lw=0
                )
        axes.set_yticks(range(len(self.agents)), self.agents)
        axes.set_ylim(len(self.agents) - 0.4, -0.6)
        axes.grid(visible=False, axis="y")

    def marks(self, edges: Floats) -> Floats:
        """The positions where sharing toggled: each is the end of the last round before it."""
        return np.array([edges[toggle.round] for toggle in self.toggles if toggle.round < len(edges)])


def edges_of(xs: Floats, *, rounds: bool) -> Floats:
    """Where each round begins, and where the last one ends, [rounds + 1].

    Args:
        xs: the x axis' column of metrics.csv: what the end of each round had reached.
        rounds: whether `xs` are the rounds' numbers. Each round then lies around its number.
    """
    return np.append(xs[0] - 0.5, xs + 0.5) if rounds else np.append(0.0, xs)


def groups_of(folder: RunDir, rounds: int) -> AgentGroups | None:
    """Read who played which policy from a run folder; None for a run of one agent.

    Args:
        rounds: number of rounds in metrics.csv. Later rounds of policies.csv are left out.

    Raises:
        RunDirError: a file is damaged.
    """
    policies: list[dict[str, str]] = [{} for _ in range(rounds)]
    for round, policy, agents in read_groups(folder):
        if round <= rounds:
            policies[round - 1].update(dict.fromkeys(agents, policy))
    if not policies or not all(policies):
        return None
    return AgentGroups(policies, read_toggles(folder))


def rows_of(toggle: Toggle) -> tuple[str, str, str, str]:
    """A toggle as the cells of a table: round, what happened, groups with their bases, distances."""
    groups = "; ".join(
        f"{', '.join(members)} by the policy of {policy} ({toggle.bases[policy]})"
        for policy, members in toggle.groups.items()
        if policy in toggle.bases
    )
    distances = []
    for pool in toggle.distances:
        matrix = np.array(pool["distances"])
        pairs = matrix[np.triu_indices(len(matrix), 1)]
        distances.append(f"{pairs.min():.3g} to {pairs.max():.3g}")
    what = "sharing began" if toggle.shared else "sharing ended"
    return (
        str(toggle.round),
        f"{what}: {toggle.reason}",
        groups or "each agent has its own policy",
        "; ".join(distances) or "-",
    )
