"""From a job to teams: which agents learn by which algorithm."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest

from agents_support import agents_fragment
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_api import JobInvalid, JobSpec, load_job, resolve
from nitro_learner.algorithms import registry
from nitro_learner.algorithms.agents.team import TeamMisfit
from nitro_learner.algorithms.agents.teams import make_teams
from nitro_learner.algorithms.ppo import model
from sharing_support import ToyTeam
from train_support import job

SPACES = {
    "observation": {"shape": [4], "dtype": "float32", "frame": [4], "stack": 1},
    "action": {"kind": "discrete", "n": 5},
}
ENVIRONMENT = DescribedEnvironment.from_json(
    {
        "classes": {
            "agent": {"agents": ["agent_0", "agent_1"], **SPACES},
            "adversary": {"agents": ["adversary_0", "adversary_1"], **SPACES},
        }
    }
)
SINGLE = DescribedEnvironment.from_json(SPACES)


def spec(sharing: dict[str, Any] | None = None, **algorithm: Any) -> JobSpec:
    return resolve(
        load_job(
            job(
                environment={"id": "mpe2/simple_tag_v3"},
                algorithm={"name": "ippo", **algorithm},
                scaling={"minActors": 2, "maxActors": 6},
                **({"sharing": sharing} if sharing else {}),
            )
        )
    ).spec


def test_one_algorithm_makes_one_team_in_the_order_of_the_wire() -> None:
    (team,) = make_teams(spec(), ENVIRONMENT)
    assert team.agents == ("adversary_0", "adversary_1", "agent_0", "agent_1")
    assert [one.name for one in team.classes] == ["adversary", "agent"]
    assert (team.algorithm, team.reward, team.group_batch) == ("ippo", "own", "equal")
    assert (team.agent_ids, team.state_size) == (False, None)


def test_the_jobs_settings_reach_the_team() -> None:
    chosen = spec({"mode": "always", "groupBatch": "all"}, teamReward=True)
    (team,) = make_teams(chosen, replace(ENVIRONMENT, state_size=7))
    assert (team.reward, team.group_batch, team.agent_ids, team.state_size) == ("team", "all", True, 7)
    assert team.settings == chosen.algorithm.hyperparameters
    assert (team.network, team.seed, team.rounds) == (chosen.network, chosen.seed, chosen.stop.rounds)


def test_a_team_refuses_a_network_with_convolutions() -> None:
    (team,) = make_teams(spec(), ENVIRONMENT)
    network = team.network.model_copy(update={"type": "conv"})
    with pytest.raises(TeamMisfit, match=r"spec.network.type: .* set it to mlp"):
        replace(team, network=network)


def test_entries_take_the_agents_that_they_name_and_the_others_learn_by_the_jobs_algorithm() -> None:
    entries = [
        {"agents": "adversary_*", "name": "iql"},
        {"agents": "agent_1", "name": "ippo", "hyperparameters": {"learningRate": 0.125}},
    ]
    teams = make_teams(spec(policies=entries), ENVIRONMENT)
    assert [(team.algorithm, team.agents) for team in teams] == [
        ("iql", ("adversary_0", "adversary_1")),
        ("ippo", ("agent_1",)),
        ("ippo", ("agent_0",)),
    ]
    rates = [getattr(team.settings, "learning_rate", None) for team in teams]
    assert rates[1] == 0.125 != rates[2]


def test_without_an_agent_left_there_is_no_further_team() -> None:
    teams = make_teams(spec(policies=[{"agents": "*", "name": "iql"}]), ENVIRONMENT)
    assert [team.algorithm for team in teams] == ["iql"]


@pytest.mark.parametrize(
    ("make", "environment", "text"),
    [
        (
            lambda: spec(policies=[{"agents": "wolf_*", "name": "iql"}]),
            ENVIRONMENT,
            r"policies\[0\]\.agents: \"wolf_\*\"; must name an agent of the environment, which has adver",
        ),
        (
            lambda: spec(
                policies=[{"agents": "a*_0", "name": "iql"}, {"agents": "adversary_*", "name": "iql"}]
            ),
            ENVIRONMENT,
            r"policies\[1\]\.agents: \"adversary_\*\"; must not name adversary_0, which an earlier",
        ),
        (
            spec,
            SINGLE,
            r"\"ippo\"; learns several agents, and the environment has a single one; .*such as ppo",
        ),
        (
            lambda: spec(name="iql"),
            SINGLE,
            r"algorithm\.name: \"iql\"; learns several agents, .*such as dqn",
        ),
    ],
)
def test_agents_that_do_not_fit_are_refused(
    make: Callable[[], JobSpec], environment: DescribedEnvironment, text: str
) -> None:
    with pytest.raises(JobInvalid, match=text):
        make_teams(make(), environment)


def test_an_algorithm_of_one_agent_refuses_an_environment_of_several() -> None:
    single = resolve(load_job(job())).spec
    with pytest.raises(JobInvalid, match=r"\"ppo\"; learns a single agent, and the environment has several"):
        registry.make_policies(single, ENVIRONMENT)


def install(monkeypatch: pytest.MonkeyPatch, kind: Callable[..., object]) -> None:
    """Have a package bring the class of all algorithms."""
    monkeypatch.setattr(registry, "ALGORITHMS", {})
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: [Mock(load=lambda: kind)])


def test_the_registry_unites_teams_in_the_order_of_the_wire(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, ToyTeam)
    policies = registry.make_policies(spec(policies=[{"agents": "agent_*", "name": "iql"}]), ENVIRONMENT)
    assert list(policies.agents) == ["adversary_0", "adversary_1", "agent_0", "agent_1"]
    assert [learner.policies for learner in policies.learners] == [
        ("agent_0", "agent_1"),
        ("adversary_0", "adversary_1"),
    ]
    assert len(policies.teams()) == 2


def test_a_class_that_cannot_share_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, lambda *_: object())
    with pytest.raises(TypeError, match="ippo learns several agents, but is no SharingLearner"):
        registry.make_policies(spec(), ENVIRONMENT)


@pytest.mark.parametrize("entry", ["*_0", "adversary_*"])
@pytest.mark.parametrize("name", ["ippo", "mappo", "iql"])
def test_agents_of_different_teams_begin_with_different_policies(name: str, entry: str) -> None:
    """Teams that alternate in the order of the wire, and teams that follow each other."""
    policies = registry.make_policies(
        spec(name=name, policies=[{"agents": entry, "name": name}]), ENVIRONMENT
    )
    assert len(policies.teams()) == 2
    first = [one.tensors["policy.layers.0.weight"].tobytes() for one in policies.weights().values()]
    assert len(set(first)) == 4


def test_policies_of_different_teams_learn_from_different_random_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: Counter[Any] = Counter()
    stream, chosen_agents = model.stream, model.chosen_agents

    def streamed(*keys: int) -> int:
        drawn[keys] += 1
        return stream(*keys)

    def chosen(choices: int, agents: int, seed: Any) -> Any:
        drawn[seed] += 1
        return chosen_agents(choices, agents, seed)

    policies = registry.make_policies(spec(policies=[{"agents": "adversary_*", "name": "ippo"}]), ENVIRONMENT)
    policies.regroup({f"{kind}_0": [f"{kind}_0", f"{kind}_1"] for kind in ("adversary", "agent")})
    monkeypatch.setattr(model, "stream", streamed)
    monkeypatch.setattr(model, "chosen_agents", chosen)
    policies.update([agents_fragment(*ENVIRONMENT.classes)], 1)
    assert len(drawn) == 4, "each policy's order of samples, and its choice of agents"
    assert set(drawn.values()) == {1}
