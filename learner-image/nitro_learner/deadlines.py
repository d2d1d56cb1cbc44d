"""How long sampling may take: it follows from the rounds before and from how many requests there are."""

import asyncio
from collections import deque
from collections.abc import Callable
from statistics import median

_MEDIAN_ROUNDS = 21
"""Rounds that the median looks back on."""


class Deadlines:
    """Deadlines in waves: with more requests than actors work on at once, each wave has a round's time.

    Args:
        timeout_seconds: of one request.
        deadline_seconds: of one wave; None means max(`timeout_seconds`, 3 x the median wave so far).
        at_once: requests that actors work on at once, now.
        pending: requests under way or waiting, now.
    """

    def __init__(
        self,
        timeout_seconds: float,
        deadline_seconds: float | None,
        *,
        at_once: Callable[[], int],
        pending: Callable[[], int],
    ) -> None:
        self._timeout = timeout_seconds
        self._fixed = deadline_seconds
        self._at_once = at_once
        self._pending = pending
        self._wave_seconds: deque[float] = deque(maxlen=_MEDIAN_ROUNDS)

    def learn(self, seconds: float, slots: int) -> None:
        """Takes in that a round of `slots` requests took `seconds`."""
        self._wave_seconds.append(seconds / self._waves(slots))

    def after(self, started: float) -> Callable[[], float]:
        """When to stop waiting for what began at `started` (both in the event loop's time).

        It moves away when fewer are worked on at once or others' requests come in between, at most to that of
        the most waves there ever were. When fewer are left, those count from then on: actors that are few for
        a moment, until their pods have started, are not waited by.
        """
        most = waves = 1
        since = started

        def at() -> float:
            nonlocal most, waves, since
            left = self._waves(self._pending())
            most = max(most, left)
            if left != waves:
                waves, since = left, asyncio.get_running_loop().time()
            return min(since + waves * self._wave(), started + most * self._wave())

        return at

    def now(self) -> Callable[[], float]:
        """As `after`, from now on."""
        return self.after(asyncio.get_running_loop().time())

    def _wave(self) -> float:
        if self._fixed is not None:
            return self._fixed
        return max(self._timeout, 3 * median(self._wave_seconds) if self._wave_seconds else 0.0)

    def _waves(self, slots: int) -> int:
        return max(1, -(-slots // self._at_once()))
