"""Policies and critics of several agents, stacked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor

from nitro_actor.actions import action_space
from nitro_api.spec.network import Network
from nitro_learner.algorithms.agents.stacked import StackedPerceptron
from nitro_learner.networks.actor_critic import LOG_STD_MAX, LOG_STD_MIN
from nitro_learner.networks.distributions import distribution_of
from nitro_learner.networks.images import Activation

Shape = TypeVar("Shape", bound="StackedShape", covariant=True)


@dataclass(frozen=True, slots=True)
class Trace:
    """A forward pass of a stack.

    Attributes:
        policy, critic: the networks' activations.
        distribution: the action distributions' parameters [P, B, .]. Where a mask has written one, nothing
            depends on the networks, and the loss's gradient by it is 0.
    """

    policy: list[Tensor]
    critic: list[Tensor]
    distribution: Tensor

    @property
    def values(self) -> Tensor:
        """V [P, B]."""
        return self.critic[-1][..., 0]


class StackedShape(Protocol):
    """The shape of P networks whose parameters are rows [P, size]."""

    size: int

    def initial(
        self, generator: torch.Generator, *, orthogonal: bool, head_gains: Mapping[str, float]
    ) -> Tensor:
        """Draw the parameters of one network; see `StackedPerceptron`."""
        ...

    def views(self, parameters: Tensor) -> dict[str, Tensor]:
        """The parameters by name, each [P, *shape], as views."""
        ...


class MakeShape(Protocol[Shape]):
    """Make the shape of a network; the arguments are those of `StackedPerceptron`."""

    def __call__(
        self,
        inputs: int,
        hidden: Sequence[int],
        heads: Mapping[str, int],
        activation: Activation,
        free: Mapping[str, int],
    ) -> Shape: ...


class PoliciesWithCritics(Generic[Shape]):
    """P policies of one shape, each with its critic. Parameters are rows [P, n]: the policy's, the critic's.

    Attributes:
        policy, critic: their shapes.
        size: n.
    """

    def __init__(
        self,
        inputs: int,
        critic_inputs: int,
        network: Network,
        action: Mapping[str, Any],
        make: MakeShape[Shape],
    ) -> None:
        """
        Args:
            inputs: of a policy.
            critic_inputs: of a critic.
            network: spec.network; both have its hidden layers.
            action: the agents' action space, as the EnvironmentSpec has it.
            make: the shape of the networks.
        """
        actions = action_space(action)
        self._family = distribution_of(action)
        self._continuous, self._actions = actions.head == "gaussian", actions.outputs
        self._free_log_std = self._continuous and network.log_std == "parameter"
        doubled = self._continuous and not self._free_log_std
        self.policy = make(
            inputs,
            network.hidden_sizes,
            {"head": 2 * self._actions if doubled else self._actions},
            network.activation,
            {"log_std": self._actions} if self._free_log_std else {},
        )
        self.critic = make(critic_inputs, network.hidden_sizes, {"head": 1}, network.activation, {})
        self.size = self.policy.size + self.critic.size

    def initial(self, generator: torch.Generator, *, orthogonal: bool) -> Tensor:
        """Draw one policy's parameters and its critic's, f32 [n], as `ActorCritic` does."""
        policy = self.policy.initial(generator, orthogonal=orthogonal, head_gains={"head": 0.01})
        critic = self.critic.initial(generator, orthogonal=orthogonal, head_gains={"head": 1.0})
        return torch.cat([policy, critic])

    def split(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """The policies' part and the critics', as views."""
        return parameters[:, : self.policy.size], parameters[:, self.policy.size :]

    def named(self, parameters: Tensor) -> dict[str, Tensor]:
        """The parameters by name, policy.* and critic.*, each [P, *shape], as views."""
        parts = zip(("policy", "critic"), (self.policy, self.critic), self.split(parameters), strict=True)
        return {
            f"{prefix}.{name}": value
            for prefix, shape, part in parts
            for name, value in shape.views(part).items()
        }

    def _head(self, policies: Tensor, output: Tensor, available: Tensor | None) -> Tensor:
        if not self._continuous:
            return output if available is None else self._family.masked(output, available)
        mean, log_std = output[..., : self._actions], output[..., self._actions :]
        if self._free_log_std:
            log_std = self.policy.views(policies)["log_std"][:, None].expand_as(mean)
        return torch.cat([mean, log_std.clamp(LOG_STD_MIN, LOG_STD_MAX)], dim=-1)


class StackedActorCritic(PoliciesWithCritics[StackedPerceptron]):
    """Policies and critics of hidden layers alone."""

    def __init__(self, inputs: int, critic_inputs: int, network: Network, action: Mapping[str, Any]) -> None:
        """See `PoliciesWithCritics`."""
        super().__init__(inputs, critic_inputs, network, action, StackedPerceptron)

    def distribution(self, policies: Tensor, x: Tensor, available: Tensor | None) -> Tensor:
        """The action distributions' parameters [P, B, .], with a graph.

        Args:
            policies: the policies' part of the parameters.
            x: f32 [P, B, inputs].
            available: bool [P, B, C]; None where all actions are.
        """
        return self._head(policies, self.policy(policies, x), available)

    def values(self, parameters: Tensor, x: Tensor) -> Tensor:
        """V [P, B] of the critics' inputs [P, B, critic_inputs], without a graph."""
        return self.critic.trace(self.split(parameters)[1], x)[-1][..., 0]

    @torch.no_grad()
    def trace(self, parameters: Tensor, x: Tensor, critic_x: Tensor, available: Tensor | None) -> Trace:
        """Both networks' outputs and what their gradients need."""
        policies, critics = self.split(parameters)
        policy, critic = self.policy.trace(policies, x), self.critic.trace(critics, critic_x)
        return Trace(policy, critic, self._head(policies, policy[-1], available))

    @torch.no_grad()
    def backpropagate(
        self, parameters: Tensor, trace: Trace, by_distribution: Tensor, by_values: Tensor, into: Tensor
    ) -> None:
        """Add the parameters' gradients to `into` [P, n].

        Args:
            parameters: [P, n], those of the trace.
            trace: of these parameters.
            by_distribution: the loss's gradient by `trace.distribution`; overwritten.
            by_values: and by the values, [P, B].
            into: [P, n].
        """
        (policies, critics), (into_policies, into_critics) = self.split(parameters), self.split(into)
        if self._continuous:
            raw = trace.policy[-1][..., self._actions :]
            if self._free_log_std:
                raw = self.policy.views(policies)["log_std"][:, None]
            inside = (raw >= LOG_STD_MIN) & (raw <= LOG_STD_MAX)
            by_distribution[..., self._actions :] *= inside
            if self._free_log_std:
                by_log_std = by_distribution[..., self._actions :].sum(1)
                self.policy.views(into_policies)["log_std"].add_(by_log_std)
                by_distribution = by_distribution[..., : self._actions].contiguous()
        self.policy.backpropagate(policies, trace.policy, by_distribution, into_policies)
        self.critic.backpropagate(critics, trace.critic, by_values[..., None], into_critics)
