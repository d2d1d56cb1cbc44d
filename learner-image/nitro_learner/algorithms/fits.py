"""Whether a job's algorithm fits the environment that its actors have, as far as no network is needed.

Nothing here imports torch: `nitro validate` asks, too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from nitro_actor.protocol.agents import agent_classes
from nitro_api import FieldError, JobInvalid, JobSpec
from nitro_api.resolution.teams import teams_of
from nitro_learner.algorithms.rllib import availability


def check(spec: JobSpec, environment: Mapping[str, Any]) -> None:
    """Everything below, for a resolved job and the actors' EnvironmentSpec.

    Raises:
        JobInvalid: the environment has another number of agents than the algorithm learns, actions that it
            cannot learn, no agents that an entry of spec.algorithm.policies names, or none that could share.
    """
    check_agents(spec, environment)
    if spec.algorithm.record.agents == "one":
        availability.check_actions(spec, environment)
        return
    agents = [agent for one in agent_classes(environment) for agent in one.agents]
    check_sharing(spec, [names for _, names in teams_of(spec.algorithm, agents)], environment)


def check_agents(spec: JobSpec, environment: Mapping[str, Any]) -> None:
    """Make sure that the environment has as many agents as the algorithm learns.

    Raises:
        JobInvalid: the environment has another number of agents.
    """
    several, name = "classes" in environment, spec.algorithm.name
    if several == (spec.algorithm.record.agents == "several"):
        return
    message = (
        "learns a single agent, and the environment has several; use one of several agents, such as ippo"
        if several
        else "learns several agents, and the environment has a single one; use one of one agent, such as ppo"
    )
    raise JobInvalid([FieldError("spec.algorithm.name", name, message)])


def check_sharing(spec: JobSpec, teams: Sequence[Collection[str]], environment: Mapping[str, Any]) -> None:
    """Make sure that agents can share policies, where the job says that they do.

    Args:
        teams: the agents of each algorithm.

    Raises:
        JobInvalid: no two agents of equal spaces learn by one algorithm.
    """
    alike = (
        sum(agent in team for agent in one.agents) for team in teams for one in agent_classes(environment)
    )
    if spec.sharing.mode == "never" or any(count > 1 for count in alike):
        return
    message = (
        "needs two agents of equal spaces that learn by one algorithm, and this environment has none; set it "
        "to never"
    )
    raise JobInvalid([FieldError("spec.sharing.mode", spec.sharing.mode, message)])
