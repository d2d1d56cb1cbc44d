"""The server's work: one request at a time, in the main thread, until a signal ends it."""

import contextlib
import faulthandler
import functools
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator

from nitro_actor import keys, traces
from nitro_actor.actor import Actor
from nitro_actor.answers import Answer, RefusedError, work
from nitro_actor.base_service import BaseService
from nitro_actor.logs import log, write_termination_message
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
    """What learner and actor know of each other while a rollout lasts, through Redis. It has its own thread.

    A proxy may cut a request at its time-out while the actor goes on. So the actor says that it works, and a
    learner does not ask for the same slot twice meanwhile. The learner says when nobody takes the fragment
    any more, and the actor stops.

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
            held = False
            while not work.ended.wait(_LOOK_SECONDS):
                # Without Redis the work goes on: it needs Redis only at its end.
                with contextlib.suppress(StoreError):
                    if self._store.exists(work.over_key):
                        work.over.set()
                    self._store.hold(work.working, _TTL_SECONDS)
                    held = True
            if held:
                with contextlib.suppress(StoreError):
                    self._store.drop(work.working)


_TIMES_TIMEOUT = 2
"""Work that takes this many times the request's time-out hangs: its answer is not needed any more."""

_LAST_SECONDS = 1.0
"""The process ends this long after that, even if the environment never lets another thread run."""


class Service(BaseService):
    """Connect the threads of HTTP connections with the actor in the main thread.

    Args:
        token: the token that requests must carry; None if they need no token.
        timeout: seconds after which a request is given up; None if the parent process replaces a process that
            hangs.
    """

    def __init__(self, token: str | None, timeout: float | None) -> None:
        super().__init__(token)
        self._limit = None if timeout is None else _TIMES_TIMEOUT * timeout
        self._jobs: queue.SimpleQueue[Callable[[Actor, Store, Watch], None] | None] = queue.SimpleQueue()
        self._busy = threading.Lock()
        self._began = time.perf_counter()

    def serve(self, build: Callable[[], tuple[Actor, Store]]) -> None:
        """Build the actor and its store, then work on requests in this thread until `drain`."""
        actor, store = build()
        watch = Watch(store.beside())
        self._spec = actor.environment.spec.to_json()
        log("ready", environment=actor.environment.spec.id, seconds=time.perf_counter() - self._began)
        while True:
            job = self._jobs.get()
            if job is not None:
                self._within_limit(functools.partial(job, actor, store, watch))
            elif self.unanswered == 0:  # else the last answer wakes this loop again
                break
        self._own_check.close()
        actor.environment.close()

    def _within_limit(self, job: Callable[[], None]) -> None:
        """Run a job. A thread in C ends the process if the job holds Python's lock, as a regular expression
        or a simulator in C may do: `rollout`, which gives a better message, cannot run then."""
        if self._limit is None:
            job()
            return
        faulthandler.dump_traceback_later(self._limit + _LAST_SECONDS, exit=True)
        try:
            job()
        finally:
            faulthandler.cancel_dump_traceback_later()

    def woken(self) -> None:
        self._jobs.put(None)

    def rollout(self, read_body: Callable[[], bytes]) -> Answer:
        """Work on one rollout request. A second one at the same time is refused, before its body is read."""
        self._require_ready()
        if not self._busy.acquire(blocking=False):
            raise RefusedError(503, "busy", "this actor works on another request")
        try:
            request = Request.decode(read_body())
            done: queue.SimpleQueue[Answer] = queue.SimpleQueue()

            def job(actor: Actor, store: Store, watch: Watch) -> None:
                with watch.during(request) as over:
                    done.put(work(actor, request, store, over))

            self._jobs.put(job)
            return done.get(timeout=self._limit)
        except queue.Empty:
            # Only the main thread could end the request, and the main thread hangs. The container is
            # restarted.
            frames = traces.of_thread(sys._current_frames()[threading.main_thread().ident or 0])
            where = traces.standing(frames)
            text = f"the {request.kind} of slot {request.slot} does not end{where and f': it is in {where}'}"
            log("hangs", level="error", error=text, stack=[str(frame) for frame in frames])
            write_termination_message(text)
            os._exit(1)
        finally:
            self._busy.release()
