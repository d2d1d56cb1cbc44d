"""Temporal-difference targets against loops over fragments, in NumPy."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from agents_support import agent_class, agents_fragment, team
from nitro_actor.protocol.agents import AgentClass
from nitro_learner.algorithms.agents.team import Team, TeamMisfit
from nitro_learner.algorithms.q_learning.learning import QLearner
from nitro_learner.data.batch import Fragment
from q_learning_support import targets_one_by_one

SETTINGS: dict[str, Any] = {"normaliseRewards": False, "targetUpdateSteps": 10_000, "learningRate": 0.01}
CLASSES = (agent_class("adversary", 1, size=3, masked=True), agent_class("agent", 3, size=4, masked=True))


def _fragments(*classes: AgentClass, seed: int = 0, **fields: Any) -> list[Fragment]:
    shape = {"length": 9, "envs": 3, "ends": 0.15, "deaths": 0.1} | fields
    return [agents_fragment(*classes, slot=slot, seed=seed, **shape) for slot in (0, 3)]


def _updated(built: Team, classes: tuple[AgentClass, ...], **fields: Any) -> tuple[QLearner, Any, Any, Any]:
    """A learner after two rounds whose target networks are those of the beginning, these, the second round,
    and its results."""
    learner = QLearner(built)
    target = learner.weights()
    learner.update(_fragments(*classes, seed=1, **fields), 1)
    fragments = _fragments(*classes, seed=2, **fields)
    return learner, target, fragments, learner.update(fragments, 2)


@pytest.mark.parametrize("dueling", [True, False])
@pytest.mark.parametrize("agent_ids", [True, False])
def test_each_agent_of_iql_has_its_own_targets(dueling: bool, agent_ids: bool) -> None:
    built = team(
        *CLASSES,
        algorithm="iql",
        settings=SETTINGS | {"dueling": dueling},
        agent_ids=agent_ids,
        group_batch="all",
    )
    # Agents that come back are no part of what follows a death.
    learner, target, fragments, results = _updated(built, CLASSES)
    rewards, following = targets_one_by_one(
        fragments, built, learner.agents, learner.weights(), target, gamma=built.settings.gamma
    )
    found = np.concatenate([results[policy].surrogate.targets.numpy() for policy in learner.policies])
    alive = np.concatenate([results[policy].surrogate.weights.numpy() for policy in learner.policies]) > 0
    assert alive.any(1).all()
    assert not alive.all()
    assert np.allclose(found[alive], (rewards + following)[alive], atol=1e-5)


def test_an_agent_that_died_and_came_back_does_not_bootstrap() -> None:
    one = agent_class("agent", 2, size=3)
    built = team(one, algorithm="iql", settings=SETTINGS)
    fields = {"deaths": 0.4, "returns": 0.9, "ends": 0.0}
    _, _, fragments, results = _updated(built, (one,), **fields)
    for i, agent in enumerate(one.agents):
        died, rewards = (
            np.concatenate([f.by_class["agent"][name][..., i].ravel() for f in fragments])
            for name in ("died", "rewards")
        )
        targets = results[agent].surrogate.targets.numpy()[0]
        assert died.any()
        assert np.allclose(targets[died], rewards[died], atol=1e-6)


@pytest.mark.parametrize("returns", [0.0, 0.5])
def test_vdn_adds_the_values_of_those_who_act_next(returns: float) -> None:
    built = team(*CLASSES, algorithm="vdn", settings=SETTINGS, reward="team")
    learner, target, fragments, results = _updated(built, CLASSES, returns=returns)
    rewards, following = targets_one_by_one(
        fragments, built, learner.agents, learner.weights(), target, gamma=built.settings.gamma
    )
    surrogate = results["agent_0"].surrogate
    acted = surrogate.weights.numpy()[0] > 0
    expected = (rewards.sum(0) + following.sum(0))[acted]
    assert np.allclose(surrogate.targets.numpy()[0][acted], expected, atol=1e-5)


def test_without_double_q_the_target_network_chooses_too() -> None:
    built = team(algorithm="vdn", settings=SETTINGS | {"doubleQ": False}, reward="team")
    learner, target, fragments, results = _updated(built, built.classes)
    rewards, following = targets_one_by_one(
        fragments, built, learner.agents, target, target, gamma=built.settings.gamma
    )
    surrogate = results["agent_0"].surrogate
    acted = surrogate.weights.numpy()[0] > 0
    expected = (rewards.sum(0) + following.sum(0))[acted]
    assert np.allclose(surrogate.targets.numpy()[0][acted], expected, atol=1e-5)


def test_a_team_may_learn_beside_agents_of_another() -> None:
    agents = CLASSES[1].agents
    built = team(*CLASSES, algorithm="vdn", settings=SETTINGS, reward="team", agents=agents)
    learner, target, fragments, results = _updated(built, CLASSES)
    assert learner.policies == agents
    rewards, following = targets_one_by_one(
        fragments, built, learner.agents, learner.weights(), target, gamma=built.settings.gamma
    )
    surrogate = results["agent_0"].surrogate
    acted = surrogate.weights.numpy()[0] > 0
    assert np.allclose(
        surrogate.targets.numpy()[0][acted], (rewards.sum(0) + following.sum(0))[acted], atol=1e-5
    )


@pytest.mark.parametrize("algorithm", ["vdn", "qmix"])
def test_different_rewards_are_no_common_reward(algorithm: str) -> None:
    learner = QLearner(team(algorithm=algorithm, settings=SETTINGS))
    with pytest.raises(TeamMisfit, match=f"{algorithm} needs one reward .*teamReward: true"):
        learner.update(_fragments(), 1)


def test_equal_rewards_are_a_common_reward_whoever_is_dead() -> None:
    built = team(algorithm="vdn", settings=SETTINGS)
    fragments = _fragments(deaths=0.2)
    for fragment in fragments:
        fields = fragment.by_class["agent"]
        fields["rewards"][:] = np.where(fields["alive"], 2.5, 0.0)
    surrogate = QLearner(built).update(fragments, 1)["agent_0"].surrogate
    ended = np.concatenate([f.tensors["terminated"].ravel() for f in fragments])
    acted = surrogate.weights.numpy()[0] > 0
    assert (ended & acted).any()
    assert np.allclose(surrogate.targets.numpy()[0][ended & acted], 2.5)


def test_iql_learns_from_the_teams_reward_where_the_job_says_so() -> None:
    built = team(algorithm="iql", settings=SETTINGS, reward="team")
    fragments = _fragments(deaths=0.0)
    results = QLearner(built).update(fragments, 1)
    ended = np.concatenate([f.tensors["terminated"].ravel() for f in fragments])
    total = np.concatenate([f.by_class["agent"]["rewards"].sum(-1).ravel() for f in fragments])
    for policy in built.agents:
        assert np.allclose(results[policy].surrogate.targets.numpy()[0][ended], total[ended], atol=1e-6)


def test_an_agent_that_never_acts_is_named() -> None:
    built = team(algorithm="iql", settings=SETTINGS)
    fragments = _fragments(deaths=0.0)
    for fragment in fragments:
        for name in ("alive", "died"):
            fragment.by_class["agent"][name][..., 1] = False
    with pytest.raises(TeamMisfit, match="agent_1 did not act"):
        QLearner(built).update(fragments, 1)


def test_actions_of_several_whole_numbers_are_refused() -> None:
    one = agent_class()
    sizes = {"kind": "multiDiscrete", "sizes": [2, 3], "shape": [2], "start": [0, 0], "dtype": "int64"}
    with pytest.raises(TeamMisfit, match=r"vdn needs discrete actions, but those of .* are several whole"):
        QLearner(team(replace(one, action=sizes), algorithm="vdn"))


def test_continuous_actions_are_refused() -> None:
    built = team(agent_class(continuous=True), algorithm="iql")
    with pytest.raises(TeamMisfit, match=r"iql needs discrete actions.* agent_0, agent_1, agent_2"):
        QLearner(built)
