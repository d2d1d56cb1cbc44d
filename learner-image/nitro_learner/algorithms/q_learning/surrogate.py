"""The result of a round for each policy of a Q-learner: statistics, and the objective for the detector, which
is the negative temporal-difference loss with its targets fixed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from nitro_learner.algorithms.agents.stacked_recurrent import drawn_sequences
from nitro_learner.algorithms.base import UpdateResult
from nitro_learner.algorithms.q_learning.batch import Steps
from nitro_learner.algorithms.q_learning.mixers import Independent, Mixer
from nitro_learner.algorithms.q_learning.network import QNetwork
from nitro_learner.algorithms.q_learning.training import QTrainer
from nitro_learner.algorithms.replay.transitions import Rows
from nitro_learner.boosting.surrogate import Function, Objective, Trajectories

CHUNK = 1024
"""Rows of one term, whose results stay in the cache."""


@dataclass(frozen=True, slots=True)
class PlayedSteps:
    """What agents of one class did in a round, and the networks that value it.

    Attributes:
        network: their shape.
        parameters: of the policies, f32 [P, n], leaves.
        steps: A lanes of M.
    """

    network: QNetwork
    parameters: Tensor
    steps: Steps

    def chosen(self, rows: Tensor) -> Tensor:
        """The values [A, m] of the actions taken in rows i64 [m], with a graph."""
        steps = self.steps.at(rows)
        return steps.chosen(self.network(self.parameters[steps.policies], steps))

    def of(self, policy: int, lanes: Tensor) -> PlayedSteps:
        """The lanes i64 [a] of one policy, whose parameters become leaves of their own."""
        parameters = self.parameters[policy : policy + 1].detach().clone().requires_grad_()
        return PlayedSteps(self.network, parameters, self.steps.of(lanes))


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
        lanes: the rows of each environment of each fragment, i64 [lanes, L].
    """

    played: Sequence[PlayedSteps]
    mixer: Mixer
    mixer_parameters: Tensor
    state: Tensor | None
    targets: Tensor
    weights: Tensor
    lanes: Tensor

    @property
    def size(self) -> int:
        return self.targets.shape[1]

    @property
    def drawable(self) -> Tensor:
        return self.weights.any(0).nonzero()[:, 0].cpu()

    def function(self, objective: Objective, rows: Tensor) -> Function:
        rows = rows.to(self.targets.device)
        if self.played[0].steps.memory is None:
            return self._mean_of(objective, torch.split(rows, CHUNK))[0]
        # A transition depends on the parameters by all steps of its sequence up to its own. So the sequences
        # of the drawn transitions are replayed, and only the drawn transitions count.
        length = self.lanes.shape[1]
        drawn, needed = drawn_sequences(self.weights[0], rows, length)
        steps = torch.arange(length, device=drawn.device)
        sequences = torch.split(needed[:, None], max(1, CHUNK // length))
        parts = [(part * length + steps).flatten() for part in sequences]
        return replace(self, weights=self.weights * drawn)._mean_of(objective, parts)[0]

    def trajectories(self, objective: Objective) -> Trajectories:
        mean, sizes = self._mean_of(objective, list(self.lanes))
        return Trajectories(mean, sizes, self.size)

    @torch.no_grad()
    def stats(self, level: Tensor, scale: Tensor) -> dict[str, float]:
        """Means over the transitions: the loss, the errors' absolute values, and the values as returns.

        Args:
            level, scale: see `ValueUnits`; f32 [K, M].
        """
        mixed = self._mixed(torch.arange(self.size))
        total = self.weights.sum().clamp(min=1)

        def mean(values: Tensor) -> float:
            return float((values * self.weights).sum() / total)

        return {
            "value_loss": mean(functional.huber_loss(mixed, self.targets, reduction="none")),
            "td_error": mean((mixed - self.targets).abs()),
            "q_mean": mean(level + scale * mixed),
        }

    def _mean_of(self, objective: Objective, parts: Sequence[Tensor]) -> tuple[Function, list[float]]:
        """The mean over parts, lists of rows: a term for each part, and the number of summands in each."""
        sizes = [self.weights[:, rows].sum().item() for rows in parts]
        sign = 1.0 if objective == "total" else -1.0
        scale = sign / max(sum(sizes), 1.0)
        leaves = [steps.parameters for steps in self.played]
        if self.mixer.size:
            leaves.append(self.mixer_parameters)
        return Function([partial(self._loss, rows, scale) for rows in parts], leaves), sizes

    def _loss(self, rows: Tensor, scale: float) -> Tensor:
        losses = functional.huber_loss(self._mixed(rows), self.targets[:, rows], reduction="none")
        return (losses * self.weights[:, rows]).sum() * scale

    def _mixed(self, rows: Tensor) -> Tensor:
        """The values [K, m] that are compared with the targets of rows."""
        chosen = torch.cat([steps.chosen(rows) for steps in self.played])
        return self.mixer(self.mixer_parameters, chosen, None if self.state is None else self.state[rows])


def results_of(trainer: QTrainer, rows: Rows, stats: Mapping[str, float]) -> dict[str, UpdateResult]:
    """Results by policy, at the parameters after the round's gradient steps.

    Policies with a joint value share one objective. Each other policy has its own objective, over transitions
    like those that it learns from.

    Args:
        trainer: of the round.
        rows: the round's.
        stats: what all policies' statistics have in common.
    """
    learned, steps = trainer.learned, trainer.order(rows)
    agents, columns = trainer.turn(len(steps), 0)
    places = np.broadcast_to(steps, columns.shape)
    drawn = trainer.gather(rows, agents, columns, places)
    where = np.empty(len(rows), np.int64)
    where[steps] = np.arange(len(steps))
    lanes = torch.from_numpy(where[rows.lanes])
    # Of every column: weights, and the level and the scale of its values.
    fields = [
        torch.from_numpy(part.astype(np.float32)).to(drawn.targets.device)
        for part in (
            rows.acted[places, columns],
            trainer.units.level[columns],
            trainer.units.scale[columns],
        )
    ]
    norms = trainer.take_norms()

    def result(
        played: Sequence[PlayedSteps],
        mixer: Mixer,
        parameters: Tensor,
        columns: slice | Tensor,
        norms: Sequence[float],
    ) -> UpdateResult:
        """Of the policies of these columns; a round without gradient steps has no norms of gradients."""
        weights, level, scale = (field[columns] for field in fields)
        targets = drawn.targets[columns]
        surrogate = TdSurrogate(played, mixer, parameters, drawn.state, targets, weights, lanes)
        norm = {"gradient_norm": norms[0]} if norms else {}
        return UpdateResult(surrogate.stats(level, scale) | dict(stats) | norm, surrogate)

    leaves = {
        name: PlayedSteps(
            learned.stacks[name].network,
            learned.stacks[name].parameters.detach().clone().requires_grad_(),
            part.steps,
        )
        for name, part in drawn.by_class.items()
    }
    if learned.mixer.joint:
        mixing = learned.mixing.parameters[0].detach().clone().requires_grad_()
        joint = result(list(leaves.values()), learned.mixer, mixing, slice(None), next(iter(norms.values())))
        return {policy: joint for name in leaves for policy in learned.stacks[name].names}
    results, begin = {}, 0
    for name, leaf in leaves.items():
        for row, policy in enumerate(learned.stacks[name].names):
            own = torch.nonzero(leaf.steps.policies == row)[:, 0]
            played, norm = [leaf.of(row, own)], norms[name][row : row + 1]
            results[policy] = result(played, Independent(), torch.zeros(0), begin + own, norm)
        begin += len(leaf.steps.acted)
    return results
