"""Policy sets whose agents share policies: groups, versions, several teams, checkpoints."""

import numpy as np
import pytest

from agents_support import agent_class, agents_fragment
from learner_support import job
from nitro_api.spec.network import Network
from nitro_learner.algorithms.agents.team import Team
from nitro_learner.algorithms.policy_set import PolicySet
from sharing_support import ToyTeam

CLASSES = (agent_class("adversary", 1), agent_class("agent", 3))
WIRE = ("adversary_0", "agent_0", "agent_1", "agent_2")
APART = {agent: (agent,) for agent in WIRE}
PAIRED = {"adversary_0": ("adversary_0",), "agent_1": ("agent_0", "agent_1"), "agent_2": ("agent_2",)}


def toy(*agents: str, agent_ids: bool = False) -> ToyTeam:
    network = Network(type="mlp", hidden_sizes=[8], activation="tanh", log_std="state")
    team = Team(
        agents=agents,
        classes=CLASSES,
        state_size=None,
        algorithm="toy",
        settings=None,  # type: ignore[arg-type]  # a toy has no settings
        network=network,
        seed=0,
        rounds=None,
        environment=job().spec.environment,
        agent_ids=agent_ids,
    )
    return ToyTeam(team)


def policy_set(*teams: ToyTeam) -> PolicySet:
    agents = {agent: policy for team in teams for agent, policy in team.agents.items()}
    return PolicySet(teams, {agent: agents[agent] for agent in WIRE}, "rounds")


def two_teams() -> PolicySet:
    return policy_set(toy("adversary_0"), toy("agent_0", "agent_1", "agent_2"))


def number(policies: PolicySet, name: str) -> float:
    return float(policies.weights()[name].tensors["number"][0])


def test_each_agent_begins_with_its_own_policy() -> None:
    policies = two_teams()
    assert policies.groups() == APART
    assert policies.names == WIRE


def test_a_group_goes_on_with_the_policy_of_its_name_and_is_a_new_version() -> None:
    policies = two_teams()
    policies.update([agents_fragment(*CLASSES)], 1)
    learned = {name: number(policies, name) for name in WIRE}
    policies.regroup(PAIRED)
    assert policies.version == 2
    assert policies.groups() == PAIRED
    assert policies.agents == {
        "adversary_0": "adversary_0",
        "agent_0": "agent_1",
        "agent_1": "agent_1",
        "agent_2": "agent_2",
    }
    assert list(policies.agents) == list(WIRE), "the order of the wire is lost"
    assert number(policies, "agent_1") == learned["agent_1"] != learned["agent_0"]
    policies.regroup(APART)
    assert policies.version == 3
    assert number(policies, "agent_0") == learned["agent_1"], "no copy of the group's policy"


def test_a_group_of_two_teams_or_without_an_agent_is_refused() -> None:
    with pytest.raises(ValueError, match="agent_0"):
        two_teams().regroup(
            {"adversary_0": ("adversary_0", "agent_0"), "agent_1": ("agent_1",), "agent_2": ("agent_2",)}
        )
    with pytest.raises(ValueError, match="agent_2"):
        two_teams().regroup({"adversary_0": ("adversary_0",), "agent_0": ("agent_0", "agent_1")})
    with pytest.raises(ValueError, match="nobody"):
        two_teams().regroup(APART | {"nobody": ("nobody",)})


def test_a_checkpoint_has_the_groups() -> None:
    policies = two_teams()
    policies.update([agents_fragment(*CLASSES)], 1)
    policies.regroup(PAIRED)
    policies.update([agents_fragment(*CLASSES, slot=3)], 2)
    again = two_teams()
    again.load_state_dict(policies.state_dict())
    assert again.groups() == PAIRED
    assert (again.version, again.encode("run")) == (policies.version, policies.encode("run"))
    for each in (policies, again):
        each.update([agents_fragment(*CLASSES, slot=5)], 3)
        each.regroup(APART)
    assert again.encode("run") == policies.encode("run")


def test_a_checkpoint_of_other_agents_is_refused() -> None:
    saved = policy_set(toy(*WIRE)).state_dict()
    saved["agents"] = {"agent_9": "agent_9"}
    saved["learners"][0]["policies"] = ["agent_9"]
    with pytest.raises(ValueError, match=r"of the policies .*agent_9"):
        two_teams().load_state_dict(saved)


def test_with_agent_ids_a_class_begins_with_one_policy() -> None:
    policies = policy_set(toy(*WIRE, agent_ids=True))
    assert policies.groups() == {
        "adversary_0": ("adversary_0",),
        "agent_0": ("agent_0", "agent_1", "agent_2"),
    }
    rewards = agents_fragment(*CLASSES)
    policies.update([rewards], 1)
    expected = rewards.by_class["agent"]["rewards"].mean()
    assert number(policies, "agent_0") == pytest.approx(float(np.float32(expected)))
