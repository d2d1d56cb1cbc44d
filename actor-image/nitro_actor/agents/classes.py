"""Agents of equal spaces as classes."""

from collections.abc import Mapping
from itertools import takewhile
from typing import Any

from nitro_actor.config import EnvironmentConfigError
from nitro_actor.protocol.agents import AGENT, RESERVED, AgentClass
from nitro_actor.protocol.fields import NAME


def group(spaces: Mapping[str, tuple[dict[str, Any], dict[str, Any]]]) -> tuple[AgentClass, ...]:
    """Make classes of the agents whose spaces are equal, ordered by name.

    The name of a class is the common beginning of its agents' names, without the separator before a number:
    `adversary` for `adversary_0` and `adversary_1`. The name is `agent` if they have nothing in common. It
    gets a number if another class already has that name.

    Args:
        spaces: observation and action of each agent, as the EnvironmentSpec has them.

    Raises:
        EnvironmentConfigError: the name of an agent is not allowed.
    """
    members: list[tuple[tuple[dict[str, Any], dict[str, Any]], list[str]]] = []
    for agent, own in spaces.items():
        if not isinstance(agent, str) or not NAME.fullmatch(agent):
            raise EnvironmentConfigError(
                f"possible_agents: {agent!r} is no name of an agent; a name is 1 to 64 letters, digits, "
                "'.', '_' and '-', and begins with a letter or a digit"
            )
        agents = next((agents for known, agents in members if known == own), None)
        if agents is None:
            members.append((own, agents := []))
        agents.append(agent)
    classes: dict[str, AgentClass] = {}
    for (observation, action), agents in members:
        name = _unused(_common(agents), classes)
        classes[name] = AgentClass(name, tuple(agents), observation, action, mortal=True)
    return tuple(classes[name] for name in sorted(classes))


def _common(agents: list[str]) -> str:
    first, last = min(agents), max(agents)  # a prefix of both is a prefix of all
    same = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    return "".join(letter for letter, _ in same).rstrip("0123456789").rstrip("._-") or AGENT


def _unused(name: str, taken: Mapping[str, Any]) -> str:
    name = f"{name}s" if name in RESERVED else name
    number, found = 1, name
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    return found
