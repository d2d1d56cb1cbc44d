"""The objective of a Q-learner's round, for the detector: the negative temporal-difference loss with its
targets fixed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import torch
from torch import Tensor
from torch.nn import functional

from nitro_learner.algorithms.q_learning.mixers import Mixer
from nitro_learner.algorithms.q_learning.network import QNetwork
from nitro_learner.boosting.surrogate import Function, Objective, Trajectories

CHUNK = 1024
"""Rows of one term, whose results stay in the cache."""


@dataclass(frozen=True, slots=True)
class PlayedLanes(ABC):
    """The actions of agents of one class in a round, and the networks that value them.

    Attributes:
        parameters: of the policies, f32 [P, n], leaves.
        policies: the row of each lane's policy, i64 [A].
        observations: f32 [A, M, D].
        actions: i64 [A, M].
        acted: f32 [A, M], 1 where the agent acted.
    """

    parameters: Tensor
    policies: Tensor
    observations: Tensor
    actions: Tensor
    acted: Tensor

    @abstractmethod
    def values(self, rows: Tensor) -> Tensor:
        """The values [A, m, N] of all actions in rows i64 [m], with a graph."""

    def chosen(self, rows: Tensor) -> Tensor:
        """The values [A, m] of the actions taken in rows i64 [m], with a graph."""
        taken = self.values(rows).gather(-1, self.actions[:, rows, None])[..., 0]
        return taken * self.acted[:, rows]

    def of(self, policy: int, lanes: Tensor) -> Self:
        """The lanes i64 [a] of one policy, whose parameters become leaves of their own."""
        return replace(
            self,
            parameters=self.parameters[policy : policy + 1].detach().clone().requires_grad_(),
            policies=torch.zeros_like(lanes),
            **self._lanes(lanes),
        )

    def _lanes(self, lanes: Tensor) -> dict[str, Tensor]:
        """The fields of these lanes alone."""
        return {name: getattr(self, name)[lanes] for name in ("observations", "actions", "acted")}


@dataclass(frozen=True, slots=True)
class PlayedRows(PlayedLanes):
    """What was played by networks without a memory; see `PlayedLanes`.

    Attributes:
        network: their shape.
    """

    network: QNetwork

    def values(self, rows: Tensor) -> Tensor:
        """See `PlayedLanes`."""
        return self.network(self.parameters[self.policies], self.observations[:, rows])


@dataclass(frozen=True, slots=True)
class TdSurrogate:
    """The mean Huber loss of a round's transitions at the learned parameters, with a negative sign if the
    objective is maximised. A step in which nobody acted does not count.

    Attributes:
        played: by class.
        mixer: of the chosen values.
        mixer_parameters: [m], a leaf.
        state: f32 [M, S] where the mixer sees it.
        targets: what the mixed values are compared with, fixed, f32 [K, M].
        weights: 1 where they count, f32 [K, M].
        lanes: the rows of each environment of each fragment.
    """

    played: Sequence[PlayedLanes]
    mixer: Mixer
    mixer_parameters: Tensor
    state: Tensor | None
    targets: Tensor
    weights: Tensor
    lanes: Sequence[Tensor]

    @property
    def size(self) -> int:
        return self.targets.shape[1]

    @property
    def drawable(self) -> Tensor:
        return self.weights.any(0).nonzero()[:, 0].cpu()

    def function(self, objective: Objective, rows: Tensor) -> Function:
        return self._mean_of(objective, torch.split(rows.to(self.targets.device), CHUNK))[0]

    def trajectories(self, objective: Objective) -> Trajectories:
        mean, sizes = self._mean_of(objective, self.lanes)
        return Trajectories(mean, sizes, self.size)

    def _mean_of(self, objective: Objective, parts: Sequence[Tensor]) -> tuple[Function, list[float]]:
        """The mean over parts, lists of rows: a term for each part, and the number of summands in each."""
        sizes = [self.weights[:, rows].sum().item() for rows in parts]
        sign = 1.0 if objective == "total" else -1.0
        scale = sign / max(sum(sizes), 1.0)
        leaves = [one.parameters for one in self.played]
        if self.mixer.size:
            leaves.append(self.mixer_parameters)
        return Function([partial(self._loss, rows, scale) for rows in parts], leaves), sizes

    def _loss(self, rows: Tensor, scale: float) -> Tensor:
        chosen = torch.cat([one.chosen(rows) for one in self.played])
        mixed = self.mixer(self.mixer_parameters, chosen, None if self.state is None else self.state[rows])
        each = functional.huber_loss(mixed, self.targets[:, rows], reduction="none")
        return (each * self.weights[:, rows]).sum() * scale
