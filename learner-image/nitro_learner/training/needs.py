"""What a run needs of its actors, now and later.

Actors sleep while the learner learns. They are woken just before they are needed, so their operator has to
know when that will be. `remaining` predicts it from what earlier waits took, and `Needs` tells the listeners.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

if TYPE_CHECKING:
    from nitro_learner.training.listeners import Listeners
    from nitro_learner.training.round_report import Row

WINDOW = 20
"""Waits that a prediction is made from, the last ones."""

QUANTILE = 0.1
"""The quantile of these waits that is predicted. A tenth of all waits end earlier. An actor that is woken too
early is paid for a part of the wait. One that is woken too late holds up the learner and all other actors."""

SHORTEST_SECONDS = 1.0
"""A shorter wait is not told: an actor's CPU changes about a second after that was asked for."""

CORRECTION_SECONDS = 0.5
"""A smaller error of a forecast is not corrected."""

CORRECTION_SHARE = 0.2
"""Nor is one that is a smaller share of the time left: the operator acts on each word, and where both share a
node, that takes CPU from the update."""

_GAP_STAGES = ("seconds_checkpoint", "seconds_update", "seconds_evaluate")
"""What a round does between its own samples and the next round's, by the columns of metrics.csv."""


@dataclass(frozen=True)
class LaterNeed:
    """So many actors are expected to be needed after so many seconds."""

    after_seconds: float
    actors: int


@dataclass(frozen=True)
class ActorNeed:
    """Actors that are needed.

    Attributes:
        now: the first so many of those that the backend has.
        later: what is expected, in order; empty where it is not known, or where nothing changes.
    """

    now: int
    later: tuple[LaterNeed, ...] = ()


def remaining(waits: Sequence[float], elapsed: float = 0.0) -> float | None:
    """Seconds until the end of a wait that has lasted for `elapsed`: the QUANTILE of the earlier `waits` that
    lasted longer. None where none did, because then nothing is known."""
    longer = [wait for wait in waits if wait > elapsed]
    return float(np.quantile(longer, QUANTILE)) - elapsed if longer else None


@dataclass(frozen=True)
class UpdateCourse:
    """How an earlier update went on: what was left when so much of it was done.

    It foretells one of equal size better than that one's own first epochs do: where actors share the node, an
    update is slower while they fall asleep and wake.

    Attributes:
        actors: of the round that it learned from.
        shares: of it that were done, growing.
        took: seconds that each of them took.
        left: seconds from then until the next round began.
    """

    actors: int
    shares: tuple[float, ...]
    took: tuple[float, ...]
    left: tuple[float, ...]

    @classmethod
    def of(cls, actors: int, done: Sequence[tuple[float, float]], ended: float) -> Self:
        """Args:
        actors: of its round.
        done: a share and the time at which it was done, in order.
        ended: when the next round began.
        """
        shares, times = zip(*done, strict=True)
        return cls(actors, shares, tuple(at - times[0] for at in times), tuple(ended - at for at in times))

    def left_at(self, share: float, elapsed: float) -> float:
        """Seconds left of an update that has done `share` in `elapsed` seconds; fewer where it is faster."""
        took = float(np.interp(share, self.shares, self.took))
        return float(np.interp(share, self.shares, self.left)) * min(1.0, elapsed / took)


class Needs:
    """Tell the listeners what the run needs of its actors, when that changes.

        needs.coming(actors)                # the first round samples soon
        needs.sampling(fewest, expected)    # a round begins; its number of actors may not be known yet
        needs.evaluating(2)                 # beside it
        needs.decided(actors)               # now it is known
        needs.sampled(fewest, expected)     # no actor samples any more: what the next round begins with
        needs.learned(0.5)                  # half of the update is done
        needs.evaluated()
        needs.ending(2)                     # the last evaluation; nothing is sampled any more

    Args:
        in_use: returns the number of actors that present requests need, in flight or waiting. They are the
            first so many of the backend's.
        history: earlier rounds' rows of metrics.csv.
        gaps: whether rounds have gaps between them. Without them actors always sample for some round, and
            `sampled` is never called.
    """

    def __init__(
        self,
        listeners: Listeners,
        in_use: Callable[[], int],
        *,
        history: Iterable[Row] = (),
        gaps: bool = True,
    ) -> None:
        self._listeners = listeners
        self._in_use = in_use
        self._has_gaps = gaps
        self._gaps = deque(map(_gap, history), maxlen=WINDOW)
        self._decisions: deque[float] = deque(maxlen=WINDOW)
        self._told: ActorNeed | None = None
        self._actors = 0
        """Of the round that samples."""
        self._beside = 0
        """Requests of the evaluation beside it."""
        self._began = 0.0
        """When the round began to sample or, in a gap, when the gap did."""
        self._next: tuple[int, int] | None = None
        """In a gap, what the next round begins with, and what it is expected to have in the end."""
        self._due: float | None = None
        """In a gap, when the next round is expected."""
        self._learning = 0.0
        """When the update's first epoch began or, after its last, when that ended."""
        self._rest = 0.0
        """Seconds of the last gap after its update."""
        self._courses: deque[UpdateCourse] = deque(maxlen=WINDOW)
        self._size = 0
        """Actors of the round that the update learns from."""
        self._done: list[tuple[float, float]] = []
        """Shares of the update that were done, and when."""
        self._timer: asyncio.TimerHandle | None = None

    def coming(self, actors: int) -> None:
        """The first round will begin in a moment, with `actors`."""
        self._tell(ActorNeed(0, (LaterNeed(0.0, actors),)))

    def sampling(self, fewest: int, expected: int) -> None:
        """A round begins with `fewest` actors, and is expected to have `expected` once that is decided."""
        now = time.monotonic()
        if self._next is not None:
            self._gaps.append(now - self._began)
            self._rest = now - max(self._learning, self._began)
            if self._done:
                self._courses.append(UpdateCourse.of(self._size, self._done, now))
        self._end_gap()
        self._began = now
        wait = remaining(self._decisions)
        later: tuple[LaterNeed, ...] = ()
        if self._has_gaps and fewest < expected and wait is not None and wait >= SHORTEST_SECONDS:
            later = (LaterNeed(wait, expected),)
        self._actors = fewest if later else max(fewest, expected)
        self._tell(ActorNeed(self._now(), later))

    def decided(self, actors: int) -> None:
        """The number of actors of the round that has begun is known."""
        self._decisions.append(time.monotonic() - self._began)
        self._actors = actors
        self._tell(ActorNeed(self._now()))

    def evaluating(self, requests: int) -> None:
        """So many requests of an evaluation have begun beside the round."""
        self._beside = requests
        self._tell(ActorNeed(self._now()))

    def evaluated(self) -> None:
        """They have ended."""
        self._beside = 0
        if self._next is None:
            self._tell(ActorNeed(self._now()))
        elif self._timer is None:
            self._tell_gap()

    def sampled(self, fewest: int, expected: int) -> None:
        """A gap begins. The round after it begins with `fewest` actors and is expected to have `expected`."""
        self._size, self._actors = self._actors, 0
        self._done = []
        self._next = fewest, expected
        self._began = time.monotonic()
        wait = remaining(self._gaps)
        self._due = None if wait is None else self._began + wait
        if wait is None or wait >= SHORTEST_SECONDS:
            self._tell_gap()
        else:  # it may become a longer one, as that of a round which waits for an evaluation
            self._timer = asyncio.get_running_loop().call_later(SHORTEST_SECONDS, self._tell_gap)

    def learned(self, share: float) -> None:
        """So much of the update in this gap is done: a better forecast than earlier gaps are."""
        now = time.monotonic()
        if self._next is None:
            return
        self._done.append((share, now))
        if share in (0.0, 1.0):
            self._learning = now
            return
        elapsed = now - self._learning
        left = elapsed * (1 - share) / share + self._rest
        known = [course.left_at(share, elapsed) for course in self._courses if course.actors == self._size]
        left = max(left, remaining(known) or 0.0)
        due = now + left
        least = max(CORRECTION_SECONDS, CORRECTION_SHARE * left)
        if left >= SHORTEST_SECONDS and (self._due is None or abs(due - self._due) >= least):
            self._due = due
            if self._timer is not None:
                self._timer.cancel()
            self._tell_gap()

    def ending(self, requests: int) -> None:
        """The last evaluation begins, and nothing is sampled any more."""
        self._end_gap()
        self._actors = requests
        self._tell(ActorNeed(self._now()))

    def _tell_gap(self) -> None:
        assert self._next is not None, "no gap has begun"
        self._timer = None
        fewest, expected = self._next
        later: tuple[LaterNeed, ...] = ()
        now = time.monotonic()
        if self._due is not None and self._due > now:
            gap: float | None = self._due - now
        else:
            gap = remaining(self._gaps, now - self._began)
        if gap is not None:
            decision = remaining(self._decisions) or 0.0
            if decision < SHORTEST_SECONDS or expected <= fewest:
                later = (LaterNeed(gap, max(fewest, expected)),)
            else:
                later = (LaterNeed(gap, fewest), LaterNeed(gap + decision, expected))
        self._tell(ActorNeed(self._now(), later))

    def _end_gap(self) -> None:
        self._next = self._due = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _now(self) -> int:
        # A request may still be with an actor behind the first ones, of which there were more before.
        return max(self._actors + (self._beside if self._next is None else 0), self._in_use())

    def _tell(self, need: ActorNeed) -> None:
        if need == self._told:
            return
        self._told = need
        self._listeners.tell(lambda listener: listener.on_need_changed(need))


def _gap(row: Row) -> float:
    """Seconds between the samples of an earlier round and those of the next."""
    return sum(row.get(stage) or 0.0 for stage in _GAP_STAGES)
