"""A pool of workers and the groups of tasks that they work on: capacity, deadlines, second tries, bills."""

import logging
from collections.abc import Callable
from typing import Any

from nitro_learner.backends.cache.base import Cache
from nitro_learner.backends.tasks.counts import Counts, TaskStats
from nitro_learner.backends.tasks.deadlines import Deadlines
from nitro_learner.backends.tasks.group import TaskGroup
from nitro_learner.backends.tasks.task import T, Task, Work, Workers

log = logging.getLogger(__name__)


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
        timeout_seconds: of one request.
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
