"""From a job and its environment to teams: which agents learn by which algorithm."""

from __future__ import annotations

from typing import Any

from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_api import JobSpec
from nitro_api.resolution.teams import teams_of
from nitro_learner.algorithms.agents.team import Team
from nitro_learner.algorithms.fits import check_agents


def make_teams(spec: JobSpec, environment: DescribedEnvironment) -> list[Team]:
    """The teams of a resolved job: one for each entry of spec.algorithm.policies, and one of all other
    agents, which learn by spec.algorithm.name, where there are any.

    Args:
        environment: of the actors.

    Raises:
        JobInvalid: the environment has another number of agents than the algorithm learns, an entry names no
            agent, or two name the same one.
    """
    check_agents(spec, environment)

    def team(agents: tuple[str, ...], chosen: Any) -> Team:
        return Team(
            agents=agents,
            classes=environment.classes,
            state_size=environment.state_size,
            algorithm=chosen.name,
            settings=chosen.hyperparameters,
            network=spec.network,
            seed=spec.seed,
            rounds=spec.stop.rounds,
            environment=spec.environment,
            reward="team" if spec.algorithm.team_reward else "own",
            group_batch=spec.shared.group_batch,
            agent_ids=spec.shared.mode == "always",
            rllib=spec.algorithm.rllib,
        )

    return [team(agents, chosen) for chosen, agents in teams_of(spec.algorithm, environment.agents)]
