"""IMPACT's circular buffer (Luo et al. 2020): recent batches, each learned from a few times."""

from collections import deque
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

T = TypeVar("T")


@dataclass
class _Entry(Generic[T]):
    batch: T
    uses: int


class CircularBuffer(Generic[T]):
    """The newest `capacity` batches; each is drawn at most `uses` times.

    buffer.add(batch)                       # the oldest one makes room
    batch = buffer.draw(generator)          # uniformly of those that have uses left; None without any
    """

    def __init__(self, capacity: int, uses: int) -> None:
        self._uses = uses
        self._entries: deque[_Entry[T]] = deque(maxlen=capacity)

    def add(self, batch: T) -> None:
        """Take in a batch, in the oldest one's place when the buffer is full."""
        self._entries.append(_Entry(batch, self._uses))

    def clear(self) -> None:
        """Drop all batches."""
        self._entries.clear()

    def draw(self, generator: np.random.Generator) -> T | None:
        """Draw a batch that has uses left, and count one use of it; None when there is no such batch."""
        usable = [entry for entry in self._entries if entry.uses]
        if not usable:
            return None
        entry = usable[generator.integers(len(usable))]
        entry.uses -= 1
        return entry.batch
