"""The result of a round for each policy of a Q-learner: statistics and objectives of its transitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from nitro_learner.algorithms.base import UpdateResult
from nitro_learner.algorithms.q_learning.mixers import Independent
from nitro_learner.algorithms.q_learning.surrogate import PlayedLanes, TdSurrogate
from nitro_learner.algorithms.q_learning.training import Drawn, QTrainer
from nitro_learner.algorithms.q_learning.transitions import Rows


def results_of(trainer: QTrainer, rows: Rows, stats: Mapping[str, float]) -> dict[str, UpdateResult]:
    """Results by policy, at the parameters after the round's gradient steps.

    Policies with a joint value share one objective. Each other policy has its own objective, over transitions
    like those that it learns from.

    Args:
        trainer: of the round.
        rows: the round's.
        stats: what all policies' statistics have in common.
    """
    steps = trainer.order(rows)
    agents, columns = trainer.turn(len(steps), 0)
    places = np.broadcast_to(steps, columns.shape)
    drawn = trainer.gather(rows.arrays, agents, columns, places, places + rows.arrays["following"][places])
    weights, level, scale = (
        torch.from_numpy(part.astype(np.float32)).to(drawn.targets.device)
        for part in (
            rows.learnable[places, columns],
            trainer.units.level[columns],
            trainer.units.scale[columns],
        )
    )
    where = np.empty(len(rows), np.int64)
    where[steps] = np.arange(len(steps))
    lanes = tuple(torch.from_numpy(where[lane]) for lane in rows.lanes)
    played = {
        name: batch.played(
            trainer.learned.stacks[name].network,
            trainer.learned.stacks[name].parameters.detach().clone().requires_grad_(),
        )
        for name, batch in drawn.batches.items()
    }
    names = {name: trainer.learned.stacks[name].names for name in played}
    norms = trainer.take_norms()
    if trainer.mixer.joint:
        mixer = trainer.learned.mixer[0].detach().clone().requires_grad_()
        joint = trainer.objective(
            tuple(played.values()), trainer.mixer, mixer, drawn.state, drawn.targets, weights, lanes
        )
        common = _with_norm(stats, next(iter(norms.values())), 0)
        result = UpdateResult(_stats(joint, level, scale) | common, joint)
        return {policy: result for policies in names.values() for policy in policies}
    return {
        policy: _own_result(trainer, one, row, own, lanes, _with_norm(stats, norms[name], row))
        for name, one in played.items()
        for row, policy in enumerate(names[name])
        for own in [_lanes_of(name, drawn, (drawn.targets, weights, level, scale))]
    }


def _with_norm(stats: Mapping[str, float], norms: Sequence[float], row: int) -> dict[str, float]:
    """Statistics with a policy's gradient norm, which a round without gradient steps does not have."""
    return {**stats, "gradient_norm": norms[row]} if norms else dict(stats)


def _lanes_of(name: str, drawn: Drawn, fields: Sequence[Tensor]) -> list[Tensor]:
    """A class's lanes of fields [A, M]."""
    begin = 0
    for other, batch in drawn.batches.items():
        if other == name:
            return [field[begin : begin + len(batch.acted)] for field in fields]
        begin += len(batch.acted)
    raise KeyError(name)


def _own_result(
    trainer: QTrainer,
    one: PlayedLanes,
    row: int,
    fields: Sequence[Tensor],
    lanes: tuple[Tensor, ...],
    stats: Mapping[str, float],
) -> UpdateResult:
    """The result of the policy in a row of its stack."""
    own = torch.nonzero(one.policies == row)[:, 0]
    targets, weights, level, scale = (field[own] for field in fields)
    played = one.of(row, own)
    surrogate = trainer.objective((played,), Independent(), torch.zeros(0), None, targets, weights, lanes)
    return UpdateResult(_stats(surrogate, level, scale) | dict(stats), surrogate)


@torch.no_grad()
def _stats(surrogate: TdSurrogate, level: Tensor, scale: Tensor) -> dict[str, float]:
    """Means over a round's transitions: the loss, the errors' absolute values, and the values as returns.

    Args:
        surrogate: of the round.
        level, scale: see `ValueUnits`; f32 [K, M].
    """
    chosen = torch.cat([one.chosen(torch.arange(surrogate.size)) for one in surrogate.played])
    mixed = surrogate.mixer(surrogate.mixer_parameters, chosen, surrogate.state)
    weights, total = surrogate.weights, surrogate.weights.sum().clamp(min=1)

    def mean(each: Tensor) -> float:
        return float((each * weights).sum() / total)

    loss = functional.huber_loss(mixed, surrogate.targets, reduction="none")
    return {
        "value_loss": mean(loss),
        "td_error": mean((mixed - surrogate.targets).abs()),
        "q_mean": mean(level + scale * mixed),
    }
