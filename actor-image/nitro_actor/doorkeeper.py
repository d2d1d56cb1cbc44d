"""Who may enter a server, and when its process may end: what every service does before any work."""

import hmac
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from nitro_actor.answers import Answer, RefusedError
from nitro_actor.own_check import OwnCheck


class Doorkeeper(ABC):
    """The service behind an HTTP server.

    Args:
        token: the token that requests must carry; None if they need no token.
        actors: in this container.
    """

    what: ClassVar[str] = "actor"
    """What shuts down, in the message to whoever asks then."""

    def __init__(self, token: str | None, actors: int = 1) -> None:
        self._own_check = OwnCheck(actors)
        self._token = token.encode() if token else None
        self._counting = threading.Lock()
        self.unanswered = 0
        """Number of requests whose answers are not sent completely."""
        self.draining = False
        self._spec: dict[str, Any] | None = None
        """The environment's spaces; None while requests are not accepted yet."""

    def drain(self) -> None:
        """Refuse new requests and let the process end when those in flight are answered."""
        self.draining = True
        self.woken()

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Keep the process alive from a request's head to the last byte of its answer."""
        with self._counting:
            self.unanswered += 1
        try:
            yield
        finally:
            with self._counting:
                self.unanswered -= 1
            if self.draining:
                self.woken()

    def authorise(self, header: str | None) -> None:
        """Raise RefusedError unless the request carries the token."""
        given = (header or "").encode("latin-1", "replace")
        if self._token is not None and not hmac.compare_digest(given, b"Bearer " + self._token):
            raise RefusedError(
                401, "unauthorized", "the Authorization header does not carry the job's bearer token"
            )

    def ready(self) -> Answer:
        """Answer whether requests are accepted."""
        self._require_ready()
        return 200, {"status": "ready"}

    def spec(self) -> Answer:
        """The environment's spaces."""
        self._require_ready()
        return 200, self._spec or {}

    def check(self, id_: str) -> Answer:
        """See `OwnCheck.answer`."""
        self._require_ready()
        return self._own_check.answer(id_)

    def _require_ready(self) -> None:
        if self.draining:
            raise RefusedError(503, "draining", f"this {self.what} is shutting down")
        if self._spec is None:
            raise RefusedError(503, "starting", "the environment is still being built")

    @abstractmethod
    def woken(self) -> None:
        """Check again whether the process may end."""

    @abstractmethod
    def rollout(self, read_body: Callable[[], bytes]) -> Answer:
        """Work on one rollout request. Without a free actor it is refused before its body is read."""
