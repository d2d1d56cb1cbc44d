"""A pool of workers and the groups of tasks that they work on: capacity, deadlines, second tries, bills."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from statistics import median
from typing import Any

from nitro_learner.backends.cache.base import Cache
from nitro_learner.backends.tasks.counts import Counts, TaskStats
from nitro_learner.backends.tasks.group import TaskGroup
from nitro_learner.backends.tasks.task import T, Task, Work, Workers

_MEDIAN_GROUPS = 21
"""Number of groups that the median is taken over."""
log = logging.getLogger(__name__)


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


class TaskPool:
    """Run tasks on workers, whatever they compute: see Work::

    pool = TaskPool(backend, cache, timeout_seconds=60.0, deadline_seconds=None, noun="slots")
    group = pool.open(Work(key, ask, decode, recover))
    group.submit(range(8))
    await pool.settle(group, started)
    results, stats = group.results(), pool.stats(group, started)
    await pool.close(group)

    Args:
        workers: have the capacity, which all groups share.
        cache: holds a list of results for each group.
        deadline_seconds: of one wave of requests; None means max(`timeout_seconds` + the workers' grace,
            3 x the median wave).
        noun: what its tasks are called in messages.
    """

    def __init__(
        self,
        workers: Workers,
        cache: Cache,
        *,
        timeout_seconds: float,
        deadline_seconds: float | None,
        noun: str,
    ) -> None:
        self._workers = workers
        self._cache = cache
        self._timeout = timeout_seconds
        self._noun = noun
        self.deadlines = Deadlines(
            timeout_seconds,
            deadline_seconds,
            grace_seconds=workers.grace_seconds,
            at_once=lambda: workers.at_once,
            pending=lambda: self.pending,
        )
        self._groups: set[TaskGroup[Any]] = set()
        self._unused = Counts()

    @property
    def pending(self) -> int:
        """Tasks of all groups that were submitted and have no result yet."""
        return sum(group.pending for group in self._groups)

    def open(
        self, work: Work[T], *, on_task_done: Callable[[Task[T]], None] = lambda _: None
    ) -> TaskGroup[T]:
        """Begin a group; `close` ends it."""
        group = TaskGroup(
            self._cache,
            work,
            timeout=self._timeout,
            noun=self._noun,
            on_task_done=on_task_done,
        )
        self._groups.add(group)
        return group

    async def settle(self, group: TaskGroup[Any], started: float) -> None:
        """Wait one deadline for all tasks, and one more for those that are missing then and not hopeless.

        Raises FatalError or CacheError.
        """
        await group.settle(self.deadlines.after(started))
        missing = [task.index for task in group.missing() if not task.hopeless]
        if missing:
            trouble = group.tasks[missing[0]].trouble
            log.warning("%s %s are invoked once more: %s", self._noun, missing, trouble)
            group.submit(missing)
            await group.settle(self.deadlines.now())

    def stats(self, group: TaskGroup[Any], started: float) -> TaskStats:
        """Return the statistics of the group, from `started` to its last result."""
        seconds = max(group.last_stored_at - started, 0.0)
        return group.take_counts().stats(seconds, at_once=min(self._workers.limit, len(group.tasks)))

    def take_unused(self) -> Counts:
        """Return the statistics, since the last call, of groups that were closed before theirs were read.
        Their invocations are billed all the same."""
        counts, self._unused = self._unused, Counts()
        return counts

    async def close(self, group: TaskGroup[Any]) -> None:
        """Cancel what still runs of a group and remove its list."""
        self._groups.discard(group)
        await group.close()
        self._unused.add(group.take_counts())

    async def close_all(self) -> None:
        """Close every group."""
        for group in list(self._groups):
            await self.close(group)
