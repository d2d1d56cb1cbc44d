"""The work of an actor with several agents: policies, rollout and evaluation."""

from typing import Any

import numpy as np

from nitro_actor.actions import action_space
from nitro_actor.agents.environment import AgentsEnvironment
from nitro_actor.agents.rollout import evaluate, rollout
from nitro_actor.masks import choices
from nitro_actor.policy import Policies
from nitro_actor.protocol.weights import WeightsContainer
from nitro_actor.rollout import Tensors


class SeveralAgents:
    """Play an environment of several agents; see `nitro_actor.play.Play`."""

    fills = False

    def __init__(self, environment: AgentsEnvironment) -> None:
        self._environment = environment

    def step_bytes(self) -> int:
        """See `Play`."""
        spec = self._environment.spec
        total = 8 * (spec.state_size or 0) + 8 * len(spec.agents) + 64
        for one in spec.classes:
            row = int(np.prod(one.observation["frame"])) * np.dtype(one.observation["dtype"]).itemsize
            actions = action_space(one.action)
            # As of one agent; and whether it was alive, died, and which actions there were, twice.
            total += len(one.agents) * (2 * row + actions.bytes + 2 * choices(actions) + 64)
        return total

    def policy(self, container: WeightsContainer) -> Policies:
        """See `Play`."""
        return Policies(container, self._environment.spec.classes)

    def rollout(self, policy: Policies, **arguments: Any) -> Tensors:
        """See `Play`."""
        return rollout(self._environment, policy, **arguments)

    def evaluate(self, policy: Policies, *, rows: int = 0, **arguments: Any) -> Tensors:
        """See `Play`."""
        assert rows <= self._environment.count, "this one does not fill rows"
        return evaluate(self._environment, policy, **arguments)
