"""What a learner and an actor know of each other while a rollout lasts, through Redis.

A proxy may cut a request at its time-out while the actor goes on. So the actor says that it works, and a
learner does not ask for the same slot twice meanwhile. The learner says when nobody takes the fragment any
more, and the actor stops.
"""

import contextlib
import queue
import threading
from collections.abc import Iterator

from nitro_actor import keys
from nitro_actor.protocol.request import Request
from nitro_actor.store import Store, StoreError

_LOOK_SECONDS = 1.0
"""How often it says so and looks. Work that is shorter says nothing: it costs no command of Redis."""

_TTL_SECONDS = 5
"""So long after its last word an actor counts as working. It may be late on a busy node, or have died."""


class _Work:
    """The work on one request."""

    def __init__(self, request: Request) -> None:
        self.working = keys.working(request.result_key, request.slot)
        self.over_key = keys.over(request.result_key)
        self.ended = threading.Event()
        self.over = threading.Event()


class Watch:
    """Watch the work of an actor from a thread of its own::

    with watch.during(request) as over:
        ...                                 # stops at the next step once over() is true

    Args:
        store: a connection that nobody else uses.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._work: queue.SimpleQueue[_Work] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="watch", daemon=True).start()

    @contextlib.contextmanager
    def during(self, request: Request) -> Iterator[threading.Event]:
        """Watch while the context lasts. The event is set once nobody wants the fragment any more."""
        work = _Work(request)
        self._work.put(work)
        try:
            yield work.over
        finally:
            work.ended.set()

    def _run(self) -> None:
        while True:
            work = self._work.get()
            told = False
            while not work.ended.wait(_LOOK_SECONDS):
                # Without Redis the work goes on: it needs Redis only at its end.
                with contextlib.suppress(StoreError):
                    if self._store.exists(work.over_key):
                        work.over.set()
                    self._store.hold(work.working, _TTL_SECONDS)
                    told = True
            if told:
                with contextlib.suppress(StoreError):
                    self._store.drop(work.working)
