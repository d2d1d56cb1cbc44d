"""The objective of a round for the detector: the mean value of the policy's actions without noise, over the
states of the round, with the critics fixed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from nitro_learner.algorithms.q_actor_critic.updates import ActorWithCritics
from nitro_learner.boosting.surrogate import Function, Objective, Trajectories

CHUNK = 1024
"""Rows of one term, whose results stay in the cache."""


@dataclass(frozen=True, slots=True)
class ValueSurrogate:
    """The mean value of a policy's actions; with a negative sign if the objective is minimised.

    Attributes:
        learned: the critics, and the shape of the policy.
        parameters: of the policy, f32 [1, n], a leaf.
        observations: f32 [M, D].
        lanes: the rows of each environment of each fragment, i64 [lanes, L].
    """

    learned: ActorWithCritics
    parameters: Tensor
    observations: Tensor
    lanes: Tensor

    @property
    def size(self) -> int:
        return len(self.observations)

    @property
    def drawable(self) -> Tensor:
        return torch.arange(self.size)

    def function(self, objective: Objective, rows: Tensor) -> Function:
        return self._mean_of(objective, torch.split(rows.to(self.observations.device), CHUNK))

    def trajectories(self, objective: Objective) -> Trajectories:
        sizes = [float(self.lanes.shape[1])] * len(self.lanes)
        return Trajectories(self._mean_of(objective, list(self.lanes)), sizes, self.size)

    def _mean_of(self, objective: Objective, parts: Sequence[Tensor]) -> Function:
        """The mean over parts, lists of rows, a term each."""
        sign = -1.0 if objective == "total" else 1.0
        scale = sign / sum(map(len, parts))
        return Function([partial(self._sum, rows, scale) for rows in parts], [self.parameters])

    def _sum(self, rows: Tensor, scale: float) -> Tensor:
        layers = self.learned.policy.shape.layout.layers(self.parameters)
        return self.learned.values(layers, self.observations[rows]).sum() * scale
