"""The policies of a checkpoint with the actor's code, for any number of observations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nitro_actor.agents.environment import AgentsSpec
from nitro_actor.agents.policies import Policies
from nitro_actor.environment import EnvironmentSpec
from nitro_actor.policy import Policy
from nitro_actor.protocol.agents import agent_classes
from nitro_actor.protocol.weights import WeightsContainer

Action = NDArray[Any]
"""f32 [A] within the bounds of the action space, or i64, counted from 0."""


class AgentPlayer:
    """The policy of one agent."""

    def __init__(self, environment: Mapping[str, Any], container: WeightsContainer) -> None:
        (one,) = agent_classes(environment)
        self._bounds = _bounds(one.action)
        low, high = self._bounds or (None, None)
        spec = EnvironmentSpec(
            environment["id"],
            tuple(one.observation["frame"]),
            one.observation["dtype"],
            one.action["n" if low is None else "size"],
            low,
            high,
            time_limit=None,
            resumable=False,
            frame_stack=one.observation["stack"],
        )
        self._policy = Policy(container.policies[container.agents[one.agents[0]]], spec)

    def act(self, observations: NDArray[Any], generator: np.random.Generator | None) -> Action:
        count = len(observations)
        distribution = np.empty((count, self._policy.parameters_per_action), np.float32)
        self._policy.distribution(observations, distribution)
        _check_finite(distribution)
        if generator is None:
            return _clipped(self._policy.mode(distribution), self._bounds)
        (noise,) = self._policy.noise(generator, 1, count)
        actions = np.empty(count, np.int64) if self._bounds is None else np.empty_like(noise)
        self._policy.sample(distribution, noise, actions)
        return _clipped(actions, self._bounds)


class TeamPlayer:
    """The policies of several agents."""

    def __init__(self, environment: Mapping[str, Any], container: WeightsContainer) -> None:
        self._spec = AgentsSpec(environment["id"], agent_classes(environment), None, None, resumable=False)
        self._container = container
        self._policies: tuple[int, Policies] | None = None

    def act(
        self,
        observations: Mapping[str, NDArray[Any]],
        masks: Mapping[str, NDArray[np.bool_]],
        count: int,
        generator: np.random.Generator | None,
    ) -> dict[str, Action]:
        # The policies hold arrays for a number of rows, so they are made once for as long as it is the same.
        if self._policies is None or self._policies[0] != count:
            self._policies = count, Policies(self._container, self._spec, count)
        chosen: dict[str, Action] = {}
        for one in self._spec.classes:
            if not (acting := [agent for agent in one.agents if agent in observations]):
                continue
            policies = self._policies[1].classes[one.name]
            shape = (count, len(one.agents))
            seen = np.zeros((*shape, *one.observation["shape"]), one.observation["dtype"])
            discrete = one.action["kind"] == "discrete"
            available = np.ones((*shape, one.action["n"]), bool) if discrete else None
            for index, agent in enumerate(one.agents):
                if agent in observations:
                    seen[:, index] = observations[agent]
                if available is not None and agent in masks:
                    available[:, index] = masks[agent]
            distribution = np.empty((*shape, policies.parameters_per_action), np.float32)
            policies.distribution(seen, available, distribution)
            _check_finite(distribution)
            if generator is None:
                actions = policies.mode(distribution)
            else:
                noise = policies.noise(np.random.SeedSequence(int(generator.integers(2**63))), 1)
                actions = np.empty(policies.actions_shape(1)[1:], policies.dtype)
                policies.sample(distribution, noise, 0, available, actions)
            actions = _clipped(actions, _bounds(one.action))
            chosen |= {agent: actions[:, one.agents.index(agent)] for agent in acting}
        return {agent: chosen[agent] for agent in observations}


def _bounds(action: Mapping[str, Any]) -> tuple[NDArray[np.float32], NDArray[np.float32]] | None:
    """Bounds of continuous actions, a missing one infinite; None for discrete ones."""
    if action["kind"] == "discrete":
        return None
    low = [-np.inf if bound is None else bound for bound in action["low"]]
    high = [np.inf if bound is None else bound for bound in action["high"]]
    return np.array(low, np.float32), np.array(high, np.float32)


def _clipped(actions: NDArray[Any], bounds: tuple[NDArray[Any], NDArray[Any]] | None) -> Action:
    return actions if bounds is None else np.minimum(np.maximum(actions, bounds[0]), bounds[1])


def _check_finite(distribution: NDArray[np.float32]) -> None:
    if not np.isfinite(distribution).all():
        raise ValueError("the policy's output is NaN or infinite: an observation is, or the weights diverged")
