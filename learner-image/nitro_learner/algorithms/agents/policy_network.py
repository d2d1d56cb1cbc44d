"""What the networks of a team's policies see, and how the weights container describes them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nitro_actor.actions import action_space
from nitro_actor.protocol.agents import AgentClass
from nitro_learner.algorithms.agents.team import Team
from nitro_learner.data.batch import vectors


def identity_size(team: Team, agent_class: AgentClass) -> int:
    """Inputs that tell the agent: with agent ids as many as the class has agents, else none."""
    return len(agent_class.agents) if team.agent_ids else 0


def input_size(team: Team, agent_class: AgentClass) -> int:
    """Inputs of a policy of a class."""
    own: int = math.prod(agent_class.observation["shape"])
    return own + identity_size(team, agent_class)


def inputs(team: Team, agent_class: AgentClass, agent: str, observations: np.ndarray) -> np.ndarray:
    """The inputs f32 [m, D] of the policy that an agent plays, for its observations [m, *frame]."""
    seen = vectors(observations)
    if not team.agent_ids:
        return seen
    identity = np.eye(len(agent_class.agents), dtype=np.float32)[agent_class.agents.index(agent)]
    return np.concatenate([seen, np.tile(identity, (len(seen), 1))], axis=1)


def actor_critic_description(team: Team, agent_class: AgentClass) -> dict[str, Any]:
    """The weights container's `network` of a class whose policies give distributions of actions."""
    head = action_space(agent_class.action).network()
    return description(team, agent_class, **head, logStd=team.network.log_std)


def description(team: Team, agent_class: AgentClass, **head: Any) -> dict[str, Any]:
    """The weights container's `network` of a class; `head` has the fields that depend on the algorithm."""
    network = team.network
    layers = {"hidden": list(network.hidden_sizes), "activation": network.activation}
    identities = {"agentIds": len(agent_class.agents)} if team.agent_ids else {}
    recurrent, images = network.recurrent, network.conv_layers
    memory = {"recurrent": {"cell": recurrent.cell, "size": recurrent.hidden_size}} if recurrent else {}
    convolutions = {"convolutions": [layer.to_dict() for layer in images]} if images else {}
    return {"kind": network.type, **layers, **head, **identities, **memory, **convolutions}
