"""Who plays which policy of a team whose agents may share policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nitro_actor.protocol.agents import AgentClass
from nitro_learner.algorithms.agents.team import Team


class Groups:
    """The groups of a team: each policy with the agents that play it. Immutable.

    A policy has the name of one of its agents. Its agents are of one class.

    Attributes:
        policies: their names, in the team's order of the agents of these names.
        agents: the policy of each agent, in the team's order.
    """

    def __init__(self, team: Team, groups: Mapping[str, Sequence[str]]) -> None:
        """
        Args:
            team: whose agents play.
            groups: every agent of the team once, by the name of its policy.

        Raises:
            ValueError: a group has agents of several classes or not the agent of its name, or an agent is
                missing, unknown or occurs twice.
        """
        self._team = team
        self._classes = {agent: agent_class for agent_class in team.classes for agent in agent_class.agents}
        grouped = [agent for members in groups.values() for agent in members]
        if sorted(grouped) != sorted(team.agents):
            raise ValueError(f"the groups {dict(groups)} must have each agent of {list(team.agents)} once")
        for policy, members in groups.items():
            if policy not in members:
                raise ValueError(f"the group {list(members)} must have the agent {policy}, whose name it has")
            classes = {self._classes[agent].name for agent in members}
            if len(classes) > 1:
                raise ValueError(
                    f"the agents {list(members)} are of the classes {sorted(classes)}; "
                    "only agents of one class can share a policy"
                )
        self.policies = tuple(agent for agent in team.agents if agent in groups)
        by_agent = {agent: policy for policy, members in groups.items() for agent in members}
        self.agents = {agent: by_agent[agent] for agent in team.agents}

    @classmethod
    def initial(cls, team: Team) -> Groups:
        """Make the groups that a run begins with: each agent alone, or with agent ids each class together."""
        if not team.agent_ids:
            return cls(team, {agent: [agent] for agent in team.agents})
        own = [
            [agent for agent in agent_class.agents if agent in team.agents] for agent_class in team.classes
        ]
        return cls(team, {members[0]: members for members in own if members})

    def of(self, policy: str) -> tuple[str, ...]:
        """The agents that play a policy, in the team's order."""
        return tuple(agent for agent, played in self.agents.items() if played == policy)

    def class_of(self, policy: str) -> AgentClass:
        """The class of a policy's agents."""
        return self._classes[policy]

    def positions(self, policy: str) -> list[int]:
        """Where a policy's agents are on the class axis of its class."""
        agents = self.class_of(policy).agents
        return [agents.index(agent) for agent in self.of(policy)]

    def to_dict(self) -> dict[str, list[str]]:
        """The agents by policy, from which `Groups` can be made again."""
        return {policy: list(self.of(policy)) for policy in self.policies}
