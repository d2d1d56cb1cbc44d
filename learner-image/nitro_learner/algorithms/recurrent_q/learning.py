"""IQL, VDN and QMIX whose policies have a recurrent layer.

A sequence is what happened in one environment of a fragment. It is replayed from the memories that the
policies had before its first step as they sampled, which are a part of the fragment. Gradients end there:
this is backpropagation through time, truncated where a fragment begins.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nitro_learner.algorithms.agents.team import TeamMisfit
from nitro_learner.algorithms.q_learning.learning import QLearner
from nitro_learner.algorithms.q_learning.rewards import units_of
from nitro_learner.algorithms.q_learning.transitions import Rows
from nitro_learner.algorithms.recurrent_q.network import RecurrentQNetwork
from nitro_learner.algorithms.recurrent_q.sequences import Shape, counted, first_rows, with_sequences
from nitro_learner.algorithms.recurrent_q.training import SequenceTrainer
from nitro_learner.data.batch import Fragment


class RecurrentQLearner(QLearner):
    """IQL, VDN and QMIX with memories. See `SharingLearner` for the interface.

    The replay buffer's size and the batch's stay numbers of transitions. The buffer holds the same rows as
    without memories, but only whole sequences are drawn from it. A batch is as many sequences as come to its
    transitions, at least one.
    """

    def _rows(self, fragments: Sequence[Fragment]) -> Rows:
        shape, rows = Shape.of(fragments), super()._rows(fragments)
        needed, size = len(rows) - int(rows.lanes[-shape.envs][0]), self._settings.buffer_size
        if needed > size:
            raise TeamMisfit(
                f"spec.algorithm.hyperparameters.bufferSize: {size} is less than the {needed} transitions "
                "and last observations of one fragment, which policies with a memory learn from as a whole. "
                "Raise it, or lower spec.environment.rolloutLength"
            )
        return with_sequences(rows, fragments, list(self._classes))

    def _drawable(self, rows: Rows) -> NDArray[np.bool_]:
        return first_rows(rows)

    def _trainer(self, fragments: Sequence[Fragment]) -> SequenceTrainer:
        shape = Shape.of(fragments)
        units = units_of(self._settings, self._replay.arrays, counted(self._replay, shape))
        return SequenceTrainer(
            self._settings,
            self._mixer,
            self._replay,
            self._reader,
            self._learned,
            self._lanes(),
            units,
            shape=shape,
            memory=self._team.network.memory_size,
        )

    def _network(self, inputs: int, actions: int) -> RecurrentQNetwork:
        return RecurrentQNetwork(inputs, actions, self._team.network, dueling=self._settings.dueling)
