"""Teams: which agents of an environment learn by which algorithm of the job."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from nitro_api.errors import FieldError, JobInvalid
from nitro_api.spec.algorithm import AgentsAlgorithm, Algorithm


def teams_of(
    algorithm: Algorithm, agents: Sequence[str]
) -> list[tuple[Algorithm | AgentsAlgorithm, tuple[str, ...]]]:
    """The entries of `policies`, each with its agents. Agents of no entry learn by spec.algorithm itself. If
    there are any, they are the last team.

    Args:
        agents: all agents of the environment; each team keeps their order.

    Raises:
        JobInvalid: with every entry that names no agent, or one that an earlier entry names.
    """
    mistakes: list[FieldError] = []
    teams: list[tuple[Algorithm | AgentsAlgorithm, tuple[str, ...]]] = []
    left = list(agents)
    for index, entry in enumerate(algorithm.policies or ()):
        path = f"spec.algorithm.policies[{index}].agents"
        named = tuple(agent for agent in agents if fnmatchcase(agent, entry.agents))
        taken = [agent for agent in named if agent not in left]
        if not named:
            text = f"must name an agent of the environment, which has {', '.join(agents)}; correct it"
            mistakes.append(FieldError(path, entry.agents, text))
        elif taken:
            text = (
                f"must not name {', '.join(taken)}, which an earlier entry names, because an agent learns by "
                "one algorithm; name the others only"
            )
            mistakes.append(FieldError(path, entry.agents, text))
        left = [agent for agent in left if agent not in named]
        teams.append((entry, named))
    if mistakes:
        raise JobInvalid(mistakes)
    return [*teams, *([(algorithm, tuple(left))] if left else [])]
