"""An actor's answer to GET /v1/spec, the EnvironmentSpec, as a learner reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from nitro_actor.protocol.agents import AgentClass, agent_classes, state_size


@dataclass(frozen=True)
class DescribedEnvironment:
    """The environment of an actor, read once from its answer to GET /v1/spec.

    Attributes:
        id: the environment's name.
        several: whether it has several agents, which play in classes.
        classes: ordered by name. An environment of one agent has one class of one agent.
        state_size: numbers of the global state; None where it is the concatenation of all observations.
        resumable: whether fragments carry an end state.
        info_metrics: entries of the steps' info whose numbers fragments carry.
        stateful_wrappers: gymnasium's wrappers whose state goes on from episode to episode, by their names.
        envs: copies that an actor has, where it tells it; only Lambda functions do.
        json: the whole answer but `envs`, as checkpoints keep it.
    """

    id: str
    several: bool
    classes: tuple[AgentClass, ...]
    state_size: int | None
    resumable: bool
    info_metrics: tuple[str, ...]
    stateful_wrappers: tuple[str, ...]
    envs: int | None
    json: Mapping[str, Any] = field(repr=False)

    @classmethod
    def from_json(cls, json: Mapping[str, Any]) -> DescribedEnvironment:
        """Read an answer of this protocol version. Fields that it leaves out are empty or false.

        Raises:
            MetadataError: its classes or its state are wrong.
        """
        return cls(
            id=str(json.get("id", "")),
            several="classes" in json,
            classes=agent_classes(json),
            state_size=state_size(json),
            resumable=bool(json.get("resumable")),
            info_metrics=tuple(json.get("infoMetrics", ())),
            stateful_wrappers=tuple(json.get("statefulWrappers", ())),
            envs=json.get("envs"),
            json={name: value for name, value in json.items() if name != "envs"},
        )

    @cached_property
    def agents(self) -> tuple[str, ...]:
        """All agents: by class in the order of the classes' names, then as a class lists them."""
        return tuple(agent for agent_class in self.classes for agent in agent_class.agents)

    @property
    def only_class(self) -> AgentClass:
        """The class of an environment of one agent."""
        (agent_class,) = self.classes
        return agent_class
