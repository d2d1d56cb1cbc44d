"""Whether a job's algorithm fits the environment that its actors have, as far as no network is needed.

Nothing here imports torch: `nitro validate` asks, too.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from nitro_actor import wire
from nitro_actor.actions import action_space, without_bounds
from nitro_actor.networks import NETWORKS
from nitro_actor.policy import head_parameters
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_api import FieldError, JobInvalid, JobSpec
from nitro_api.resolution.teams import teams_of
from nitro_learner.algorithms import availability


def check(spec: JobSpec, environment: DescribedEnvironment) -> None:
    """Everything below, for a resolved job and the actors' environment.

    Raises:
        JobInvalid: the environment has another number of agents than the algorithm learns, actions that it
            cannot learn, no agents that an entry of spec.algorithm.policies names, or none that could share;
            or policies of it are too large for a message; or its actors ignore the kwargs of evaluations.
    """
    check_agents(spec, environment)
    check_size(spec, environment)
    check_values(spec, environment)
    if spec.algorithm.record.agents == "one":
        availability.check_actions(spec, environment)
        return
    check_sharing(spec, [names for _, names in teams_of(spec.algorithm, environment.agents)], environment)


def check_agents(spec: JobSpec, environment: DescribedEnvironment) -> None:
    """Make sure that the environment has as many agents as the algorithm learns.

    Raises:
        JobInvalid: the environment has another number of agents.
    """
    several, name, record = environment.several, spec.algorithm.name, spec.algorithm.record
    if several == (record.agents == "several"):
        return
    one, more = ("dqn", "iql") if record.curvature == "td-loss" else ("ppo", "ippo")
    learns, has, other = (
        ("a single agent", "several", more) if several else ("several agents", "a single one", one)
    )
    message = f"learns {learns}, and the environment has {has}; take another algorithm, such as {other}"
    raise JobInvalid([FieldError("spec.algorithm.name", name, message)])


def check_values(spec: JobSpec, environment: DescribedEnvironment) -> None:
    """Make sure that networks of an algorithm with values of actions can rate the environment's actions.

    Raises:
        JobInvalid: DQN's actions are not discrete, SAC's, TD3's or DDPG's are not continuous or have no
            bounds, or the networks have convolutions.
    """
    curvature, name = spec.algorithm.record.curvature, spec.algorithm.name
    if spec.algorithm.record.agents == "several" or curvature == "surrogate":
        return
    errors = []
    wrong = _wrong_actions(environment.only_class.action, continuous=curvature == "q-value")
    if wrong:
        errors.append(FieldError("spec.algorithm.name", name, wrong))
    if spec.network.type != "mlp":
        message = (
            f"must be mlp with {name}, whose networks have no convolutions; for images take ppo or impact"
        )
        errors.append(FieldError("spec.network.type", spec.network.type, message))
    if errors:
        raise JobInvalid(errors)


def _wrong_actions(action: Mapping[str, Any], *, continuous: bool) -> str:
    """What is wrong with actions that should be discrete, or continuous; empty if nothing is."""
    if not continuous:
        wrong = action["kind"] != "discrete"
        text = "needs Discrete actions, and those of the environment are others; take ppo or impact"
        return text if wrong else ""
    if action["kind"] != "continuous":
        return (
            "needs a Box of actions, and those of the environment are others; take dqn for Discrete ones, or "
            "ppo or impact"
        )
    if missing := without_bounds(action):
        return (
            f"needs actions with bounds, and {missing} in the environment; take ppo or impact, or give the "
            "environment's Box a low and a high"
        )
    return ""


def check_size(spec: JobSpec, environment: DescribedEnvironment) -> None:
    """Make sure that a message has room for a policy of each class of agents.

    Raises:
        JobInvalid: it has none.
    """
    network = spec.network
    described: dict[str, Any] = {"hidden": list(network.hidden_sizes), "logStd": network.log_std}
    if network.conv_layers:
        described["convolutions"] = [layer.to_dict() for layer in network.conv_layers]
    if network.recurrent:
        described["recurrent"] = {"cell": network.recurrent.cell, "size": network.memory_size}
    size = seen = outputs = 0
    for agent_class in environment.classes:
        shape, actions = agent_class.observation["shape"], action_space(agent_class.action)
        seen, outputs = seen + math.prod(shape), outputs + actions.outputs
        try:
            layers, width = NETWORKS[network.type].parameters(described, shape)
        except wire.WireError:
            return  # whoever builds the network says which layer does not fit the images
        head, _ = head_parameters(described, width, actions)
        size += sum(4 * math.prod(n or 0 for n in tensor.shape) for tensor in (layers | head).values())
    if size <= wire.MAX_BYTES:
        return
    message = (
        f"make {size / 2**20:.0f} MiB of weights for the {seen} numbers that agents see and the {outputs} "
        f"outputs of their actions, and a message may have {wire.MAX_BYTES // 2**20}; make them (or "
        "spec.network.recurrent.hiddenSize) smaller, or the environment's spaces"
    )
    raise JobInvalid([FieldError("spec.network.hiddenSizes", described["hidden"], message)])


def check_sharing(spec: JobSpec, teams: Sequence[Collection[str]], environment: DescribedEnvironment) -> None:
    """Make sure that agents can share policies, where the job says that they do.

    Args:
        teams: the agents of each algorithm.

    Raises:
        JobInvalid: no two agents of equal spaces learn by one algorithm.
    """
    alike = (
        sum(agent in team for agent in agent_class.agents)
        for team in teams
        for agent_class in environment.classes
    )
    if spec.shared.mode == "never" or any(count > 1 for count in alike):
        return
    message = (
        "needs two agents of equal spaces that learn by one algorithm, and this environment has none; set it "
        "to never"
    )
    raise JobInvalid([FieldError("spec.sharing.mode", spec.shared.mode, message)])
