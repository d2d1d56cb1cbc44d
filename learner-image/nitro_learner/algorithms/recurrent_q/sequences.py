"""Sequences in the rows of a replay buffer.

A sequence is what happened in one environment of one fragment, L steps. Its first row stands for it: only
that row can be drawn, and its priority is the sequence's. The other rows of the sequence lie E rows apart,
where E is the number of the fragment's environments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nitro_learner.algorithms.q_learning.transitions import Rows
from nitro_learner.algorithms.replay.buffer import ReplayBuffer
from nitro_learner.data.batch import Fragment

Places = NDArray[np.int64]

_ETA = 0.9
"""The part of the largest error in a sequence's priority (Kapturowski et al. 2019, section 2.3)."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Of all fragments of a run.

    Attributes:
        length: L, steps of each environment.
        envs: E.
    """

    length: int
    envs: int

    @classmethod
    def of(cls, fragments: Sequence[Fragment]) -> Shape:
        """The shape that the fragments have in common.

        Raises:
            ValueError: no fragment, or fragments of several shapes.
        """
        shapes = {fragment.tensors["terminated"].shape for fragment in fragments}
        if len(shapes) != 1:
            raise ValueError(f"sequences need fragments of one shape, got {sorted(shapes)}")
        return cls(*shapes.pop())


def with_sequences(rows: Rows, fragments: Sequence[Fragment], classes: Sequence[str]) -> Rows:
    """Add to a round's rows what their sequences need, as further arrays.

        acted           bool [n, K], which columns' agents acted in the row
        CLASS/memory    f32 [n, n_c, ceil(H / L)], the memory before the sequence's first step: each row of a
                        sequence has its part of the H numbers, filled up with zeros at the end

    Args:
        rows: of the round.
        fragments: the round's, in the order of the rows.
        classes: those whose agents learn.
    """
    lanes = np.stack(rows.lanes)
    arrays = rows.arrays | {"acted": rows.learnable}
    for name in classes:
        before = np.concatenate([fragment.by_class[name]["memory"] for fragment in fragments])
        count, agents, size = before.shape
        length = lanes.shape[1]
        each = -(-size // length)
        filled = np.zeros((count, agents, length * each), np.float32)
        filled[..., :size] = before
        parts = np.zeros((len(rows), agents, each), np.float32)
        parts[lanes] = filled.reshape(count, agents, length, each).swapaxes(1, 2)
        arrays[f"{name}/memory"] = parts
    return replace(rows, arrays=arrays)


def first_rows(rows: Rows) -> NDArray[np.bool_]:
    """The first row of each sequence, if the column's agents acted in any, bool [n, K]."""
    lanes = np.stack(rows.lanes)
    learnable = np.zeros_like(rows.learnable)
    learnable[lanes[:, 0]] = rows.learnable[lanes].any(1)
    return learnable


def memories(arrays: Mapping[str, NDArray[Any]], name: str, agents: Places, places: Places) -> NDArray[Any]:
    """The memories before the first steps of sequences, f32 [A, S, >= H].

    Args:
        arrays: see `with_sequences`.
        name: of the class.
        agents: positions on the class axis, i64 [A, S, 1].
        places: the sequences' rows, i64 [A, S, L].
    """
    parts = arrays[f"{name}/memory"][places, agents]
    return parts.reshape(*parts.shape[:2], -1)


def counted(replay: ReplayBuffer, shape: Shape) -> NDArray[np.bool_]:
    """The buffer's rows of sequences that can be drawn in which a column's agents acted, bool [size, K]."""
    result = np.zeros_like(replay.drawable)
    first, columns = np.nonzero(replay.drawable)
    places = replay.along(first, shape.length, shape.envs)
    result[places, columns[:, None]] = replay.arrays["acted"][places, columns[:, None]]
    return result


def priority_errors(errors: NDArray[np.float32], acted: NDArray[np.bool_]) -> NDArray[np.float32]:
    """The error by which a sequence is drawn: 0.9 times the largest and 0.1 times the mean absolute error of
    the steps in which somebody acted.

    Args:
        errors: f32 [..., L].
        acted: bool [..., L], somewhere true in each sequence.
    """
    size = np.abs(errors) * acted
    result: NDArray[np.float32] = _ETA * size.max(-1) + (1 - _ETA) * size.sum(-1) / acted.sum(-1)
    return result
