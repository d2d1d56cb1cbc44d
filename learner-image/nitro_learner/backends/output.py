"""The output of actor processes on this machine: kept in a file, and searched for the cause of a failure."""

import asyncio
import contextlib
import json
import logging
import re
import sys
from collections import deque
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from nitro_actor import traces

logger = logging.getLogger(__name__)

_FILE_BYTES = 5 * 2**20
"""Size limit of the file and of the older one beside it, so that the output cannot fill the disk."""

_KEPT_LINES = 400
"""Lines of each process in memory: more than a dump of its stacks has."""

_KEPT_CHARACTERS = 4_000
"""Of each of them."""

_SHOWN_LINES = 5
_SHOWN_CHARACTERS = 160


class LogFile(RotatingFileHandler):
    """A file of log lines, made with its first one. Where it cannot be written (disk full, no right), a
    warning says so, once, and the training goes on.

    Args:
        bytes: size at which another file begins; 0 is none. One older file is kept.
    """

    def __init__(self, path: Path, bytes: int = 0) -> None:
        # A name of a file that is no text has characters that UTF-8 lacks.
        super().__init__(
            path, maxBytes=bytes, backupCount=1, encoding="utf-8", errors="backslashreplace", delay=True
        )
        self._warned = False

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: ARG002, N802 - logging's name
        if not self._warned:
            self._warned = True
            logger.warning("%s cannot be written: %s", self.baseFilename, sys.exc_info()[1])

    def close(self) -> None:
        with contextlib.suppress(OSError):  # what it could not write is still waiting
            super().close()


class ActorsLog:
    """The file of all actor processes' output, at most 10 MB. It is made with its first line.

    Args:
        path: of the file; None until `begin` names it.
    """

    def __init__(self, path: Path | None) -> None:
        self._handler: LogFile | None = None
        self._waiting: deque[logging.LogRecord] = deque(maxlen=_KEPT_LINES)
        if path is not None:
            self.begin(path)

    def begin(self, path: Path) -> None:
        """Write to this file, also what has come before."""
        self._handler = LogFile(path, _FILE_BYTES)
        self._handler.setFormatter(logging.Formatter("%(asctime)s %(name)s: %(message)s"))
        while self._waiting:
            self._handler.handle(self._waiting.popleft())

    def write(self, name: str, text: str) -> None:
        record = logging.LogRecord(name, logging.INFO, "", 0, text, None, None)
        if self._handler is None:
            self._waiting.append(record)
        else:
            self._handler.handle(record)

    def close(self) -> None:
        if self._handler is not None:
            self._handler.close()


class Output:
    """The output of one actor process."""

    def __init__(self, name: str, file: ActorsLog) -> None:
        self._name = name
        self._file = file
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self.dumped = asyncio.Event()
        """Set when a dump of its stack was read to its end."""

    def hear(self, line: str) -> None:
        """Take in a line. The actor's own log is left out, except warnings and errors."""
        event = _event(line)
        if event is not None:
            if event.get("level") not in ("warning", "error"):
                return
            line = "\n".join(filter(None, [str(event.get("error", "")), str(event.get("trace", ""))]))
        self._file.write(self._name, line)
        self._lines.append(line[:_KEPT_CHARACTERS])
        if traces.DUMP_END in line:
            self.dumped.set()

    def standing(self) -> str:
        """The environment's call that ran when its stack was dumped last, and the line; else empty."""
        return traces.standing(traces.of_dump(self._lines))

    def stacks(self) -> str:
        """The dump of its stack, as it was written."""
        lines = list(self._lines)
        return "\n".join(lines[_dump_start(lines) :])

    def last_lines(self) -> tuple[str, ...]:
        """The last lines before a dump of its stack, for a message."""
        lines = list(self._lines)
        words = [line for line in lines[: _dump_start(lines)] if line.strip()]
        return tuple(line[:_SHOWN_CHARACTERS] for line in words[-_SHOWN_LINES:])


def _dump_start(lines: list[str]) -> int:
    return next((index for index, line in enumerate(lines) if traces.begins_dump(line)), len(lines))


_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def _event(line: str) -> dict[str, Any] | None:
    """A structured log line of the actor's. A user's own may look alike, but not in all of its fields."""
    if not line.startswith("{"):
        return None
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(event, dict) or "event" not in event or not _TIME.fullmatch(str(event.get("time"))):
        return None
    return event if isinstance(event.get("level"), str) else None
