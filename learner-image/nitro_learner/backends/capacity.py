"""A limit on requests in flight that can be changed while some wait, with priorities."""

import asyncio
import heapq
import itertools


class Capacity:
    """Like a semaphore, but ``limit`` may change at any time and the lowest priority number goes first.

    Requests of equal priority go in the order in which they came.
    """

    def __init__(self, limit: int) -> None:
        self._in_use = 0
        self._order = itertools.count()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self.set_limit(limit)

    @property
    def limit(self) -> int:
        return self._limit

    @property
    def in_flight(self) -> int:
        """Requests that have room."""
        return self._in_use

    @property
    def outstanding(self) -> int:
        """Requests in flight and waiting."""
        return self._in_use + self.waiting

    @property
    def waiting(self) -> int:
        """Requests that wait for room."""
        return sum(not turn.done() for _, _, turn in self._waiting)  # one that was cancelled is still there

    def set_limit(self, limit: int) -> None:
        """Take effect at once; a smaller limit waits for those in flight. With 0 all others wait."""
        self._limit = limit
        self._wake()

    async def acquire(self, priority: int) -> None:
        """Wait for room."""
        if self._in_use < self._limit and not self._waiting:
            self._in_use += 1
            return
        turn = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (priority, next(self._order), turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()  # a place was given to this waiter while it was cancelled: pass it on
            raise

    def release(self) -> None:
        """Give one place back."""
        self._in_use -= 1
        self._wake()

    def _wake(self) -> None:
        while self._waiting and self._in_use < self._limit:
            _, _, turn = heapq.heappop(self._waiting)
            if not turn.done():
                self._in_use += 1
                turn.set_result(None)
