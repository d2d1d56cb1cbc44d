"""Groups of a team: who plays which policy, and what cannot be a group."""

from dataclasses import replace

import pytest

from agents_support import agent_class, team
from nitro_learner.algorithms.agents.groups import Groups

ADVERSARY, AGENT = agent_class("adversary", 1), agent_class("agent", 3)
AGENTS = ("adversary_0", "agent_0", "agent_1", "agent_2")
TEAM = team(ADVERSARY, AGENT, algorithm="ippo")


def test_at_first_each_agent_plays_a_policy_of_its_own_name() -> None:
    groups = Groups.initial(TEAM)
    assert groups.policies == AGENTS
    assert groups.agents == {agent: agent for agent in AGENTS}


def test_with_agent_ids_a_class_plays_the_policy_of_its_first_agent() -> None:
    groups = Groups.initial(replace(TEAM, agent_ids=True))
    assert groups.to_dict() == {"adversary_0": ["adversary_0"], "agent_0": ["agent_0", "agent_1", "agent_2"]}


def test_agents_and_positions_follow_the_team_whatever_order_a_group_has() -> None:
    part = replace(TEAM, agents=("agent_0", "agent_2"))
    groups = Groups(part, {"agent_2": ["agent_2", "agent_0"]})
    assert groups.of("agent_2") == ("agent_0", "agent_2")
    assert groups.positions("agent_2") == [0, 2]
    assert groups.class_of("agent_2") == AGENT
    assert Groups(part, groups.to_dict()).agents == groups.agents


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({"agent_0": AGENTS[1:]}, "must have each agent"),
        ({"agent_0": AGENTS[1:], "adversary_0": ["adversary_0", "agent_1"]}, "must have each agent"),
        ({"agent_0": AGENTS}, "are of the classes .'adversary', 'agent'.; only agents of one class"),
        ({"adversary_0": ["adversary_0"], "x": AGENTS[1:]}, "must have the agent x, whose name"),
    ],
)
def test_groups_that_cannot_be_are_refused(groups: dict[str, list[str]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Groups(TEAM, groups)
