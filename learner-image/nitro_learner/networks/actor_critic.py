"""Policies and their critics: networks of one shape, and the meaning of a policy's outputs.

`ActorCritic` holds no parameters. They are rows [P, n], a row for each policy: the policy's, then its
critic's. The names are the wire's: policy.convolutions.layers.0.weight, ..., policy.layers.0.weight, ...,
policy.head.weight, policy.head.bias, policy.log_std.

`distribution` and `values` build an autograd graph that can be differentiated twice (the detector needs
that). Training uses `trace` and `backpropagate` instead, the same functions with the gradient by hand: half
of autograd's time (bench_learner.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor

from nitro_actor.actions import LOG_STD_RANGE, action_space
from nitro_api.spec.network import Network
from nitro_learner.networks.distributions import distribution_of
from nitro_learner.networks.images import Activation, Image, Weights
from nitro_learner.networks.stacked import StackedPerceptron

Shape = TypeVar("Shape", bound="StackedShape", covariant=True)


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
        self, inputs: Any, hidden: Sequence[int], heads: Mapping[str, int], activation: Activation
    ) -> Shape: ...


class PoliciesWithCritics(Generic[Shape]):
    """P policies of one shape, each with its critic.

    Attributes:
        policy, critic: their shapes. A log-std that is no output of the policy is beside its shape.
        family: of the action distributions.
        size: n.
        alone: whether P is always 1, and the networks have no axis of policies.
    """

    def __init__(
        self,
        inputs: int | Image,
        critic_inputs: int | Image,
        network: Network,
        action: Mapping[str, Any],
        make: MakeShape[Shape],
        *,
        alone: bool = False,
    ) -> None:
        """
        Args:
            inputs: of a policy.
            critic_inputs: of a critic.
            network: spec.network; both have its hidden layers.
            action: the agents' action space, as the EnvironmentSpec has it.
            make: the shape of the networks.
            alone: see above.
        """
        actions = action_space(action)
        self.family = distribution_of(action)
        self.alone = alone
        self._continuous, self._actions = actions.head == "gaussian", actions.outputs
        free = self._continuous and network.log_std == "parameter"
        outputs = 2 * self._actions if self._continuous and not free else self._actions
        self.policy = make(inputs, network.hidden_sizes, {"head": outputs}, network.activation)
        self.critic = make(critic_inputs, network.hidden_sizes, {"head": 1}, network.activation)
        self._log_std = self._actions if free else 0
        self.policy_size = self.policy.size + self._log_std
        self.size = self.policy_size + self.critic.size

    def initial(self, generator: torch.Generator, *, orthogonal: bool) -> Tensor:
        """Draw one policy's parameters and its critic's, f32 [n] on the CPU. A log-std begins at 0."""
        row = torch.zeros(1, self.size)
        policies, critics = self.split(row)
        outputs, _ = self.parts(policies)
        outputs[0] = self.policy.initial(generator, orthogonal=orthogonal, head_gains={"head": 0.01})
        critics[0] = self.critic.initial(generator, orthogonal=orthogonal, head_gains={"head": 1.0})
        return row[0]

    def split(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """The policies' part and the critics', as views."""
        return parameters[:, : self.policy_size], parameters[:, self.policy_size :]

    def parts(self, policies: Tensor) -> tuple[Tensor, Tensor | None]:
        """The policies' parameters of their shape, and their log-std [P, A], as views; None where it is an
        output. It stands before a policy alone, and behind one in a stack, as saved optimisers have it."""
        if not self._log_std:
            return policies, None
        if self.alone:
            return policies[:, self._log_std :], policies[:, : self._log_std]
        return policies[:, : -self._log_std], policies[:, -self._log_std :]

    def named(self, parameters: Tensor) -> dict[str, Tensor]:
        """The parameters by name, policy.* and critic.*, each [P, *shape], as views."""
        policies, critics = self.split(parameters)
        outputs, log_std = self.parts(policies)
        free = {} if log_std is None else {"policy.log_std": log_std}
        policy = {f"policy.{name}": value for name, value in self.policy.views(outputs).items()}
        critic = {f"critic.{name}": value for name, value in self.critic.views(critics).items()}
        return (free | policy if self.alone else policy | free) | critic

    def sent(self, parameters: Tensor) -> dict[str, Tensor]:
        """What actors need of the policies, by its name in the weights container, each [P, *shape]."""
        named = self.named(parameters)
        return {name: value for name, value in named.items() if name.startswith("policy.")}

    def head(self, output: Tensor, log_std: Tensor | None, available: Tensor | None) -> Tensor:
        """The action distributions' parameters [P * B, .], the wire's `distribution`.

        gaussian: mean, then log-std in [-20, 2]. The others: logits; see `nitro_actor.actions`.

        Args:
            output: of the policies, [P * B, .].
            log_std: [P, A], where it is no output.
            available: bool [P * B, C]; None where all actions are.
        """
        if not self._continuous:
            return output if available is None else self.family.masked(output, available)
        mean = output[:, : self._actions]
        if log_std is None:
            log_std = output[:, self._actions :]
        elif len(log_std) == 1:
            log_std = log_std.expand_as(mean)
        else:
            shape = len(log_std), len(mean) // len(log_std), self._actions
            log_std = log_std[:, None].expand(shape).reshape(mean.shape)
        return torch.cat([mean, log_std.clamp(*LOG_STD_RANGE)], dim=1)


@dataclass(frozen=True, slots=True)
class Bound:
    """Views of rows of parameters, or of gradients, that a pass computes with.

    Attributes:
        policy, critic: their layers.
        log_std: [P, A], where it is no output of the policies.
        first: whether it stands before the policies' layers.
    """

    policy: Weights
    critic: Weights
    log_std: Tensor | None
    first: bool

    def tensors(self, *, critic: bool) -> list[Tensor]:
        """The views of the policies, and of the critics where these are asked for, in the order of a row."""
        layers = [part for layer in self.policy for part in layer]
        free = [] if self.log_std is None else [self.log_std]
        policy = [*free, *layers] if self.first else [*layers, *free]
        return policy + [part for layer in self.critic for part in layer if critic]

    def leaves(self) -> Bound:
        """The same tensors to differentiate by. Who changes the ones changes the others."""

        def leaf(tensor: Tensor) -> Tensor:
            return tensor.detach().requires_grad_()

        policy, critic = (
            [(leaf(weight), leaf(bias)) for weight, bias in layers] for layers in (self.policy, self.critic)
        )
        return Bound(policy, critic, None if self.log_std is None else leaf(self.log_std), self.first)


@dataclass(frozen=True, slots=True)
class Trace:
    """A forward pass.

    Attributes:
        policy, critic: the networks' activations.
        distribution: the action distributions' parameters [P * B, .]. Where a mask has written one, nothing
            depends on the networks, and the loss's gradient by it is 0.
        values: V [P * B].
    """

    policy: list[Tensor]
    critic: list[Tensor]
    distribution: Tensor
    values: Tensor


class ActorCritic(PoliciesWithCritics[StackedPerceptron]):
    """Policies and critics that see the present observation alone.

    Rows of samples are ordered policy by policy: [P * B, ...].

    Attributes:
        images: whether observations are images [n, height, width(, channels)], not vectors [n, D].
    """

    def __init__(
        self,
        inputs: int | Image,
        critic_inputs: int | Image,
        network: Network,
        action: Mapping[str, Any],
        *,
        alone: bool = False,
    ) -> None:
        """See `PoliciesWithCritics`."""
        self.images = isinstance(inputs, Image)

        def make(
            inputs: int | Image, hidden: Sequence[int], heads: Mapping[str, int], activation: Activation
        ) -> StackedPerceptron:
            layers = network.conv_layers or ()
            return StackedPerceptron(inputs, hidden, heads, activation, convolutions=layers, alone=alone)

        super().__init__(inputs, critic_inputs, network, action, make, alone=alone)

    def bind(self, parameters: Tensor) -> Bound:
        """Views of rows [P, n]: of parameters, or of their gradients."""
        policies, critics = self.split(parameters)
        outputs, log_std = self.parts(policies)
        return Bound(self.policy.layers(outputs), self.critic.layers(critics), log_std, self.alone)

    def distribution(self, theta: Bound, x: Tensor, available: Tensor | None) -> Tensor:
        """The action distributions' parameters [P * B, .], with a graph.

        Args:
            theta: the parameters.
            x: f32 [P * B, inputs], or images.
            available: bool [P * B, C]; None where all actions are.
        """
        output = self.policy(theta.policy, self._stacked(theta.policy, x))
        return self.head(self._rows(output), theta.log_std, available)

    def values(self, theta: Bound, x: Tensor) -> Tensor:
        """V [P * B] of the critics' inputs [P * B, .], with a graph."""
        return self.critic(theta.critic, self._stacked(theta.critic, x))[..., 0].flatten()

    @torch.no_grad()
    def traced_distribution(self, theta: Bound, x: Tensor, available: Tensor | None) -> Tensor:
        """`distribution` without a graph."""
        output = self.policy.trace(theta.policy, self._stacked(theta.policy, x))[-1]
        return self.head(self._rows(output), theta.log_std, available)

    def traced_values(self, theta: Bound, x: Tensor) -> Tensor:
        """`values` without a graph."""
        return self.critic.trace(theta.critic, self._stacked(theta.critic, x))[-1][..., 0].flatten()

    @torch.no_grad()
    def trace(self, theta: Bound, x: Tensor, critic_x: Tensor, available: Tensor | None) -> Trace:
        """Both networks' outputs and what their gradients need."""
        policy = self.policy.trace(theta.policy, self._stacked(theta.policy, x))
        critic = self.critic.trace(theta.critic, self._stacked(theta.critic, critic_x))
        distribution = self.head(self._rows(policy[-1]), theta.log_std, available)
        return Trace(policy, critic, distribution, critic[-1][..., 0].flatten())

    @torch.no_grad()
    def backpropagate(
        self, theta: Bound, trace: Trace, by_distribution: Tensor, by_values: Tensor, into: Bound
    ) -> None:
        """Add the parameters' gradients to `into`.

        Args:
            theta: the parameters of the trace.
            trace: of these parameters.
            by_distribution: the loss's gradient by `trace.distribution`; overwritten.
            by_values: and by the values.
            into: the gradients.
        """
        self.backpropagate_policy(theta, trace.policy, by_distribution, into)
        self.backpropagate_critic(theta, trace.critic, by_values, into)

    def backpropagate_policy(self, theta: Bound, trace: list[Tensor], grad: Tensor, into: Bound) -> None:
        """Add the policies' gradients; see `backpropagate`."""
        by_output = self._by_output(theta.log_std, self._rows(trace[-1]), grad, into)
        by_output = by_output.view(*trace[-1].shape[:-1], -1)
        self.policy.backpropagate(theta.policy, trace, by_output, into.policy)

    def backpropagate_critic(self, theta: Bound, trace: list[Tensor], grad: Tensor, into: Bound) -> None:
        """Add the critics' gradients; see `backpropagate`."""
        self.critic.backpropagate(theta.critic, trace, grad.view(*trace[-1].shape), into.critic)

    def _by_output(self, log_std: Tensor | None, output: Tensor, grad: Tensor, into: Bound) -> Tensor:
        """The gradient by the policies' output [P * B, .], from the one by the distributions' parameters;
        that by the log-std is added to `into`."""
        if not self._continuous:
            return grad
        low, high = LOG_STD_RANGE
        if log_std is None:
            raw = output[:, self._actions :]
            grad[:, self._actions :] *= (raw >= low) & (raw <= high)
            return grad
        assert into.log_std is not None
        by_log_std = grad[:, self._actions :].view(len(log_std), -1, self._actions).sum(1)
        into.log_std.add_(by_log_std * ((log_std >= low) & (log_std <= high)))
        return grad[:, : self._actions].contiguous()

    def _stacked(self, layers: Weights, x: Tensor) -> Tensor:
        """Rows [P * B, ...] as the networks take them."""
        return x if self.alone else x.view(len(layers[0][1]), -1, *x.shape[1:])

    def _rows(self, output: Tensor) -> Tensor:
        return output if self.alone else output.flatten(0, 1)


def chunk_size(images: bool, device: str) -> int:
    """Rows of one forward and backward pass; a larger minibatch is summed over chunks.

    On a CPU a chunk's activations fit into the processor's cache (with images they never do: there they fit
    into memory). On a GPU a chunk fits into its memory.
    """
    if device == "cpu":
        return 128 if images else 1024
    return 2**12 if images else 2**16
