"""The policies of a checkpoint with the actor's code, for any number of observations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nitro_actor.masks import choices
from nitro_actor.policy import ClassPolicies, Policies
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.protocol.weights import WeightsContainer

Action = NDArray[Any]
"""Continuous: f32 [A] within the bounds of the action space. Whole numbers: as the environment takes them,
i64 of a Discrete space, and of a MultiDiscrete or MultiBinary one an array of its shape and dtype."""


State = NDArray[np.float32]
"""What an agent remembers of its episode: f32 [H], or of a batch [B, H]. H is 0 without a recurrent layer."""


class Player:
    """The policies of all agents."""

    def __init__(self, environment: DescribedEnvironment, container: WeightsContainer) -> None:
        self._policies = Policies(container, environment.classes)

    def act(
        self,
        observations: Mapping[str, NDArray[Any]],
        masks: Mapping[str, NDArray[np.bool_]],
        count: int,
        generator: np.random.Generator | None,
        states: Mapping[str, State],
    ) -> dict[str, Action]:
        """Choose actions; `states` f32 [B, H] of the agents that act are updated in place."""
        policies = [
            policy
            for policy in self._policies.classes.values()
            if set(policy.agents.agents) & set(observations)
        ]
        generators: Sequence[np.random.Generator | None] = [generator]
        if generator is not None and policies[0].agents.mortal:
            # In one call, so that no other thread's draw comes between.
            seeds = generator.integers(2**63, size=len(policies)).tolist()
            generators = [np.random.Generator(np.random.PCG64(seed)) for seed in seeds]
        elif generator is None:
            generators = [None] * len(policies)
        chosen: dict[str, Action] = {}
        for own, drawn_from in zip(policies, generators, strict=True):
            chosen |= _act(own, observations, masks, count, drawn_from, states)
        return {agent: chosen[agent] for agent in observations}


def _act(
    policies: ClassPolicies,
    observations: Mapping[str, NDArray[Any]],
    masks: Mapping[str, NDArray[np.bool_]],
    count: int,
    generator: np.random.Generator | None,
    states: Mapping[str, State],
) -> dict[str, Action]:
    """As `Player.act`, for the agents of a class."""
    agents, observation = policies.agents.agents, policies.agents.observation
    space = policies.actions
    lanes = count * len(agents)
    # One row for each agent of the class, whether it acts or not, as [B, n_c, ...].
    seen = np.zeros((count, len(agents), *observation["shape"]), observation["dtype"])
    available = np.ones((count, len(agents), choices(space)), bool)
    memory = policies.memory(count)
    remembered = memory.reshape(count, len(agents), -1)
    acting = [(index, agent) for index, agent in enumerate(agents) if agent in observations]
    for index, agent in acting:
        seen[:, index] = observations[agent]
        remembered[:, index] = states[agent]
        if agent in masks:
            available[:, index] = masks[agent]
    allowed = available.reshape(lanes, -1) if choices(space) else None
    distribution = np.empty((lanes, space.parameters), np.float32)
    policies.distribution(seen.reshape(lanes, *observation["shape"]), allowed, distribution, memory)
    if not np.isfinite(distribution).all():
        raise ValueError("the policy's output is NaN or infinite: an observation is, or the weights diverged")
    if generator is None:
        actions = space.mode(distribution)
    else:
        actions = np.empty((lanes, *space.shape), space.dtype)
        policies.sample(distribution, policies.noise(generator, 1, count), 0, allowed, actions)
    for index, agent in acting:
        states[agent][:] = remembered[:, index]
    by_agent = actions.reshape(count, len(agents), *space.shape)
    return {agent: space.native(by_agent[:, index]) for index, agent in acting}
