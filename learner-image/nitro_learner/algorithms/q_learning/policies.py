"""The policies of one agent class: Q-networks, target networks and Adam's moments, as rows of a stack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from nitro_learner.algorithms.adam import Adam, AdamState
from nitro_learner.algorithms.q_learning.network import ActionValues


class PolicyStack:
    """Rows of one stack, one for each policy.

    Attributes:
        names: of the policies, in the order of the rows.
        network: their shape.
        parameters: f32 [P, n].
        targets: of the target networks, f32 [P, n].
    """

    def __init__(
        self, rows: Mapping[str, tuple[Tensor, Tensor, AdamState]], network: ActionValues, adam_epsilon: float
    ) -> None:
        """
        Args:
            rows: parameters, target's parameters and Adam's state of each policy; copied.
            network: their shape.
            adam_epsilon: Adam's epsilon.
        """
        self.names = tuple(rows)
        self.network = network
        self.parameters = torch.stack([parameters for parameters, _, _ in rows.values()])
        self.targets = torch.stack([target for _, target, _ in rows.values()])
        self._adam_epsilon = adam_epsilon
        self._adam = Adam(self.parameters, [adam for _, _, adam in rows.values()], adam_epsilon)

    def step(self, gradient: Tensor, rate: float) -> None:
        """Take Adam's step of each row along its gradient [P, n]."""
        self._adam.step(gradient, rate)

    def follow(self) -> None:
        """Make the targets equal to the learned networks."""
        self.targets.copy_(self.parameters)

    def regrouped(self, sources: Mapping[str, str]) -> PolicyStack:
        """A stack of other policies. Each is a copy of the policy of this stack that `sources` names."""
        adam = dict(zip(self.names, self._adam.states(), strict=True))
        rows = {
            name: (self.parameters[self.names.index(one)], self.targets[self.names.index(one)], adam[one])
            for name, one in sources.items()
        }
        return PolicyStack(rows, self.network, self._adam_epsilon)

    def state_dict(self) -> dict[str, Any]:
        """The state of each policy, by its name."""
        adam = self._adam.states()
        return {
            name: {
                "parameters": self._named(self.parameters, row),
                "target": self._named(self.targets, row),
                "adam": adam[row].state_dict(),
            }
            for row, name in enumerate(self.names)
        }

    def loaded(self, state: Mapping[str, Any]) -> PolicyStack:
        """A stack of the same policies that continues from `state_dict()`.

        Raises:
            ValueError: a tensor of the state has another shape.
        """
        rows = {}
        for name in self.names:
            own = state[name]
            rows[name] = (
                self._flat(own["parameters"]),
                self._flat(own["target"]),
                AdamState.of(own["adam"], str(self.parameters.device)),
            )
        return PolicyStack(rows, self.network, self._adam_epsilon)

    def _named(self, parameters: Tensor, row: int) -> dict[str, Tensor]:
        return {
            name: value[row].detach().cpu().clone() for name, value in self.network.named(parameters).items()
        }

    def _flat(self, named: Mapping[str, Any]) -> Tensor:
        row = torch.zeros_like(self.parameters[:1])
        for name, value in self.network.named(row).items():
            saved = torch.as_tensor(named[name])
            if saved.shape != value.shape[1:]:
                raise ValueError(f"{name} has shape {tuple(saved.shape)}, expected {tuple(value.shape[1:])}")
            value[0].copy_(saved)
        return row[0]
