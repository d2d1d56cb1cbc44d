"""The batch of a gradient step, gathered from rows of transitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nitro_learner.algorithms.q_learning.network import UNAVAILABLE, ActionValues, QNetwork
from nitro_learner.algorithms.q_learning.surrogate import PlayedLanes, PlayedRows
from nitro_learner.data.batch import on_device

Arrays = Mapping[str, NDArray[Any]]
Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LaneBatch:
    """Transitions of agents of one class: A lanes of B, each lane of one policy.

    Attributes:
        policies: the row of each lane's policy in its stack, i64 [A].
        observations, following: what the agents saw, and see after it, f32 [A, B, D].
        actions: i64 [A, B].
        available: of the actions that follow, bool [A, B, N], or None.
        acted: f32 [A, B], 1 where the agent acted.
        bootstraps: f32 [A, B], 1 where the value of what follows counts.
    """

    policies: Tensor
    observations: Tensor
    following: Tensor
    actions: Tensor
    available: Tensor | None
    acted: Tensor
    bootstraps: Tensor

    def chosen(self, values: Tensor) -> Tensor:
        """The values [A, B] of the actions that were taken, 0 where an agent did not act."""
        return values.gather(-1, self.actions[..., None])[..., 0] * self.acted

    def trace(self, network: ActionValues, parameters: Tensor) -> tuple[list[Tensor], Tensor]:
        """What `backpropagate` needs, and the values f32 [A, B, N] of the observations."""
        return _without_memory(network).trace(parameters, self.observations)

    def backpropagate(
        self,
        network: ActionValues,
        parameters: Tensor,
        trace: Sequence[Tensor],
        by_values: Tensor,
        into: Tensor,
    ) -> None:
        """Add the gradients of the parameters [A, n] to `into`; see `QNetwork.backpropagate`."""
        _without_memory(network).backpropagate(parameters, trace, by_values, into)

    def played(self, network: ActionValues, parameters: Tensor) -> PlayedLanes:
        """The actions, as the detector values them.

        Args:
            network: the networks' shape.
            parameters: f32 [P, n], leaves.
        """
        return PlayedRows(
            parameters, self.policies, self.observations, self.actions, self.acted, _without_memory(network)
        )

    @torch.no_grad()
    def next_values(
        self, network: ActionValues, parameters: Tensor, targets: Tensor, *, double: bool
    ) -> Tensor:
        """The target network's values [A, B] of the best actions that follow, 0 where none counts.

        Args:
            network: the networks' shape.
            parameters, targets: of the learned networks and of the target networks, [A, n].
            double: whether the learned network says which action is best (van Hasselt et al. 2016).
        """
        rated, judged = self._rated(network, parameters if double else None, targets)
        if self.available is not None:
            judged = torch.where(self.available, judged, UNAVAILABLE)
        best = judged.argmax(-1, keepdim=True)
        return rated.gather(-1, best)[..., 0] * self.bootstraps

    def _rated(
        self, network: ActionValues, parameters: Tensor | None, targets: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The values [A, B, N] of what follows: the target network's, and those that say which action is
        best."""
        values = _without_memory(network)
        rated = values.trace(targets, self.following)[1]
        return rated, rated if parameters is None else values.trace(parameters, self.following)[1]


def _without_memory(network: ActionValues) -> QNetwork:
    assert isinstance(network, QNetwork), "single transitions are for networks without a memory"
    return network


class Reader:
    """Gathers transitions from arrays of rows; see `transitions.Rows`."""

    def __init__(self, classes: Mapping[str, int], *, joint: bool, agent_ids: bool, device: str) -> None:
        """
        Args:
            classes: n_c of each class of the environment, in the order of the wire.
            joint: whether the agents have one value together.
            agent_ids: whether an agent's index is appended to what it sees, one-hot.
            device: a torch device.
        """
        self._classes, self._joint, self._agent_ids, self._device = classes, joint, agent_ids, device

    def lanes(
        self,
        arrays: Arrays,
        name: str,
        policies: Tensor,
        agents: Places,
        places: Places,
        following: Places,
    ) -> LaneBatch:
        """Gather the transitions of a class.

        Args:
            arrays: by name, [rows, ...].
            name: of the class.
            policies: see `LaneBatch`.
            agents: positions on the class axis, i64 [A, B] or [A, 1].
            places: rows, i64 [A, B] or [1, B].
            following: the rows that `places` lead to.
        """
        agents, places, following = np.broadcast_arrays(agents, places, following)
        available = arrays.get(f"{name}/available")
        # A single agent bootstraps unless it ended by itself. A team bootstraps from the agents that act
        # afterwards.
        bootstraps = (
            arrays[f"{name}/alive"][following, agents]
            if self._joint
            else arrays[f"{name}/goes_on"][places, agents]
        )
        return LaneBatch(
            policies,
            self._inputs(arrays, name, agents, places),
            self._inputs(arrays, name, agents, following),
            self.tensor(arrays[f"{name}/actions"][places, agents]),
            None if available is None else self.tensor(available[following, agents]),
            self.tensor(arrays[f"{name}/alive"][places, agents].astype(np.float32)),
            self.tensor(bootstraps.astype(np.float32)),
        )

    def states(self, arrays: Arrays, places: Places) -> Tensor:
        """Global states f32 [B, S] of rows [B]: the environment's own, else all observations in the order of
        the wire."""
        if "global_state" in arrays:
            return self.tensor(arrays["global_state"][places])
        parts: Sequence[NDArray[Any]] = [
            arrays[f"{name}/observations"][places].reshape(len(places), -1) for name in self._classes
        ]
        return self.tensor(np.concatenate(parts, axis=1).astype(np.float32, copy=False))

    def _inputs(self, arrays: Arrays, name: str, agents: Places, places: Places) -> Tensor:
        seen = arrays[f"{name}/observations"][places, agents].astype(np.float32, copy=False)
        if self._agent_ids:
            identities = np.eye(self._classes[name], dtype=np.float32)[agents]
            seen = np.concatenate([seen, identities], axis=-1)
        return self.tensor(seen)

    def tensor(self, array: NDArray[Any]) -> Tensor:
        """The array on the device."""
        return on_device(array, self._device)
