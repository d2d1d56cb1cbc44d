"""A policy and a critic whose networks are modules of the user's own.

It is an `ActorCritic` of one policy: the losses, the detector and the actors know its distributions, its
values and its rows of parameters. Its gradients are autograd's. A row has the module's float32 tensors, those
that are not trained, too; a gradient step leaves these as they are, because their gradient is 0.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nitro_actor import onnx as played
from nitro_actor import traces
from nitro_actor.protocol.agents import AgentClass
from nitro_api.spec.network import Network
from nitro_learner.networks.actor_critic import ActorCritic, Bound, PoliciesWithCritics, Trace
from nitro_learner.networks.architecture import NetworkMisfit
from nitro_learner.networks.images import Activation
from nitro_learner.networks.own import kept, loading, playing
from nitro_learner.networks.own import skeleton as own


class OwnShape:
    """A module as a function of its float32 tensors, in a row [1, size]. See `StackedShape`.

    Attributes:
        module: in evaluation mode; its own values of these tensors are not used.
        shapes: of these tensors, by name.
        trained: the names of those that are trained.
    """

    def __init__(self, make: loading.Make, outputs: int, path: str) -> None:
        """
        Args:
            make: makes the module.
            outputs: of the module.
            path: the field that names it.

        Raises:
            JobInvalid: it cannot be made.
        """
        self._make, self._outputs, self._path = make, outputs, path
        self.module = loading.seeded(make, outputs, 0)
        tensors = own.named_tensors(self.module)
        self.shapes = {
            name: tensor.shape for name, tensor in tensors.items() if tensor.dtype == torch.float32
        }
        self.trained = [
            name
            for name, tensor in self.module.named_parameters()
            if tensor.requires_grad and name in self.shapes
        ]
        self._sizes = [math.prod(shape) for shape in self.shapes.values()]
        self.size = sum(self._sizes)

    def initial(
        self,
        generator: torch.Generator,
        *,
        orthogonal: bool,  # noqa: ARG002
        head_gains: Mapping[str, float],  # noqa: ARG002
    ) -> Tensor:
        """What the constructor draws."""
        seed = int(torch.randint(2**62, (), generator=generator))
        tensors = own.named_tensors(loading.seeded(self._make, self._outputs, seed))
        return torch.cat([torch.zeros(0), *(tensors[name].detach().flatten() for name in self.shapes)])

    def views(self, parameters: Tensor) -> dict[str, Tensor]:
        """The tensors by name, each [1, *shape], as views."""
        return {f"own.{name}": value[None] for name, value in self.tensors(parameters).items()}

    def tensors(self, parameters: Tensor) -> dict[str, Tensor]:
        """The module's tensors by its own names, as views of a row."""
        parts = torch.split(parameters[0], self._sizes)
        return {
            name: part.view(shape) for (name, shape), part in zip(self.shapes.items(), parts, strict=True)
        }

    def __call__(self, tensors: Sequence[Tensor], x: Tensor) -> Tensor:
        """The outputs [n, outputs], with a graph.

        Raises:
            NetworkMisfit: the module raises.
        """
        named = dict(zip(self.shapes, tensors, strict=True))
        try:
            output: Tensor = torch.func.functional_call(self.module, named, (x,))
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            raised = f"{traces.words(error)}{own.raised_at(error, self.module)}"
            raise NetworkMisfit(
                f"{self._path} names a module whose forward raised {raised} for {len(x)} observations; "
                "correct it"
            ) from error
        return output


@dataclass(frozen=True, slots=True)
class OwnBound(Bound):
    """See `Bound`. `policy` and `critic` are empty.

    Attributes:
        own, own_critic: the modules' tensors, in the order of a row.
        trained, trained_critic: which of them are trained.
    """

    own: Sequence[Tensor]
    own_critic: Sequence[Tensor]
    trained: Sequence[int]
    trained_critic: Sequence[int]

    def tensors(self, *, critic: bool) -> list[Tensor]:
        free = [] if self.log_std is None else [self.log_std]
        policy = [*free, *(self.own[place] for place in self.trained)]
        return policy + [self.own_critic[place] for place in self.trained_critic if critic]

    def leaves(self) -> OwnBound:
        log_std = None if self.log_std is None else self.log_std.detach().requires_grad_()
        policy, critic = leaves(self.own, self.trained), leaves(self.own_critic, self.trained_critic)
        return OwnBound([], [], log_std, self.first, policy, critic, self.trained, self.trained_critic)


def leaves(tensors: Sequence[Tensor], trained: Sequence[int]) -> list[Tensor]:
    """The same tensors, those that are trained to differentiate by."""
    chosen = frozenset(trained)
    return [tensor.detach().requires_grad_(place in chosen) for place, tensor in enumerate(tensors)]


class OwnActorCritic(ActorCritic):
    """See `ActorCritic`; always of one policy.

    Attributes:
        description: the weights container's `network`.
        skeleton: the ONNX file that actors play; see `nitro_learner.networks.own.skeleton`.
    """

    policy: OwnShape  # type: ignore[assignment]
    critic: OwnShape  # type: ignore[assignment]

    def __init__(
        self, network: Network, agents: AgentClass, *, normalised: bool, device: str = "cpu"
    ) -> None:
        """Make both modules, try them, and export the policy's.

        Args:
            network: with an entry point.
            agents: the class of the only agent.
            normalised: whether observations are standardised.
            device: a torch device.

        Raises:
            JobInvalid: a module cannot be made, or cannot be a policy's network or its critic.
        """
        shape = tuple(agents.observation["shape"])
        self.images = len(shape) > 1
        made = iter(zip(loading.makers(network, shape), (loading.ENTRY_POINT, _critic(network)), strict=True))

        def make(
            inputs: Any,  # noqa: ARG001
            hidden: Sequence[int],  # noqa: ARG001
            heads: Mapping[str, int],
            activation: Activation,  # noqa: ARG001
        ) -> OwnShape:
            maker, path = next(made)
            return OwnShape(maker, heads["head"], path)

        # Not the inputs but the observation's shape makes a module, so `make` does not need them.
        PoliciesWithCritics.__init__(self, 0, 0, network, agents.action, make, alone=True)
        dtype = playing.seen_dtype(agents, normalised=normalised)
        policy, critic = self.policy.module, self.critic.module
        try:
            key = json.dumps([network.entry_point, network.settings], sort_keys=True)
            self.skeleton = kept.made(policy, agents, key, log_std=network.log_std, normalised=normalised)
        except own.Unfit as error:
            raise loading.refused(loading.ENTRY_POINT, network.entry_point, error) from error
        try:
            own.check(critic, shape, dtype, 1)
        except own.Unfit as error:
            name = network.critic_entry_point or network.entry_point
            raise loading.refused(_critic(network), name, error) from error
        self.description = playing.description(policy, self.skeleton, agents, network.log_std)
        self._used = own.used_names(self.skeleton)
        self._places = [
            [list(part.shapes).index(name) for name in part.trained] for part in (self.policy, self.critic)
        ]
        policy.to(device)
        critic.to(device)

    @property
    def identity(self) -> dict[str, Any]:
        """What a saved state's modules must have in common with these: shapes, and what is not in a row."""
        return self.description | {
            "critic": {name: list(shape) for name, shape in self.critic.shapes.items()},
            "constants": [_constants(part) for part in (self.policy, self.critic)],
        }

    def sent(self, parameters: Tensor) -> dict[str, Tensor]:
        policy = {
            name: value
            for name, value in super().sent(parameters).items()
            if name.removeprefix(played.PREFIX) in self._used or not name.startswith(played.PREFIX)
        }
        others = {
            f"{played.PREFIX}{name}": tensor[None]
            for name, tensor in own.named_tensors(self.policy.module).items()
            if name in self._used and name not in self.policy.shapes
        }
        file = torch.frombuffer(bytearray(self.skeleton), dtype=torch.uint8)[None]
        return {**policy, **others, played.SKELETON: file}

    def bind(self, parameters: Tensor) -> OwnBound:
        policies, critics = self.split(parameters)
        outputs, log_std = self.parts(policies)
        policy, critic = (
            list(part.tensors(row).values()) for part, row in ((self.policy, outputs), (self.critic, critics))
        )
        return OwnBound([], [], log_std, True, policy, critic, *self._places)

    def distribution(self, theta: Bound, x: Tensor, available: Tensor | None) -> Tensor:
        return self.head(self.policy(_own(theta).own, x), theta.log_std, available)

    def values(self, theta: Bound, x: Tensor) -> Tensor:
        return self.critic(_own(theta).own_critic, x).flatten()

    @torch.no_grad()
    def traced_distribution(self, theta: Bound, x: Tensor, available: Tensor | None) -> Tensor:
        return self.distribution(theta, x, available)

    @torch.no_grad()
    def traced_values(self, theta: Bound, x: Tensor) -> Tensor:
        return self.values(theta, x)

    def trace(self, theta: Bound, x: Tensor, critic_x: Tensor, available: Tensor | None) -> Trace:
        """See `ActorCritic`. A network's trace is the tensors to differentiate by, and the output with its
        graph."""
        bound = _own(theta)
        with torch.enable_grad():
            own_leaves = leaves(bound.own, bound.trained)
            own_output = self.policy(own_leaves, x)
            critic_leaves = leaves(bound.own_critic, bound.trained_critic)
            critic_output = self.critic(critic_leaves, critic_x)
        distribution = self.head(own_output.detach(), theta.log_std, available)
        values = critic_output.detach().flatten()
        return Trace([*own_leaves, own_output], [*critic_leaves, critic_output], distribution, values)

    @torch.no_grad()
    def backpropagate_policy(self, theta: Bound, trace: list[Tensor], grad: Tensor, into: Bound) -> None:
        by_output = self._by_output(theta.log_std, trace[-1].detach(), grad, into)
        bound = _own(into)
        _add_gradients(trace, by_output, bound.own, bound.trained)

    @torch.no_grad()
    def backpropagate_critic(self, theta: Bound, trace: list[Tensor], grad: Tensor, into: Bound) -> None:  # noqa: ARG002
        bound = _own(into)
        _add_gradients(trace, grad.view_as(trace[-1]), bound.own_critic, bound.trained_critic)


def _add_gradients(
    trace: Sequence[Tensor], by_output: Tensor, into: Sequence[Tensor], trained: Sequence[int]
) -> None:
    """Add the gradients of a network's trained tensors."""
    *tensors, output = trace
    if not output.requires_grad:
        return
    gradients = torch.autograd.grad(
        output, [tensors[place] for place in trained], by_output, allow_unused=True
    )
    for place, gradient in zip(trained, gradients, strict=True):
        if gradient is not None:
            into[place].add_(gradient)


def _own(theta: Bound) -> OwnBound:
    assert isinstance(theta, OwnBound)
    return theta


def _critic(network: Network) -> str:
    """The field that names the critic's module."""
    return loading.CRITIC if network.critic_entry_point else loading.ENTRY_POINT


def _constants(part: OwnShape) -> str:
    """A digest of the module's tensors that are no float32: they are in no checkpoint."""
    digest = hashlib.sha256()
    for name, tensor in own.named_tensors(part.module).items():
        if name not in part.shapes:
            digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
            digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]
