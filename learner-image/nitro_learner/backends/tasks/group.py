"""A group of tasks with one list of results: each task is tried until its result is there."""

import asyncio
import contextlib
import functools
import logging
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic

from nitro_learner.backends.base import LEFT_WORKING, AbandonedError, RetryableError, Trouble
from nitro_learner.backends.cache.base import Cache, CacheError, CacheUnreachable
from nitro_learner.backends.tasks.counts import Counts
from nitro_learner.backends.tasks.task import ResultRefused, T, Task, Work

MAX_TRIES = 5
"""Invocations of one task within one deadline."""

_POLL_SECONDS = 0.5
_ACK_GRACE_SECONDS = 2.0
"""How long a task whose result is stored waits for its HTTP answer, which only billing needs."""

_LOG_SECONDS = 60.0
"""How often the log names the tasks that are still missing."""

_LOOK_SECONDS = 1.0
_BACKOFF_SECONDS = 0.2
_BACKOFF_CAP_SECONDS = 5.0
_MOST_DOUBLINGS = 10
"""The largest exponent of the backoff: a request may be turned away a thousand times, and 2 ** 1000
overflows."""

log = logging.getLogger(__name__)


class TaskGroup(Generic[T]):
    """The requests of a group of tasks, and the consumer of its list. A TaskPool makes it::

    group.submit(range(8))                  # more may follow at any time
    await group.settle(deadline)            # TaskPool.settle does so twice
    group.results(), group.missing()

    ``on_task_done(task)`` is called when a task's result was stored, and when its tries have ended without
    one.
    """

    def __init__(
        self,
        cache: Cache,
        work: Work[T],
        *,
        timeout: float,
        noun: str,
        on_task_done: Callable[[Task[T]], None],
    ) -> None:
        self._cache = cache
        self._work = work
        self._timeout = timeout
        self._noun = noun
        self._on_task_done = on_task_done
        self._logged: set[str] = set()
        self._swept_at = -1.0
        self._awaiting: set[Task[T]] = set()
        self.tasks: dict[int, Task[T]] = {}
        self.counts = Counts()
        self.last_stored_at = 0.0
        self._consumer = asyncio.create_task(self._consume())

    @property
    def pending(self) -> int:
        """Tasks without a result."""
        return sum(task.result is None for task in self.tasks.values())

    def missing(self) -> list[Task[T]]:
        """Those tasks."""
        return [task for task in self.tasks.values() if task.result is None]

    def results(self) -> list[T]:
        """The results that are there, ordered by task."""
        return [task.result for _, task in sorted(self.tasks.items()) if task.result is not None]

    def take_counts(self) -> Counts:
        """Return what has happened since the last call."""
        counts, self.counts = self.counts, Counts()
        return counts

    def submit(self, tasks: Iterable[int]) -> None:
        """Begin to ask for ``tasks``; also again for one that was asked for before and is still missing."""
        for index in tasks:
            task = self.tasks.setdefault(index, Task(index))
            task.request = asyncio.create_task(self._run(task))
            task.request.add_done_callback(functools.partial(self._ended, task))

    async def settle(self, deadline: Callable[[], float]) -> None:
        """Wait until every task has its result or has used up its tries, at most until ``deadline()``.

        Requests that still run at the deadline are cancelled. Raises FatalError as soon as a task meets one.
        """
        loop = asyncio.get_running_loop()
        log_at = loop.time() + _LOG_SECONDS
        while running := self.running:
            left, missing = deadline() - loop.time(), self.missing()
            if left <= 0:
                self.counts.deadline_misses += len(missing)
                await _cancel(running)
                return
            if missing and loop.time() >= log_at:
                count, trouble = f"{len(missing)} of {len(self.tasks)}", missing[0].trouble
                log.info("waiting for %s %s, %.0f s at most: %s", count, self._noun, left, trouble)
                log_at = loop.time() + _LOG_SECONDS
            # The deadline may move while this waits: look again now and then.
            await asyncio.wait(running, timeout=min(left, 1.0), return_when=asyncio.FIRST_EXCEPTION)
            self.raise_failures()
        self.raise_failures()

    async def close(self) -> None:
        """Cancel the requests that still run, remove the list, and stop who still works for it."""
        await _cancel([*self.running, self._consumer])
        stop = any(task.left_working and task.result is None for task in self.tasks.values())
        with contextlib.suppress(CacheError):  # the list expires by itself
            await self._cache.clear(self._work.key, stop=stop)

    def raise_failures(self) -> None:
        """Raise what a task cannot recover from (FatalError) or the cache has met (CacheError)."""
        requests = [task.request for task in self.tasks.values() if task.request is not None]
        for request in [self._consumer, *requests]:
            if request.done() and not request.cancelled():  # a deadline cancels what is late
                request.result()

    @property
    def running(self) -> list[asyncio.Task[None]]:
        """Requests that run. One may run on for a moment after its result is stored, for its billed time."""
        requests = (task.request for task in self.tasks.values())
        return [request for request in requests if request is not None and not request.done()]

    async def _run(self, task: Task[T]) -> None:
        try:
            with contextlib.ExitStack() as rooms:
                await self._ask(task, rooms)
        except asyncio.CancelledError:
            if task.result is None:
                raise
            # The result is stored, but the answer or a needless later attempt hangs.

    async def _ask(self, task: Task[T], rooms: contextlib.ExitStack) -> None:
        """Ask for one task until its result is stored or it is hopeless, at most MAX_TRIES times.

        A request that no worker accepted, for a passing reason, is no try: only the deadline ends it. `rooms`
        keeps the room of one that was cut while its worker may go on, because another task would meet that.
        """
        tried = pauses = 0
        while tried < MAX_TRIES and not task.hopeless:
            await _pause_after(pauses)
            if task.left_working:
                await _wait_for_worker(task, self._cache, self._work.key, self._bill_rest)
            rooms.close()
            if task.result is not None:
                return
            attempt = task.attempts
            task.attempts += 1
            pauses += 1
            try:
                await self._invoke(task, attempt)
            except RetryableError as error:
                rooms.callback(error.let_go)
                tried += error.is_try
                task.failed_at_work += error.deterministic
                if error.billed_seconds:
                    self.counts.bill(error.billed_seconds, estimated=error.estimated)
                self._note(task, error.reason, Trouble.of(error))
                task.left_working = error.reason in LEFT_WORKING
                try:
                    await self._work.recover(error.reason)
                except CacheError:
                    self.counts.retries["cache"] += 1
                continue
            task.left_working = False
            tried += 1
            if await self._arrived(task, attempt):
                return
            if attempt not in task.refused:  # a refusal was noted when it was met
                self._note(task, "missing", Trouble("the stored result did not arrive"))

    async def _invoke(self, task: Task[T], attempt: int) -> None:
        """Run one request and bill it."""
        try:
            ack = await self._work.ask(task.index, attempt)
        except AbandonedError as abandoned:  # it runs on, and its time is unknown: the answer is lost
            task.left_working = True
            self.counts.bill(min(abandoned.seconds, self._timeout), estimated=True)
            if abandoned.trouble is not None:
                self._meet(task, Trouble.of(abandoned.trouble))
            raise
        if (ack.slot, ack.attempt) != (task.index, attempt):
            message = f"answered for {ack.slot} attempt {ack.attempt}, not {task.index} {attempt}"
            raise RetryableError("bad_answer", message, ack.billed_seconds, estimated=ack.estimated)
        self.counts.bill(ack.billed_seconds, estimated=ack.estimated)
        self.counts.overhead_seconds.append(max(0.0, ack.wall_seconds - ack.seconds["total"]))
        self.counts.cold_starts += ack.cold_start
        if task.index not in self.counts.task_seconds:  # its first answer
            self.counts.late += attempt > 0 or not ack.found_ready
        self.counts.task_seconds[task.index] = ack.seconds["total"]

    def _bill_rest(self, seconds: float) -> None:
        self.counts.bill(seconds, estimated=True)

    def _note(self, task: Task[T], reason: str, trouble: Trouble) -> None:
        self._meet(task, trouble)
        if task.result is None:
            self.counts.retries[reason] += 1

    def _meet(self, task: Task[T], trouble: Trouble) -> None:
        """Keep a task's last error. Log its traceback, once for each kind of error."""
        task.trouble = trouble
        if trouble.evidence.trace and trouble.text not in self._logged:
            self._logged.add(trouble.text)
            fields = {"task": task.index, "traceback": trouble.evidence.trace}
            log.info("a worker failed: %s", trouble, extra={"fields": fields})

    async def _arrived(self, task: Task[T], attempt: int) -> bool:
        """Return whether a result that a worker has stored is here, once the list was seen empty."""
        acked_at = asyncio.get_running_loop().time()
        self._awaiting.add(task)
        try:
            while task.result is None:
                if attempt in task.refused or self._swept_at > acked_at:
                    return False
                task.news.clear()
                await task.news.wait()
            return True
        finally:
            self._awaiting.discard(task)

    async def _consume(self) -> None:
        """Take the list's messages as they come, until this is cancelled."""
        loop = asyncio.get_running_loop()
        reached = True
        with contextlib.suppress(CacheError):
            await self._cache.open(self._work.key)
        while True:
            looked_at = loop.time()
            try:
                messages = await self._cache.pop(self._work.key)
                if not messages:
                    self._swept(looked_at)
                    message = await self._cache.wait(self._work.key, _POLL_SECONDS)
                    messages = [] if message is None else [message]
                reached = True
            except CacheUnreachable as error:
                if reached:
                    log.warning("results have to wait: %s", error)
                reached = False
                self.counts.retries["cache"] += 1
                await asyncio.sleep(random.uniform(0.05, 0.2))
                continue
            for message in messages:
                self._take(message)
                # Many results in a row take longer than the grace: let answers in that have come meanwhile.
                await asyncio.sleep(0)

    def _swept(self, looked_at: float) -> None:
        self._swept_at = looked_at
        for task in self._awaiting:
            task.news.set()

    def _take(self, message: bytes) -> None:
        """Keep a result if it is valid and the first of its task; otherwise drop and count it."""
        self.counts.bytes += len(message)
        try:
            index, result = self._work.decode(message)
            task = self.tasks[index]
            if task.result is not None:
                raise ResultRefused("duplicate", f"task {index} has a result already")
        except ResultRefused as refusal:
            self.counts.dropped[refusal.reason] += 1
            if refusal.task is not None and refusal.attempt is not None:
                self._refuse(self.tasks[refusal.task], refusal.attempt, str(refusal))
            return
        task.result = result
        task.news.set()
        self._on_task_done(task)
        loop = asyncio.get_running_loop()
        self.last_stored_at = loop.time()
        if task.request is not None and not task.request.done():
            loop.call_later(_ACK_GRACE_SECONDS, task.request.cancel)

    def _ended(self, task: Task[T], request: asyncio.Task[None]) -> None:
        if not request.cancelled():
            request.exception()  # asyncio would log it where another task's error was raised first
        if task.result is None:
            self._on_task_done(task)

    def _refuse(self, task: Task[T], attempt: int, message: str) -> None:
        task.refused.add(attempt)
        self._note(task, "refused", Trouble(message))
        task.news.set()


async def _pause_after(failures: int) -> None:
    """Wait for a random time, at most twice as long after each further failure."""
    if failures:
        ceiling = min(_BACKOFF_CAP_SECONDS, _BACKOFF_SECONDS * 2 ** min(failures, _MOST_DOUBLINGS))
        await asyncio.sleep(random.uniform(0, ceiling))


async def _wait_for_worker(task: Task[Any], cache: Cache, key: str, bill: Callable[[float], None]) -> None:
    """Wait while a worker says that it works on a task whose request was cut, and bill that time.

    The result comes to the list `key` as if nothing had been cut.
    """
    seconds = 0.0
    try:
        while True:
            task.news.clear()
            if task.result is not None or not await cache.worked_on(key, task.index):
                return
            pause = random.uniform(0.5, 1.0) * _LOOK_SECONDS
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await task.news.wait()
            seconds += pause
    except CacheError:  # the next request will tell
        return
    finally:
        if seconds:
            bill(seconds)


async def _cancel(requests: Sequence[asyncio.Task[None]]) -> None:
    """Cancel requests, and wait for their ends."""
    for request in requests:
        request.cancel()
    await asyncio.gather(*requests, return_exceptions=True)
