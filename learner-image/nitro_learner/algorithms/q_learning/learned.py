"""What a Q-learner learns: parameters of policies and of the mixer, with their targets and Adam's moments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from nitro_learner.algorithms.adam import Adam, AdamState
from nitro_learner.algorithms.q_learning.mixers import Mixer
from nitro_learner.algorithms.q_learning.network import QNetwork

Row = tuple[Tensor, Tensor, AdamState]
"""The parameters of a network, f32 [n], those of its target network, and Adam's state."""


class Stack:
    """Parameters of networks of one shape, a row for each.

    Attributes:
        parameters: f32 [P, n].
        targets: of the target networks, f32 [P, n].
    """

    def __init__(self, rows: Sequence[Row], adam_epsilon: float) -> None:
        """
        Args:
            rows: copied.
            adam_epsilon: Adam's epsilon.
        """
        self.parameters = torch.stack([parameters for parameters, _, _ in rows])
        self.targets = torch.stack([target for _, target, _ in rows])
        self._adam_epsilon = adam_epsilon
        self._adam = Adam(self.parameters, [adam for _, _, adam in rows], adam_epsilon)

    @property
    def device(self) -> str:
        """Of the parameters."""
        return str(self.parameters.device)

    def step(self, gradient: Tensor, rate: float) -> None:
        """Take Adam's step of each row along its gradient [P, n]."""
        self._adam.step(gradient, rate)

    def rows(self) -> list[Row]:
        """Every row. Only Adam's state is a copy."""
        return list(zip(self.parameters, self.targets, self._adam.states(), strict=True))


class PolicyStack(Stack):
    """The policies of one agent class.

    Attributes:
        names: of the policies, in the order of the rows.
        network: their shape.
    """

    def __init__(self, rows: Mapping[str, Row], network: QNetwork, adam_epsilon: float) -> None:
        """
        Args:
            rows: by policy; copied.
            network: their shape.
            adam_epsilon: Adam's epsilon.
        """
        super().__init__(list(rows.values()), adam_epsilon)
        self.names, self.network = tuple(rows), network

    def regrouped(self, sources: Mapping[str, str]) -> PolicyStack:
        """A stack of other policies. Each is a copy of the policy of this stack that `sources` names."""
        own = dict(zip(self.names, self.rows(), strict=True))
        rows = {name: own[source] for name, source in sources.items()}
        return PolicyStack(rows, self.network, self._adam_epsilon)

    def state_dict(self) -> dict[str, Any]:
        """The state of each policy, by its name."""
        return {
            name: {
                "parameters": self._named(parameters),
                "target": self._named(target),
                "adam": adam.state_dict(),
            }
            for name, (parameters, target, adam) in zip(self.names, self.rows(), strict=True)
        }

    def loaded(self, state: Mapping[str, Any]) -> PolicyStack:
        """A stack of the same policies that continues from `state_dict()`.

        Raises:
            ValueError: a tensor of the state has another shape.
        """
        rows = {
            name: (
                self._flat(state[name]["parameters"]),
                self._flat(state[name]["target"]),
                AdamState.of(state[name]["adam"], self.device),
            )
            for name in self.names
        }
        return PolicyStack(rows, self.network, self._adam_epsilon)

    def _named(self, row: Tensor) -> dict[str, Tensor]:
        return {
            name: value[0].detach().cpu().clone() for name, value in self.network.named(row[None]).items()
        }

    def _flat(self, named: Mapping[str, Any]) -> Tensor:
        row = torch.zeros_like(self.parameters[:1])
        for name, value in self.network.named(row).items():
            value[0].copy_(_checked(named[name], value[0], name))
        return row[0]


class Learned:
    """What gradient steps change.

    Attributes:
        stacks: the policies of each class.
        mixer: of the agents' values.
        mixing: its parameters, a single row.
    """

    def __init__(
        self, stacks: dict[str, PolicyStack], mixer: Mixer, initial: Tensor, adam_epsilon: float
    ) -> None:
        """
        Args:
            stacks: see the attributes.
            mixer: see the attributes.
            initial: its parameters, f32 [m]; copied.
            adam_epsilon: Adam's epsilon.
        """
        self.stacks, self.mixer, self._adam_epsilon = stacks, mixer, adam_epsilon
        adam = AdamState.fresh(len(initial), str(initial.device))
        self.mixing = Stack([(initial, initial, adam)], adam_epsilon)

    def follow(self) -> None:
        """Make the targets equal to the learned networks."""
        for stack in (self.mixing, *self.stacks.values()):
            stack.targets.copy_(stack.parameters)

    def finite(self) -> bool:
        """Whether all parameters are finite."""
        return all(
            bool(torch.isfinite(stack.parameters).all()) for stack in (self.mixing, *self.stacks.values())
        )

    def state_dict(self) -> dict[str, Any]:
        """The state for a checkpoint."""
        ((mixer, target, adam),) = self.mixing.rows()
        return {
            "policies": {name: stack.state_dict() for name, stack in self.stacks.items()},
            "mixer": mixer.cpu().clone(),
            "mixer_target": target.cpu().clone(),
            "mixer_adam": adam.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any], stacks: Mapping[str, PolicyStack]) -> None:
        """Continue from `state_dict()`.

        Args:
            state: what was saved.
            stacks: of the state's policies, whatever they hold.

        Raises:
            ValueError: a tensor of the state has another shape.
        """
        self.stacks = {name: stack.loaded(state["policies"][name]) for name, stack in stacks.items()}
        own = self.mixing.parameters[0]
        mixer, target = (_checked(state[name], own, name).to(own) for name in ("mixer", "mixer_target"))
        adam = AdamState.of(state["mixer_adam"], self.mixing.device)
        self.mixing = Stack([(mixer, target, adam)], self._adam_epsilon)


def _checked(saved: Any, own: Tensor, name: str) -> Tensor:
    """A saved tensor, if it has the shape of the own one."""
    tensor = torch.as_tensor(saved)
    if tensor.shape != own.shape:
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}, expected {tuple(own.shape)}")
    return tensor
