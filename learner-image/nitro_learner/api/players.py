"""The policies of a checkpoint with the actor's code, for any number of observations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nitro_actor.actions import action_space
from nitro_actor.agents.environment import AgentsSpec
from nitro_actor.agents.policies import Policies
from nitro_actor.environment import EnvironmentSpec
from nitro_actor.masks import choices
from nitro_actor.policy import Policy
from nitro_actor.protocol.environment import DescribedEnvironment
from nitro_actor.protocol.weights import WeightsContainer

Action = NDArray[Any]
"""Continuous: f32 [A] within the bounds of the action space. Whole numbers: as the environment takes them,
i64 of a Discrete space, and of a MultiDiscrete or MultiBinary one an array of its shape and dtype."""


State = NDArray[np.float32]
"""What an agent remembers of its episode: f32 [H], or of a batch [B, H]. H is 0 without a recurrent layer."""


class AgentPlayer:
    """The policy of one agent."""

    def __init__(self, environment: DescribedEnvironment, container: WeightsContainer) -> None:
        one = environment.one
        self._space = action_space(one.action)
        spec = EnvironmentSpec(
            environment.id,
            tuple(one.observation["frame"]),
            one.observation["dtype"],
            self._space,
            time_limit=None,
            resumable=False,
            frame_stack=one.observation["stack"],
        )
        self._policy = Policy(container.policies[container.agents[one.agents[0]]], spec)

    def act(
        self,
        observations: NDArray[Any],
        mask: NDArray[np.bool_] | None,
        generator: np.random.Generator | None,
        state: State,
    ) -> Action:
        """Choose actions; `state` f32 [B, H] is updated in place."""
        count = len(observations)
        space = self._space
        distribution = np.empty((count, space.parameters), np.float32)
        self._policy.distribution(observations, distribution, state, mask)
        _check_finite(distribution)
        if generator is None:
            return space.native(space.mode(distribution))
        actions = np.empty((count, *space.shape), space.dtype)
        space.sample(distribution, space.noise(generator, (count,)), actions)
        return space.native(actions)


class TeamPlayer:
    """The policies of several agents."""

    def __init__(self, environment: DescribedEnvironment, container: WeightsContainer) -> None:
        self._spec = AgentsSpec(environment.id, environment.classes, None, None, resumable=False)
        self._container = container
        self._policies: tuple[int, Policies] | None = None

    def act(
        self,
        observations: Mapping[str, NDArray[Any]],
        masks: Mapping[str, NDArray[np.bool_]],
        count: int,
        generator: np.random.Generator | None,
        states: Mapping[str, State],
    ) -> dict[str, Action]:
        """Choose actions; `states` f32 [B, H] of the agents that act are updated in place."""
        # The policies hold arrays for a number of rows, so they are made once for as long as it is the same.
        made = self._policies
        if made is None or made[0] != count:
            made = self._policies = count, Policies(self._container, self._spec, count)
        playing = [one for one in self._spec.classes if any(agent in observations for agent in one.agents)]
        # In one call, so that no other thread's draw comes between.
        seeds = None if generator is None else generator.integers(2**63, size=len(playing)).tolist()
        chosen: dict[str, Action] = {}
        for number, one in enumerate(playing):
            acting = [agent for agent in one.agents if agent in observations]
            policies = made[1].classes[one.name]
            shape = (count, len(one.agents))
            seen = np.zeros((*shape, *one.observation["shape"]), one.observation["dtype"])
            space = policies.actions
            each = choices(space)
            available = np.ones((*shape, each), bool) if each else None
            for index, agent in enumerate(one.agents):
                if agent in observations:
                    seen[:, index] = observations[agent]
                if available is not None and agent in masks:
                    available[:, index] = masks[agent]
            distribution = np.empty((*shape, space.parameters), np.float32)
            memory = policies.memory()
            for agent in acting:
                memory[:, one.agents.index(agent)] = states[agent]
            policies.distribution(seen, available, distribution, memory)
            for agent in acting:
                states[agent][:] = memory[:, one.agents.index(agent)]
            _check_finite(distribution)
            if seeds is None:
                actions = space.mode(distribution)
            else:
                noise = policies.noise(np.random.SeedSequence(seeds[number]), 1)
                actions = policies.empty(1)[0]
                policies.sample(distribution, noise, 0, available, actions)
            chosen |= {agent: space.native(actions[:, one.agents.index(agent)]) for agent in acting}
        return {agent: chosen[agent] for agent in observations}


def _check_finite(distribution: NDArray[np.float32]) -> None:
    if not np.isfinite(distribution).all():
        raise ValueError("the policy's output is NaN or infinite: an observation is, or the weights diverged")
