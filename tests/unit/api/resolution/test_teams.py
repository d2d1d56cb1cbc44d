"""Which agents learn by which entry of spec.algorithm."""

from __future__ import annotations

import pytest

from nitro_api import JobInvalid
from nitro_api.resolution.teams import teams_of
from nitro_api.spec.algorithm import AgentsAlgorithm, Algorithm

AGENTS = ("adversary_0", "adversary_1", "adversary_2", "agent_0")


def algorithm(*patterns: str) -> Algorithm:
    return Algorithm(
        name="ippo", policies=[AgentsAlgorithm(agents=text, name="mappo") for text in patterns] or None
    )


def agents_of(*patterns: str) -> list[tuple[str, tuple[str, ...]]]:
    """The algorithm and the agents of each team."""
    return [(chosen.name, agents) for chosen, agents in teams_of(algorithm(*patterns), AGENTS)]


def test_without_entries_all_agents_are_one_team() -> None:
    assert agents_of() == [("ippo", AGENTS)]


def test_agents_of_no_entry_learn_by_the_jobs_algorithm() -> None:
    assert agents_of("adversary_?") == [("mappo", AGENTS[:3]), ("ippo", AGENTS[3:])]
    assert agents_of("adversary_1") == [("mappo", AGENTS[1:2]), ("ippo", (AGENTS[0], *AGENTS[2:]))]


def test_entries_may_name_all_agents() -> None:
    assert agents_of("adversary_*", "agent_*") == [("mappo", AGENTS[:3]), ("mappo", AGENTS[3:])]


def test_an_entry_that_names_nobody_is_refused() -> None:
    with pytest.raises(JobInvalid) as refused:
        agents_of("adversary_*", "prey_*")
    (error,) = refused.value.errors
    assert (error.path, error.value) == ("spec.algorithm.policies[1].agents", "prey_*")
    assert error.message == (
        "must name an agent of the environment, which has adversary_0, adversary_1, adversary_2, agent_0; "
        "correct it"
    )


def test_an_agent_that_two_entries_name_is_refused() -> None:
    with pytest.raises(JobInvalid) as refused:
        agents_of("adversary_*", "*_0")
    (error,) = refused.value.errors
    assert (error.path, error.value) == ("spec.algorithm.policies[1].agents", "*_0")
    assert error.message.startswith("must not name adversary_0, which an earlier entry names")
