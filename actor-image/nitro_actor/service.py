"""What the server does with requests: one at a time, in the main thread, until it is told to stop."""

import hmac
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from nitro_actor import request as requests
from nitro_actor import wire
from nitro_actor.actor import Actor, WeightsInvalidError, WeightsMissingError
from nitro_actor.engines.base import EnvironmentCallError
from nitro_actor.logs import log
from nitro_actor.request import ProtocolError, Request
from nitro_actor.rollout import PolicyError
from nitro_actor.store import StoreError, StoreFullError

Answer = tuple[int, dict[str, Any]]
"""HTTP status and JSON object."""

_ERRORS: tuple[tuple[type[Exception], int, str], ...] = (
    (ProtocolError, 409, "protocol"),
    (wire.WireError, 400, "bad_request"),
    (WeightsMissingError, 424, "weights_missing"),
    (WeightsInvalidError, 500, "weights_invalid"),
    (PolicyError, 500, "weights_invalid"),
    (EnvironmentCallError, 500, "environment"),
    (StoreFullError, 507, "redis_full"),
    (StoreError, 503, "redis_unreachable"),
    (Exception, 500, "internal"),
)


class RefusedError(Exception):
    """A request that is answered without work: HTTP status, code and sentence."""

    def __init__(self, status: int, code: str, error: str) -> None:
        super().__init__(error)
        self.status = status
        self.code = code


class Service:
    """Connects the threads of HTTP connections with the actor in the main thread."""

    def __init__(self, token: str | None) -> None:
        self._token = token.encode() if token else None
        self._jobs: queue.SimpleQueue[Callable[[Actor], None] | None] = queue.SimpleQueue()
        self._busy = threading.Lock()
        self._unanswered = 0
        self._counting = threading.Lock()
        self._spec: dict[str, Any] | None = None
        self._draining = False
        self._began = time.perf_counter()

    def serve(self, build: Callable[[], Actor]) -> None:
        """Build the actor, then work off requests in this thread until `drain`."""
        actor = build()
        self._spec = actor.environment.spec.to_json()
        log("ready", environment=actor.environment.spec.id, seconds=time.perf_counter() - self._began)
        while True:
            job = self._jobs.get()
            if job is not None:
                job(actor)
            elif self._unanswered == 0:  # else the last one to be answered wakes this loop again
                break
        actor.environment.close()

    def drain(self) -> None:
        """Refuse new requests and let `serve` return when those in flight are answered."""
        self._draining = True
        self._jobs.put(None)

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Around a request, from its head to its answer's last byte: `serve` does not return in between."""
        with self._counting:
            self._unanswered += 1
        try:
            yield
        finally:
            with self._counting:
                self._unanswered -= 1
            if self._draining:
                self._jobs.put(None)

    def authorise(self, header: str | None) -> None:
        """Raise RefusedError unless the request carries the token."""
        given = (header or "").encode("latin-1", "replace")
        if self._token is not None and not hmac.compare_digest(given, b"Bearer " + self._token):
            raise RefusedError(
                401, "unauthorized", "the Authorization header does not carry the job's bearer token"
            )

    def ready(self) -> Answer:
        """Whether requests are welcome."""
        self._require_ready()
        return 200, {"status": "ready"}

    def spec(self) -> Answer:
        """The environment's spaces."""
        self._require_ready()
        return 200, self._spec or {}

    def rollout(self, read_body: Callable[[], bytes]) -> Answer:
        """Work on one rollout request. A second one at the same time is refused, before its body is read."""
        self._require_ready()
        if not self._busy.acquire(blocking=False):
            raise RefusedError(503, "busy", "this actor works on another request")
        try:
            request = requests.parse(read_body())
            done: queue.SimpleQueue[Answer] = queue.SimpleQueue()
            self._jobs.put(lambda actor: done.put(_work(actor, request)))
            return done.get()
        finally:
            self._busy.release()

    def _require_ready(self) -> None:
        if self._draining:
            raise RefusedError(503, "draining", "this actor is shutting down")
        if self._spec is None:
            raise RefusedError(503, "starting", "the environment is still being built")


def _work(actor: Actor, request: Request) -> Answer:
    what: dict[str, Any] = {
        "run": request.run,
        "round": request.round,
        "slot": request.slot,
        "attempt": request.attempt,
    }
    try:
        answer = actor.run(request)
    except Exception as error:
        status, body = failure(error)
        log("failed", level="error", kind=request.kind, status=status, **what, **body)
        return status, body
    log("done", kind=request.kind, **(what | answer))
    return 200, answer


def failure(error: Exception) -> Answer:
    """What an error is answered with: HTTP status, and a code and a sentence."""
    if isinstance(error, RefusedError):
        return error.status, {"code": error.code, "error": str(error)}
    status, code = next((status, code) for kind, status, code in _ERRORS if isinstance(error, kind))
    text = f"{type(error).__name__}: {error}" if code == "internal" else str(error)
    return status, {"code": code, "error": text}
