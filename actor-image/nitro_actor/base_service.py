"""What every service behind an HTTP server does before any work: check the token, refuse requests while it
starts or ends, and say when its process may end."""

import hmac
import json
import os
import secrets
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

from nitro_actor.answers import Answer, RefusedError
from nitro_actor.check_process import CheckProcess, Record
from nitro_actor.logs import log

SECONDS = 5.0
"""Time of the check, once its copy of the environment is built. Nobody waits for it."""
_CGROUP = Path("/sys/fs/cgroup")
_ALL = "all of it"


class OwnCheck:
    """The check of this process's environment, in a process of its own, once."""

    def __init__(self, actors: int = 1) -> None:
        self._actors = actors
        self._id = secrets.token_hex(8)
        self._lock = threading.Lock()
        self._began = False
        self._process: CheckProcess | None = None
        self._record: Record | None = None

    def answer(self, id_: str) -> Answer:
        """Begin the check at the first call, and say what it has told once it has ended.

        Raises:
            RefusedError: that check is another actor's.
        """
        if id_ and id_ != self._id:
            raise RefusedError(421, "other_actor", "another actor makes this check")
        with self._lock:
            if not self._began:
                self._began = True
                threading.Thread(target=self._run, name="check", daemon=True).start()
        return 200, {"id": self._id, "record": None if self._record is None else asdict(self._record)}

    def close(self) -> None:
        """End the check, which the actor may not outlive."""
        with self._lock:
            self._began = True
            if self._process is not None:
                self._process.close()

    def _run(self) -> None:
        self._record = record = self._made()
        log("checked", lines=len(record.lines), died=record.died, call=record.call)

    def _made(self) -> Record:
        if not has_room(self._actors):
            return _left("the actor's container has no memory for one more copy of the environment")
        settings = {**json.loads(os.environ.get("NITRO_ENVIRONMENT", "")), "envs": 1}
        try:
            with self._lock:
                self._process = process = CheckProcess(json.dumps(settings), SECONDS, os.environ)
        except OSError as error:
            return _left(f"its process cannot be started: {error}")
        return process.final_record()


def _left(why: str) -> Record:
    """The record of a check that was not made."""
    return Record([json.dumps({"left": _ALL, "why": why}), json.dumps({"end": True})])


def has_room(actors: int, cgroup: Path = _CGROUP) -> bool:
    """Whether the container's memory has room for one more copy, as large as an actor: the kernel would end
    the whole container otherwise.

    Args:
        actors: that run in it.
        cgroup: of the container, version 2; without one nothing is known, and there is room.
    """
    try:
        limit = (cgroup / "memory.max").read_text().strip()
        used = int((cgroup / "memory.current").read_text())
        lines = (cgroup / "memory.stat").read_text().splitlines()
    except OSError:
        return True
    files = dict(line.split() for line in lines).get("inactive_file", "0")
    used -= int(files)  # the kernel drops what it only keeps of files
    return limit == "max" or int(limit) - used > used / actors


class BaseService(ABC):
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
