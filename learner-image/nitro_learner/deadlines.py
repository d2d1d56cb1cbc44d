"""How long sampling may take: it follows from the rounds before and from how many requests there are."""

import asyncio
from collections import deque
from collections.abc import Callable
from statistics import median

_MEDIAN_ROUNDS = 21
"""Rounds that the median looks back on."""


class Deadlines:
    """Deadlines in waves: with more requests than the backend takes at once, each wave has a round's time.

    Args:
        timeout_seconds: of one request.
        deadline_seconds: of one wave; None means max(`timeout_seconds`, 3 x the median wave so far).
        limit: requests that the backend takes at once, now.
        pending: requests under way or waiting, now.
    """

    def __init__(
        self,
        timeout_seconds: float,
        deadline_seconds: float | None,
        *,
        limit: Callable[[], int],
        pending: Callable[[], int],
    ) -> None:
        self._timeout = timeout_seconds
        self._fixed = deadline_seconds
        self._limit = limit
        self._pending = pending
        self._wave_seconds: deque[float] = deque(maxlen=_MEDIAN_ROUNDS)

    def learn(self, seconds: float, slots: int) -> None:
        """Takes in that a round of `slots` requests took `seconds`."""
        self._wave_seconds.append(seconds / self._waves(slots))

    def after(self, started: float) -> Callable[[], float]:
        """When to stop waiting for what began at `started` (both in the event loop's time).

        It moves away when the limit shrinks or others' requests come in between.
        """
        most = 1

        def at() -> float:
            nonlocal most
            most = max(most, self._waves(self._pending()))
            return started + most * self._wave()

        return at

    def now(self) -> Callable[[], float]:
        """As `after`, from now on."""
        return self.after(asyncio.get_running_loop().time())

    def _wave(self) -> float:
        if self._fixed is not None:
            return self._fixed
        return max(self._timeout, 3 * median(self._wave_seconds) if self._wave_seconds else 0.0)

    def _waves(self, slots: int) -> int:
        return max(1, -(-slots // self._limit()))
