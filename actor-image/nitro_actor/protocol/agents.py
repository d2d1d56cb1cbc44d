"""The agents of an environment, in classes. Agents of one class have equal spaces and share their tensors."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from nitro_actor.protocol.fields import NAME, MetadataError, mapping, whole

AGENT = "agent"
"""The agent of an environment of one agent, and its class."""

RESERVED = ("state", "policy")
"""Prefixes of other tensors, so no class has such a name."""


@dataclass(frozen=True)
class AgentClass:
    """Agents of equal spaces.

    Attributes:
        agents: their names, in the order of the class axis.
        observation, action: the spaces, as the EnvironmentSpec has them.
        mortal: whether an agent may be out of the game while others still play; not where it is the only one.
    """

    name: str
    agents: tuple[str, ...]
    observation: Mapping[str, Any]
    action: Mapping[str, Any]
    mortal: bool

    def in_state(self, name: str, array: np.ndarray) -> tuple[str, np.ndarray]:
        """How an end state has an array [E, n_c, ...] of the class: its name there, and a view of it. One
        agent has no axis there."""
        return (f"{name}/{self.name}", array) if self.mortal else (name, array[:, 0])


def agent_classes(environment: Mapping[str, Any]) -> tuple[AgentClass, ...]:
    """Read the classes of an EnvironmentSpec, ordered by name.

    An environment of several agents lists them as `classes: {NAME: {agents, observation, action}}`. An
    environment of one agent lists none: its own spaces are those of the class `agent`.

    Raises:
        MetadataError: a name is not allowed or occurs twice, or a class has no agent.
    """
    if "classes" not in environment:
        spaces = mapping(environment, "observation"), mapping(environment, "action")
        return (AgentClass(AGENT, (AGENT,), *spaces, mortal=False),)
    known: set[str] = set()
    classes = []
    for name, entry in sorted(mapping(environment, "classes").items()):
        agents = entry.get("agents") if isinstance(entry, dict) else None
        if not NAME.fullmatch(name) or name in RESERVED:
            raise MetadataError(f"classes: {name!r} is no name of a class")
        if not isinstance(agents, list) or not agents:
            raise MetadataError(f"classes.{name}.agents: must be a list of at least one agent")
        for agent in agents:
            if not isinstance(agent, str) or not NAME.fullmatch(agent) or agent in known:
                raise MetadataError(
                    f"classes.{name}.agents: {agent!r} is no name of an agent, or occurs twice"
                )
            known.add(agent)
        classes.append(
            AgentClass(name, tuple(agents), mapping(entry, "observation"), mapping(entry, "action"), True)
        )
    if not classes:
        raise MetadataError("classes: must name at least one class")
    return tuple(classes)


def state_size(environment: Mapping[str, Any]) -> int | None:
    """Read how many numbers the global state has; None where the environment has none of its own.

    An environment of several agents names it as `state: {size}`. It leaves it out where the state is the
    concatenation of all observations, which a learner has anyway.

    Raises:
        MetadataError: it is no positive number.
    """
    return whole(mapping(environment, "state"), "size", low=1) if "state" in environment else None
