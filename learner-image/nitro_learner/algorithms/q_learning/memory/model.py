"""Q-networks with a recurrent layer, and the sequences in the replay buffer from which they learn.

A sequence is what happened in one environment of a fragment, L steps. It is replayed from the memories that
the policies had before its first step as they sampled, which are a part of the fragment. Gradients end there:
this is backpropagation through time, truncated where a fragment begins.

The buffer's size and the batch's stay numbers of transitions. The buffer holds the same rows as without
memories, but only whole sequences are drawn. The first row of a sequence stands for it: only that row can be
drawn, and its priority is the sequence's. The other rows lie E rows apart, where E is the number of the
fragment's environments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from nitro_learner.algorithms.agents.team import TeamMisfit
from nitro_learner.algorithms.q_learning.batch import Memories, Picked, Places, Transitions
from nitro_learner.algorithms.q_learning.memory.network import RecurrentQNetwork
from nitro_learner.algorithms.q_learning.model import QModel
from nitro_learner.algorithms.replay.buffer import ReplayBuffer
from nitro_learner.algorithms.replay.transitions import Rows, Shape
from nitro_learner.data.batch import Fragment, on_device

_ETA = 0.9
"""The part of the largest error in a sequence's priority (Kapturowski et al. 2019, section 2.3)."""


class RecurrentQModel(QModel):
    """See `QModel`. The loss is the mean over the steps in which somebody acted."""

    def network(self, inputs: int, actions: int) -> RecurrentQNetwork:
        return RecurrentQNetwork(inputs, actions, self.team.network, dueling=self.settings.dueling)

    def prepared(self, rows: Rows, fragments: Sequence[Fragment]) -> Rows:
        """Add further arrays, and let only the first row of each sequence be drawn.

            acted           bool [n, K], which columns' agents acted in the row
            CLASS/memory    f32 [n, n_c, ceil(H / L)], the memory before the sequence's first step: each row
                            of a sequence has its part of the H numbers, filled up with zeros at the end

        Raises:
            TeamMisfit: a fragment does not fit into the replay buffer.
        """
        needed, size = len(rows) - int(rows.lanes[-rows.shape.envs][0]), self.settings.buffer_size
        if needed > size:
            raise TeamMisfit(
                f"spec.algorithm.hyperparameters.bufferSize: {size} is less than the {needed} transitions "
                "and last observations of one fragment, which policies with a memory learn from as a whole. "
                "Raise it, or lower spec.environment.rolloutLength"
            )
        memories = {
            f"{agent_class.name}/memory": _in_parts(
                rows, [f.by_class[agent_class.name]["memory"] for f in fragments]
            )
            for agent_class in self.team.classes
            if f"{agent_class.name}/actions" in rows.arrays
        }
        drawable = np.zeros_like(rows.acted)
        drawable[rows.lanes[:, 0]] = rows.acted[rows.lanes].any(1)
        return replace(rows, arrays=rows.arrays | {"acted": rows.acted} | memories, drawable=drawable)

    def length(self, shape: Shape) -> int:
        return shape.length

    def trained_on(self, replay: ReplayBuffer, shape: Shape) -> NDArray[np.bool_]:
        result = np.zeros_like(replay.drawable)
        first, columns = np.nonzero(replay.drawable)
        places = replay.along(first, shape.length, shape.envs)
        result[places, columns[:, None]] = replay.arrays["acted"][places, columns[:, None]]
        return result

    def draw(
        self, replay: ReplayBuffer, shape: Shape, columns: Places, rng: np.random.Generator
    ) -> tuple[Places, NDArray[np.float32]]:
        sequence_columns = columns[:, :: shape.length]
        first, probabilities = replay.draw(sequence_columns, rng.random(sequence_columns.shape))
        places = replay.along(first, shape.length, shape.envs).reshape(columns.shape)
        acted = replay.arrays["acted"][places, columns]
        # As `corrections`, but with 1 for the buffer's least likely sequence: a batch may be only one.
        weights = (replay.least[sequence_columns] / probabilities) ** self.settings.priority_beta
        weights = weights.repeat(shape.length, axis=1) * acted / acted.sum(1, keepdims=True)
        return places, weights.astype(np.float32)

    def rate(
        self,
        replay: ReplayBuffer,
        shape: Shape,
        columns: Places,
        places: Places,
        errors: NDArray[np.float32],
    ) -> None:
        acted: NDArray[np.bool_] = replay.arrays["acted"][places, columns]
        by_sequence = (len(errors), -1, shape.length)
        sequence_errors = priority_errors(errors.reshape(by_sequence), acted.reshape(by_sequence))
        replay.rate(columns[:, :: shape.length], places[:, :: shape.length], sequence_errors)

    def remembered(self, transitions: Transitions, picked: Picked, length: int) -> Transitions:
        by_sequence = (len(picked.places), -1, length)
        goes_on = picked.now("goes_on")
        # A memory lasts from one step to the next if the agent and its episode go on.
        places, following = picked.places.reshape(by_sequence), picked.following.reshape(by_sequence)
        keep = np.ones(places.shape, np.float32)
        keep[..., 1:] = goes_on.reshape(by_sequence)[..., :-1] & (following[..., :-1] == places[..., 1:])
        before = picked.now("memory").reshape(*places.shape[:2], -1)[..., : self.team.network.memory_size]
        device = str(transitions.following.device)
        memory = Memories(on_device(before, device), on_device(keep.transpose(2, 0, 1)[..., None], device))
        return replace(
            transitions,
            steps=replace(transitions.steps, memory=memory),
            carried=on_device(goes_on[..., None].astype(np.float32), device),
        )


def _in_parts(rows: Rows, before: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    """The memories of a class's agents before fragments, each f32 [E, n_c, H], in the rows of sequences."""
    memories = np.concatenate(before)
    count, agents, size = memories.shape
    length = rows.shape.length
    per_row = -(-size // length)
    filled = np.zeros((count, agents, length * per_row), np.float32)
    filled[..., :size] = memories
    parts = np.zeros((len(rows), agents, per_row), np.float32)
    parts[rows.lanes] = filled.reshape(count, agents, length, per_row).swapaxes(1, 2)
    return parts


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
