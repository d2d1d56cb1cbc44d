"""Deadlines of groups of tasks, from the times of earlier groups and the number of requests."""

import asyncio
from collections import deque
from collections.abc import Callable
from statistics import median

_MEDIAN_GROUPS = 21
"""Number of groups that the median is taken over."""


class Deadlines:
    """Deadlines in waves. If there are more requests than workers, they are done in waves, and each wave has
    the time of one request.

    Args:
        timeout_seconds: of one request.
        deadline_seconds: of one wave; None means max(`timeout_seconds` + `grace_seconds`, 3 x the median wave
            so far).
        grace_seconds: how long after its time-out a request may still be answered.
        at_once: requests that are worked on at once, now; 0 if nobody is there to work.
        pending: requests without a result, now.
    """

    def __init__(
        self,
        timeout_seconds: float,
        deadline_seconds: float | None,
        *,
        grace_seconds: float,
        at_once: Callable[[], int],
        pending: Callable[[], int],
    ) -> None:
        self._longest = timeout_seconds + grace_seconds
        self._fixed = deadline_seconds
        self._at_once = at_once
        self._pending = pending
        self._wave_seconds: deque[float] = deque(maxlen=_MEDIAN_GROUPS)

    def learn(self, seconds: float, tasks: int) -> None:
        """Remember that a group of `tasks` took `seconds`."""
        self._wave_seconds.append(seconds / self._waves(tasks))

    def after(self, started: float) -> Callable[[], float]:
        """Return a function that returns the deadline of what began at `started` (event loop's time).

        It moves later when fewer requests are worked on at once, or when others' requests come in between; at
        most to the deadline of the most waves there ever were. When fewer waves are left, their time counts
        from then on. So workers that are few for a moment, until their pods have started, do not make the
        deadline late. Time in which there are none at all, because all pods sleep, does not count.
        """
        clock = asyncio.get_running_loop().time
        most = waves = 1
        since, looked = started, clock()
        without_workers, nobody = 0.0, not self._at_once()

        def at() -> float:
            nonlocal most, waves, since, looked, without_workers, nobody
            last, looked = looked, clock()
            if nobody:  # at the last look; there is one at least once a second
                without_workers += looked - last
            nobody = not self._at_once()
            if not nobody:
                left = self._waves(self._pending())
                most = max(most, left)
                if left != waves:
                    waves, since = left, looked - without_workers
            return min(since + waves * self._wave(), started + most * self._wave()) + without_workers

        return at

    def now(self) -> Callable[[], float]:
        """Return `after` of the present time."""
        return self.after(asyncio.get_running_loop().time())

    def _wave(self) -> float:
        if self._fixed is not None:
            return self._fixed
        return max(self._longest, 3 * median(self._wave_seconds) if self._wave_seconds else 0.0)

    def _waves(self, tasks: int) -> int:
        return max(1, -(-tasks // max(1, self._at_once())))
