"""One list of fragments and the requests that fill it: a slot is asked for until its fragment is there."""

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Iterable

from nitro_learner import fragment as fragments
from nitro_learner.backends.base import AbandonedError, ActorBackend, RetryableError
from nitro_learner.batch import Fragment
from nitro_learner.cache import Cache, CacheError, CacheUnreachable
from nitro_learner.counts import Counts
from nitro_learner.fragment import Expectation, FragmentRefused

MAX_TRIES = 5
"""Invocations of one slot within one deadline."""

_TRIES_AT_WORK = 2
"""How often an actor may fail at a slot's work itself; the second may have been another machine."""

_BACKOFF_SECONDS = 0.2
_BACKOFF_CAP_SECONDS = 5.0
_MOST_DOUBLINGS = 10
"""A slot may be turned away a thousand times: such a power of two is no floating-point number."""

_POLL_SECONDS = 0.5
_ACK_GRACE_SECONDS = 2.0
"""How long a slot whose fragment is stored may still wait for its HTTP answer (only the bill needs it)."""

_CACHE_WAIT_SECONDS = 15.0
_TOLD_SECONDS = 60.0
"""How often the log says what is still waited for."""

log = logging.getLogger(__name__)


class Slot:
    """One slot's progress. ``fragment`` is the first sound one that was stored, whichever attempt made it.

    ``hopeless``: its work itself failed, as it would again.
    """

    def __init__(self, index: int) -> None:
        self.index = index
        self.attempts = 0
        self.fragment: Fragment | None = None
        self.refused: set[int] = set()
        self.trouble = "no answer yet"
        self.failed_at_work = 0
        self.task: asyncio.Task[None] | None = None
        self.news = asyncio.Event()

    @property
    def hopeless(self) -> bool:
        return self.failed_at_work >= _TRIES_AT_WORK


class Fanout:
    """Requests of one round (or evaluation) and the consumer of its list.

    ``build(slot, attempt)`` makes a slot's wire request. Slots may be added at any time. ``told(slot)`` is
    called when a slot's fragment was stored, and when its tries have ended without one.
    """

    def __init__(
        self,
        backend: ActorBackend,
        cache: Cache,
        key: str,
        expect: Expectation,
        build: Callable[[int, int], bytes],
        *,
        timeout: float,
        priority: int,
        told: Callable[[Slot], None] = lambda _: None,
    ) -> None:
        self._told = told
        self._backend = backend
        self._cache = cache
        self._key = key
        self._expect = expect
        self._build = build
        self._timeout = timeout
        self._priority = priority
        self._swept_at = -1.0
        self._awaiting: set[Slot] = set()
        self.slots: dict[int, Slot] = {}
        self.counts = Counts()
        self.last_stored_at = 0.0
        self._consumer = asyncio.create_task(self._consume())

    @property
    def pending(self) -> int:
        """Slots without a fragment."""
        return sum(slot.fragment is None for slot in self.slots.values())

    def missing(self) -> list[Slot]:
        """Those slots."""
        return [slot for slot in self.slots.values() if slot.fragment is None]

    def take_counts(self) -> Counts:
        """What has happened since the last call."""
        counts, self.counts = self.counts, Counts()
        return counts

    def start(self, slots: Iterable[int]) -> None:
        """Begins to ask for ``slots``; one that is known already and still missing is asked for anew."""
        for index in slots:
            slot = self.slots.setdefault(index, Slot(index))
            slot.task = asyncio.create_task(self._run(slot))
            slot.task.add_done_callback(lambda _, slot=slot: self._given_up(slot))  # type: ignore[misc]

    async def settle(self, deadline: Callable[[], float]) -> None:
        """Waits until every slot has its fragment or has used up its tries, at most until ``deadline()``.

        What is still under way then is broken off. Raises FatalError as soon as a slot meets one.
        """
        loop = asyncio.get_running_loop()
        tell_at = loop.time() + _TOLD_SECONDS
        while running := self.running:
            left, missing = deadline() - loop.time(), self.missing()
            if left <= 0:
                self.counts.deadline_misses += len(missing)
                await _cancel(running)
                return
            if missing and loop.time() >= tell_at:
                count, trouble = f"{len(missing)} of {len(self.slots)}", missing[0].trouble
                log.info("waiting for %s slots, %.0f s at most: %s", count, left, trouble)
                tell_at = loop.time() + _TOLD_SECONDS
            # The deadline may move while this waits: look again now and then.
            await asyncio.wait(running, timeout=min(left, 1.0), return_when=asyncio.FIRST_EXCEPTION)
            self.raise_failures()
        self.raise_failures()

    async def close(self) -> None:
        """Breaks off what is under way and removes the list."""
        await _cancel([*self.running, self._consumer])
        with contextlib.suppress(CacheError):  # the list expires by itself
            await self._cache.clear(self._key)

    def raise_failures(self) -> None:
        """Raises what a slot cannot recover from (FatalError) or the cache has met (CacheError)."""
        tasks = [self._consumer, *(slot.task for slot in self.slots.values() if slot.task is not None)]
        for task in tasks:
            if task.done() and not task.cancelled():  # a deadline cancels what it breaks off
                task.result()

    @property
    def running(self) -> list[asyncio.Task[None]]:
        """Requests under way; one may outlast its slot's fragment for a moment, for the bill's sake."""
        return [slot.task for slot in self.slots.values() if slot.task is not None and not slot.task.done()]

    async def _run(self, slot: Slot) -> None:
        try:
            await self._ask(slot)
        except asyncio.CancelledError:
            if slot.fragment is None:
                raise
            # Stored, but something hung behind that: the answer, or a later attempt nobody needs.

    async def _ask(self, slot: Slot) -> None:
        """Asks for one slot until its fragment is stored or it is hopeless, at most MAX_TRIES times.

        A request that no actor took, for a reason that passes, is no try: only the deadline ends that.
        """
        tried = pauses = 0
        while tried < MAX_TRIES and not slot.hopeless:
            if pauses:
                ceiling = min(_BACKOFF_CAP_SECONDS, _BACKOFF_SECONDS * 2 ** min(pauses, _MOST_DOUBLINGS))
                await asyncio.sleep(random.uniform(0, ceiling))
            if slot.fragment is not None:
                return
            attempt = slot.attempts
            slot.attempts += 1
            pauses += 1
            try:
                await self._invoke(slot, attempt)
            except RetryableError as error:
                tried += error.is_try
                slot.failed_at_work += error.deterministic
                if error.billed_seconds:
                    self.counts.bill(error.billed_seconds, estimated=error.estimated)
                self._note(slot, error.reason, str(error))
                await self._recover(error.reason)
                continue
            tried += 1
            if await self._arrived(slot, attempt):
                return
            if attempt not in slot.refused:  # a refusal was noted when it was met
                self._note(slot, "missing", "the actor's fragment did not turn up")

    async def _invoke(self, slot: Slot, attempt: int) -> None:
        """One invocation, billed."""
        try:
            request = self._build(slot.index, attempt)
            ack = await self._backend.invoke(request, self._timeout, priority=self._priority)
        except AbandonedError as abandoned:  # it runs on, and for how long only the lost answer would say
            self.counts.bill(min(abandoned.seconds, self._timeout), estimated=True)
            raise
        if (ack.slot, ack.attempt) != (slot.index, attempt):
            message = f"answered for slot {ack.slot} attempt {ack.attempt}, not {slot.index} {attempt}"
            raise RetryableError("bad_answer", message, ack.billed_seconds, estimated=ack.estimated)
        self.counts.bill(ack.billed_seconds, estimated=ack.estimated)
        self.counts.slot_seconds[slot.index] = ack.seconds["total"]
        self.counts.overhead_seconds.append(max(0.0, ack.wall_seconds - ack.seconds["total"]))
        self.counts.cold_starts += ack.cold_start

    def _note(self, slot: Slot, reason: str, message: str) -> None:
        slot.trouble = message
        if slot.fragment is None:
            self.counts.retries[reason] += 1

    async def _recover(self, reason: str) -> None:
        """What the learner itself can do about it before the next try."""
        try:
            if reason == "redis_unreachable":
                await self._cache.wait_reachable(_CACHE_WAIT_SECONDS)
            if reason in ("redis_unreachable", "weights_missing"):
                await self._cache.restore_weights(self._expect.weights_version)
        except CacheError:
            self.counts.retries["cache"] += 1

    async def _arrived(self, slot: Slot, attempt: int) -> bool:
        """Whether the fragment that an actor says it stored is here once the list was seen empty."""
        acked_at = asyncio.get_running_loop().time()
        self._awaiting.add(slot)
        try:
            while slot.fragment is None:
                if attempt in slot.refused or self._swept_at > acked_at:
                    return False
                slot.news.clear()
                await slot.news.wait()
            return True
        finally:
            self._awaiting.discard(slot)

    async def _consume(self) -> None:
        """Takes the list's fragments as they come, for as long as this lives."""
        loop = asyncio.get_running_loop()
        reached = True
        while True:
            looked_at = loop.time()
            try:
                messages = await self._cache.pop(self._key)
                if not messages:
                    self._swept(looked_at)
                    message = await self._cache.wait(self._key, _POLL_SECONDS)
                    messages = [] if message is None else [message]
                reached = True
            except CacheUnreachable as error:
                if reached:
                    log.warning("fragments have to wait: %s", error)
                reached = False
                self.counts.retries["cache"] += 1
                await asyncio.sleep(random.uniform(0.05, 0.2))
                continue
            for message in messages:
                self._take(message)

    def _swept(self, looked_at: float) -> None:
        self._swept_at = looked_at
        for slot in self._awaiting:
            slot.news.set()

    def _take(self, message: bytes) -> None:
        """Keeps a fragment if it is sound and the first of its slot; otherwise drops and counts it."""
        self.counts.bytes += len(message)
        try:
            fragment = fragments.read(message, self._expect)
            slot = self.slots[fragment.slot]
            if slot.fragment is not None:
                raise FragmentRefused("duplicate", f"slot {fragment.slot} is complete")
        except FragmentRefused as refusal:
            self.counts.dropped[refusal.reason] += 1
            if refusal.slot is not None and refusal.attempt is not None:
                self._refuse(self.slots[refusal.slot], refusal.attempt, str(refusal))
            return
        slot.fragment = fragment
        slot.news.set()
        self._told(slot)
        loop = asyncio.get_running_loop()
        self.last_stored_at = loop.time()
        if slot.task is not None and not slot.task.done():
            loop.call_later(_ACK_GRACE_SECONDS, slot.task.cancel)

    def _given_up(self, slot: Slot) -> None:
        if slot.fragment is None:
            self._told(slot)

    def _refuse(self, slot: Slot, attempt: int, message: str) -> None:
        slot.refused.add(attempt)
        self._note(slot, "refused", message)
        slot.news.set()


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
