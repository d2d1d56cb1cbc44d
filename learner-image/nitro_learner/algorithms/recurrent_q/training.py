"""Gradient steps of a Q-learner on sequences (Hausknecht and Stone 2015; Kapturowski et al. 2019)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from nitro_learner.algorithms.q_learning.batch import Arrays, Places
from nitro_learner.algorithms.q_learning.surrogate import TdSurrogate
from nitro_learner.algorithms.q_learning.training import Drawn, QTrainer
from nitro_learner.algorithms.q_learning.transitions import Rows
from nitro_learner.algorithms.recurrent_q.batch import LaneSequences
from nitro_learner.algorithms.recurrent_q.sequences import Shape, memories, priority_errors
from nitro_learner.algorithms.recurrent_q.surrogate import SequenceSurrogate


class SequenceTrainer(QTrainer):
    """The gradient steps of one round, each on whole sequences from their stored memories.

    The batch of a step is as many sequences as come to `batchSize` transitions, but one at least. Its loss is
    the mean over the steps in which somebody acted.
    """

    objective: Callable[..., TdSurrogate] = SequenceSurrogate

    def __init__(self, *arguments: Any, shape: Shape, memory: int) -> None:
        """
        Args:
            arguments: see `QTrainer`.
            shape: of the round's fragments.
            memory: H.
        """
        super().__init__(*arguments)
        self._shape, self._memory = shape, memory

    @property
    def transitions(self) -> int:
        """See `QTrainer`."""
        return max(1, self._settings.batch_size // self._shape.length) * self._shape.length

    def order(self, rows: Rows) -> Places:
        """See `QTrainer`: sequence by sequence."""
        return np.concatenate(rows.lanes)

    def turn(self, size: int, number: int) -> tuple[dict[str, Places], Places]:
        """See `QTrainer`: all transitions of a sequence have one agent."""
        agents, columns = super().turn(size // self._shape.length, number)
        along = {name: self._repeated(own) for name, own in agents.items()}
        return along, self._repeated(columns)

    def _draw(self, rng: np.random.Generator, number: int) -> tuple[Drawn, Tensor]:
        replay, length = self._replay, self._shape.length
        agents, columns = self.turn(self.transitions, number)
        each = columns[:, ::length]
        first, probabilities = replay.draw(each, rng.random(each.shape))
        places = replay.along(first, length, self._shape.envs).reshape(columns.shape)
        drawn = self.gather(replay.arrays, agents, columns, places, replay.following(places))
        acted = replay.arrays["acted"][places, columns]
        # As `corrections`, but with 1 for the buffer's least likely sequence: a batch may be only one.
        each_weight = (replay.least[each] / probabilities) ** self._settings.priority_beta
        weights = self._repeated(each_weight) * acted / acted.sum(1, keepdims=True)
        return drawn, self._reader.tensor(weights.astype(np.float32))

    def _read(
        self,
        arrays: Arrays,
        name: str,
        policies: Tensor,
        agents: Places,
        places: Places,
        following: Places,
    ) -> LaneSequences:
        batch = super()._read(arrays, name, policies, agents, places, following)
        agents, places, following = (
            part.reshape(len(part), -1, self._shape.length)
            for part in np.broadcast_arrays(agents, places, following)
        )
        goes_on = arrays[f"{name}/goes_on"][places, agents]
        keep = np.ones(places.shape, np.float32)
        # A memory lasts from one step to the next if the agent and its episode go on.
        keep[..., 1:] = goes_on[..., :-1] & (following[..., :-1] == places[..., 1:])
        before = memories(arrays, name, agents[..., :1], places)[..., : self._memory]
        tensor = self._reader.tensor
        return LaneSequences.of(
            batch,
            tensor(before),
            tensor(keep.transpose(2, 0, 1)[..., None]),
            tensor(goes_on.reshape(len(goes_on), -1, 1).astype(np.float32)),
        )

    def _rate(self, drawn: Drawn, errors: NDArray[np.float32]) -> None:
        length = self._shape.length
        acted: NDArray[np.bool_] = self._replay.arrays["acted"][drawn.places, drawn.columns]
        shape = (len(errors), -1, length)
        found = priority_errors(errors.reshape(shape), acted.reshape(shape))
        self._replay.rate(drawn.columns[:, ::length], drawn.places[:, ::length], found)

    def _repeated(self, each: NDArray[Any]) -> NDArray[Any]:
        """Values of sequences as values of their steps."""
        return np.repeat(each, self._shape.length, axis=1)
