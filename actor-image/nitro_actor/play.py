"""The work of an actor with its environment: policies, rollouts and evaluations."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from nitro_actor.environment import Environment
from nitro_actor.masks import choices
from nitro_actor.policy import Policies
from nitro_actor.protocol.fragment import from_one_agent
from nitro_actor.protocol.weights import WeightsContainer
from nitro_actor.rollout import Tensors, evaluate, rollout

if TYPE_CHECKING:
    from nitro_actor.make_env import AnyEnvironment


class Play(Protocol):
    """Play an environment. A policy is a result of `policy`; tensors are named as in messages.

    `nitro_actor.rollout` describes arguments and errors.

    Attributes:
        fills: whether `evaluate` takes `rows`, and so an environment of fewer copies.
    """

    fills: bool

    def step_bytes(self) -> int:
        """The largest number of bytes that a step of one environment adds to a fragment."""

    def policy(self, container: WeightsContainer) -> Any:
        """Build the policy. Raises WireError if the weights do not fit the environment."""

    def rollout(
        self,
        policy: Any,
        *,
        seed: int,
        steps: int,
        state: Mapping[str, np.ndarray],
        optional_tensors: Collection[str],
    ) -> Tensors:
        """Sample a fragment."""

    def evaluate(self, policy: Any, *, seed: int, episodes: int, max_steps: int, rows: int = 0) -> Tensors:
        """Play whole episodes."""


def play_of(environment: AnyEnvironment) -> Play:
    """How to play an environment, of one agent or of several."""
    if isinstance(environment, Environment):
        return OneAgent(environment)
    from nitro_actor.agents.play import SeveralAgents  # actors of one agent do not need it

    return SeveralAgents(environment)


class OneAgent:
    """Play an environment of one agent."""

    fills = True

    def __init__(self, environment: Environment) -> None:
        self._environment = environment

    def step_bytes(self) -> int:
        """See `Play`."""
        spec = self._environment.spec
        row = int(np.prod(spec.frame_shape)) * np.dtype(spec.observation_dtype).itemsize
        # A step adds at most an observation, a final observation, the action and its distribution, and some
        # numbers; and which actions there were, twice.
        masks = 2 * choices(spec.action) if spec.masked else 0
        return 2 * row + spec.action.bytes + masks + 64

    def policy(self, container: WeightsContainer) -> Policies:
        """See `Play`."""
        return Policies(container, self._environment.spec.classes)

    def rollout(self, policy: Policies, **arguments: Any) -> Tensors:
        """See `Play`."""
        return from_one_agent(rollout(self._environment, policy, **arguments))

    def evaluate(self, policy: Policies, **arguments: Any) -> Tensors:
        """See `Play`."""
        return from_one_agent(evaluate(self._environment, policy, **arguments))
