"""Prioritised replay (Schaul et al. 2016): a buffer of transitions, and how often they are trained on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nitro_learner.algorithms.replay.sum_tree import SumTree
from nitro_learner.checkpoints.attachments import Attachment

Array = NDArray[Any]
Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _StoredRound:
    """Rows of one round, counted from the first row of the run.

    Attributes:
        begin, end: the rows.
        attachment: the same rows in checkpoints.
    """

    begin: int
    end: int
    attachment: Attachment


class ReplayBuffer:
    """A ring of rows. Each of K columns, such as an agent or a whole team, has priorities of its own.

    It holds whole rounds: a round whose first row is overwritten is not drawn from any more. So its content
    follows from the checkpoint's attachments, one file for each round.

    Attributes:
        arrays: the ring's arrays by name, [size, ...]. `following` i64 has the distance from a row to the one
            that it leads to.
    """

    def __init__(self, size: int, columns: int, *, alpha: float, epsilon: float) -> None:
        """
        Args:
            size: rows.
            columns: K.
            alpha, epsilon: priority of a temporal-difference error d: (|d| + epsilon)^alpha.
        """
        self.arrays: dict[str, Array] = {}
        self._size = size
        self._alpha, self._epsilon = alpha, epsilon
        self._tree = SumTree(columns, size)
        self._largest = np.ones(columns)
        self._counts = np.zeros(columns, np.int64)
        self._rounds: list[_StoredRound] = []
        self._end = self._sealed = 0

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many rows can be drawn, of each column."""
        return self._counts

    @property
    def least(self) -> NDArray[np.float64]:
        """The smallest probability with which a row of each column is drawn, f64 [K]."""
        weights = self._tree.weights
        result: NDArray[np.float64] = np.where(weights > 0, weights, np.inf).min(1) / self._tree.totals
        return result

    @property
    def drawable(self) -> NDArray[np.bool_]:
        """The rows that can be drawn, bool [size, K]."""
        result: NDArray[np.bool_] = self._tree.weights.T > 0
        return result

    def append(self, arrays: Mapping[str, Array], drawable: NDArray[np.bool_]) -> None:
        """Take in a round. If the round is larger than the buffer, only its last rows stay.

        Args:
            arrays: its rows by name, [n, ...].
            drawable: the rows that can be drawn, bool [n, K].
        """
        end = self._end + len(drawable)
        begin = max(self._end, end - self._size)
        kept = slice(begin - self._end, None)
        self._end = end
        self._insert(
            begin, {name: array[kept] for name, array in arrays.items()}, drawable[kept] * self._largest
        )
        self._rounds.append(self._stored(begin, end))
        self._count()

    def seal(self) -> None:
        """Make one round of all that was appended since the last call, so that it is one attachment."""
        parts = [stored for stored in self._rounds if stored.begin >= self._sealed]
        self._sealed = self._end
        if len(parts) > 1:
            self._rounds[-len(parts) :] = [self._stored(parts[0].begin, parts[-1].end)]

    def draw(self, columns: Places, shares: NDArray[np.float64]) -> tuple[Places, NDArray[np.float64]]:
        """Draw rows of columns.

        Args:
            columns: the column of each row; broadcast to the shape of `shares`.
            shares: uniform in [0, 1).

        Returns:
            the rows' places in the ring, and the probability of each, of the shape of `shares`.

        Raises:
            ValueError: a column has no row.
        """
        places = self._tree.find(columns, shares)
        return places, self._tree.of(columns, places) / self._tree.totals[columns]

    def rate(self, columns: Places, places: Places, errors: Array) -> None:
        """Change the priorities of drawn rows to those of their newest temporal-difference errors."""
        columns = np.broadcast_to(columns, places.shape)
        # Checkpoints hold float32.
        priorities = ((np.abs(errors) + self._epsilon) ** self._alpha).astype(np.float32)
        self._tree.set(columns, places, priorities)
        np.maximum.at(self._largest, columns, priorities)

    def along(self, places: Places, length: int, distance: int) -> Places:
        """The places of `length` rows from each given one on, i64 [..., length]; `distance` is between
        them."""
        result: Places = (places[..., None] + np.arange(length) * distance) % self._size
        return result

    def following(self, places: Places) -> Places:
        """The places of the rows that follow the given ones."""
        result: Places = (places + self.arrays["following"][places]) % self._size
        return result

    def are_steps(self, columns: Places, places: Places) -> NDArray[np.bool_]:
        """Whether rows can be drawn for columns. Of the rows that follow one that can, those are steps in
        which the column's agents acted."""
        result: NDArray[np.bool_] = self._tree.of(columns, places) > 0
        return result

    def state_dict(self) -> dict[str, Any]:
        """The state, whose rows are attachments. Each checkpoint names the attachments that it needs."""
        return {
            "rounds": [
                {"begin": stored.begin, "end": stored.end, "rows": stored.attachment}
                for stored in self._rounds
            ],
            "end": self._end,
            "priorities": self._tree.weights.astype(np.float32),
            "largest": self._largest.copy(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict()`. The state of a policy that was kept to be played has no rows.

        Raises:
            ValueError: the state is of a buffer of another size.
        """
        priorities = np.asarray(state["priorities"])
        if priorities.shape != self._tree.weights.shape:
            raise ValueError(
                f"a replay buffer of shape {priorities.shape}, expected {self._tree.weights.shape}; "
                "hyperparameters.bufferSize must stay as it was"
            )
        self._rounds = []
        for entry in state["rounds"]:
            begin, end, attachment = int(entry["begin"]), int(entry["end"]), entry["rows"]
            if attachment is None:
                continue
            arrays = attachment.arrays()
            places = np.arange(begin, end) % self._size
            self._insert(begin, arrays, priorities[:, places].T)
            self._rounds.append(_StoredRound(begin, end, attachment))
        self._largest = np.array(state["largest"], np.float64)
        self._end = self._sealed = int(state["end"])
        self._count()

    def _insert(self, begin: int, arrays: Mapping[str, Array], priorities: Array) -> None:
        """Write rows from `begin` on, with priorities [n, K], and drop the rounds that they overwrite."""
        count = len(priorities)
        for name, array in arrays.items():
            if name not in self.arrays:
                self.arrays[name] = np.zeros((self._size, *array.shape[1:]), array.dtype)
        oldest = begin + count - self._size
        while self._rounds and self._rounds[0].begin < oldest:
            gone = self._rounds.pop(0)
            self._weigh(np.arange(gone.begin, gone.end), np.zeros((gone.end - gone.begin, 1)))
        places = np.arange(begin, begin + count) % self._size
        for name, array in arrays.items():
            self.arrays[name][places] = array
        self._weigh(places, priorities)

    def _weigh(self, rows: Places, priorities: Array) -> None:
        """Give rows their priorities [n, K]."""
        columns = np.arange(len(self._largest))[:, None]
        places = np.broadcast_to(rows % self._size, (len(columns), len(rows)))
        self._tree.set(columns, places, np.broadcast_to(priorities.T, places.shape).astype(np.float32))

    def _stored(self, begin: int, end: int) -> _StoredRound:
        return _StoredRound(begin, end, Attachment("replay", partial(self._rows, begin, end)))

    def _rows(self, begin: int, end: int) -> dict[str, Array]:
        places = np.arange(begin, end) % self._size
        return {name: array[places] for name, array in self.arrays.items()}

    def _count(self) -> None:
        self._counts = np.count_nonzero(self._tree.weights, axis=1)


def corrections(counts: Places, probabilities: NDArray[np.float64], beta: float) -> NDArray[np.float32]:
    """Weights of drawn rows in the loss: (n P)^-beta, scaled to 1 at most (Schaul et al. 2016, section 3.4).

    Args:
        counts: n, the rows that could be drawn, [A, B].
        probabilities: P of each row that was drawn, [A, B].
        beta: 1 corrects the whole bias that priorities bring into the mean.

    Returns:
        f32 [A, B]; each of the A has its own scale.
    """
    weights = (counts * probabilities) ** -beta
    result: NDArray[np.float32] = (weights / weights.max(axis=1, keepdims=True)).astype(np.float32)
    return result


@dataclass(slots=True)
class Debt:
    """What `replayRatio` asks for and gradient steps have not trained on yet.

    Attributes:
        owed: transitions.
    """

    owed: float = 0.0

    def due(self, sampled: int, ratio: float, batch: int) -> int:
        """The gradient steps of `batch` transitions each that are due after `sampled` new transitions."""
        self.owed += sampled * ratio
        steps = int(self.owed // batch)
        self.owed -= steps * batch
        return steps
