"""Learning algorithms: `make_policies` builds what a job learns."""

from collections.abc import Collection
from importlib import import_module, metadata
from typing import Any

from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_api import JobSpec
from nitro_learner.algorithms import availability
from nitro_learner.algorithms.agents.team import SharingLearner, Team
from nitro_learner.algorithms.agents.teams import make_teams
from nitro_learner.algorithms.base import Learner
from nitro_learner.algorithms.fits import check_size, check_values
from nitro_learner.algorithms.policy_set import PolicySet

ALGORITHMS = {
    "ppo": "ppo.learning:Ppo",
    "impact": "impact.learning:Impact",
    "sac": "q_actor_critic.learning:QActorCritic",
    "td3": "q_actor_critic.learning:QActorCritic",
    "ddpg": "q_actor_critic.learning:QActorCritic",
    "dqn": "q_learning.dqn:Dqn",
    "ippo": "ppo.learning:Ppo",
    "mappo": "ppo.learning:Ppo",
    "iql": "q_learning.learning:QLearner",
    "vdn": "q_learning.learning:QLearner",
    "qmix": "q_learning.learning:QLearner",
}
"""The class of each algorithm, by spec.algorithm.name: its module in this folder, and its name there.

RLlib's are in a package of their own, which names them by entry points of the group `nitro.algorithms`.
"""


def make_policies(spec: JobSpec, environment: DescribedEnvironment, device: str = "cpu") -> PolicySet:
    """The policies of a resolved job, with their learners.

    Args:
        spec: resolved: every hyperparameter is set.
        environment: of the actors.
        device: a torch device.

    Raises:
        JobInvalid: the environment has another number of agents than the algorithm learns (see also
            `make_teams`), or the algorithm is RLlib's, which is not installed or refuses the job's settings
            or the environment's actions; its networks cannot rate the actions; or policies are too large for
            a message. Or the algorithm is the user's own, and cannot be made.
        NetworkMisfit: the network does not fit the observations.
        TypeError: the class does not implement what its record's feeding asks for.
    """
    record = spec.algorithm.record
    availability.check(spec)
    teams = make_teams(spec, environment)
    availability.check_actions(spec, environment)
    check_size(spec, environment)
    check_values(spec, environment)
    learners: list[Learner] = [_learner_of(spec, team, device) for team in teams]
    if record.agents == "several":
        for team, learner in zip(teams, learners, strict=True):
            if not isinstance(learner, SharingLearner):
                raise TypeError(f"{team.algorithm} learns several agents, but is no SharingLearner")
    policies = {agent: policy for learner in learners for agent, policy in learner.agents.items()}
    return PolicySet(learners, {agent: policies[agent] for agent in environment.agents}, record.feeding)


def load_own(spec: JobSpec, needs: Collection[str]) -> None:
    """Import the job's algorithm if it is the user's own, and check it as far as no environment is needed.

    Args:
        needs: what the job's scaler asks to be measured.

    Raises:
        JobInvalid: it cannot be loaded, is no learner, or does not take the settings.
    """
    if spec.algorithm.entry_point is not None:
        from nitro_learner.algorithms.own.learner import load

        load(spec, needs)


def _learner_of(spec: JobSpec, team: Team, device: str) -> Learner:
    if spec.algorithm.entry_point is None:
        learner: Learner = _class_of(team.algorithm)(team, device)
        return learner
    from nitro_learner.algorithms.own.learner import make

    return make(spec, team, device)


def _class_of(name: str) -> Any:
    """The class of an algorithm, by the algorithm's name."""
    # A class is imported only now: RLlib's take seconds to import, and are not installed everywhere.
    if name not in ALGORITHMS:
        (installed,) = metadata.entry_points(group="nitro.algorithms", name=name)
        return installed.load()
    module, _, own = ALGORITHMS[name].partition(":")
    return getattr(import_module(f"nitro_learner.algorithms.{module}"), own)
