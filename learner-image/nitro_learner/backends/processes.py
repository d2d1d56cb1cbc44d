"""Child processes that cannot outlive the learner."""

import asyncio
import contextlib
import json
import logging
import os
import secrets
import shutil
import signal
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from nitro_learner.backends.base import BackendError, Evidence

_GUARD = Path(__file__).with_name("guard.py")
_GUARD_SECONDS = 30.0
_OUTPUT_SECONDS = 1.0
_POLL_SECONDS = 0.02
_TAIL_LINES = 20
_TAIL_BYTES = 64 * 2**10
"""Of each of them: more than a structured line of an actor has that says why it ends."""

_SHOWN_CHARACTERS = 500

_READ_BYTES = 64 * 2**10
_LINE_BYTES = 4 * 2**20
"""A longer line is read in pieces: no structured line is so long, and a child may print without an end."""
_SOCKET_FOLDER_BYTES = 80
"""Systems allow 104 bytes, or a few more, for the path of a socket."""

T = TypeVar("T")

log = logging.getLogger(__name__)


class ChildProcess:
    """A running child: its output is read all the time (a full pipe would stop it), its last lines kept."""

    def __init__(
        self, name: str, process: asyncio.subprocess.Process, on_line: Callable[[str], None] | None
    ) -> None:
        self.name = name
        self._process = process
        self._on_line = on_line
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        assert process.stdout is not None
        self._reader = asyncio.create_task(self._read(process.stdout))

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    async def until(self, ready: asyncio.Future[T], timeout: float) -> T:
        """Wait for ``ready``. Raises BackendError with the child's last words if it ends or takes longer."""
        ending = asyncio.create_task(self.ended(timeout))
        try:
            watched: set[asyncio.Future[Any]] = {ready, ending}
            await asyncio.wait(watched, return_when=asyncio.FIRST_COMPLETED)
            if ready.done():
                return ready.result()
        finally:
            ready.cancel()
            ending.cancel()
        code = ending.result()
        if code is None:
            raise BackendError(f"{self.name} was not ready within {timeout:g} s{self.last_output()}")
        message = f"{self.name} ended at its start with {exit_of(code)}{self.last_output()}"
        trace = self._logged("trace")
        missing = bool(self._logged("missing"))
        raise BackendError(message, Evidence(environment=bool(trace), trace=trace, missing=missing))

    def last_output(self) -> str:
        """Its last output, to be appended to a message: its own error, else its last lines."""
        if error := self._logged("error"):
            return f": {error}"
        return (
            "; its last words:\n" + "\n".join(f"  {line[:_SHOWN_CHARACTERS]}" for line in self._tail)
            if self._tail
            else ""
        )

    def _logged(self, field: str) -> str:
        """That field of the last structured log line of level error that has it; else empty."""
        return next(filter(None, (_logged(line, field) for line in reversed(self._tail))), "")

    async def ended(self, timeout: float) -> int | None:
        """Wait for its end and for the rest of its output. Return the exit code; None where it still runs."""
        try:
            async with asyncio.timeout(timeout):
                code = await self._end()
        except TimeoutError:
            return None
        await asyncio.wait({self._reader}, timeout=_OUTPUT_SECONDS)
        return code

    async def wait(self) -> int:
        """Wait for its end and for the rest of its output."""
        code = await self._process.wait()
        await self._reader
        return code

    async def stop(self, grace: float = 0.0) -> None:
        """Send SIGTERM, and SIGKILL if it still runs after ``grace`` seconds (0: at once)."""
        if grace:
            self.signal(signal.SIGTERM)
            # Not asyncio.wait_for, which until Python 3.12 swallows a cancellation at times.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(grace):
                    await self._end()
        self.signal(signal.SIGKILL)
        await self._end()
        # To the end of its output, which a process that the child started may hold open.
        await asyncio.wait({self._reader}, timeout=_OUTPUT_SECONDS)
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal if the child is not known to have ended.

        Not by asyncio's Process, which polls first: of a child that has just died it would take the exit code
        away from asyncio's own watcher, which then warns of an unknown child and makes the code up.
        """
        if self.alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    async def _end(self) -> int:
        """Wait for its end alone. Return the exit code.

        asyncio's own `wait` waits for the end of its output too, which a process that the child started may
        hold open.
        """
        while (code := self._process.returncode) is None:  # noqa: ASYNC110 - asyncio has no event for it
            await asyncio.sleep(_POLL_SECONDS)
        return code

    async def _read(self, stream: asyncio.StreamReader) -> None:
        rest = b""
        while data := await stream.read(_READ_BYTES):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._hear(line)
            if len(rest) >= _LINE_BYTES:
                self._hear(rest)
                rest = b""
        if rest:
            self._hear(rest)

    def _hear(self, line: bytes) -> None:
        text = line.decode(errors="replace").rstrip()
        log.debug("%s: %s", self.name, text)
        self._tail.append(text[:_TAIL_BYTES])
        if self._on_line:
            self._on_line(text)


def exit_of(code: int) -> str:
    """An exit code in words: of a negative one the signal's name."""
    if code >= 0:
        return f"code {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"


def _logged(line: str, field: str) -> str:
    """A field of a structured log line of level error; else empty."""
    try:
        event = json.loads(line)
        return str(event[field]) if event["level"] == "error" else ""
    except (ValueError, TypeError, KeyError):
        return ""


def _private(folder: Path) -> Path:
    """The name of a new directory in a folder, or in /tmp, if the names of sockets in it were too long."""
    name = f"nitro-{secrets.token_hex(8)}"
    return (folder if len(os.fsencode(folder / name)) <= _SOCKET_FOLDER_BYTES else Path("/tmp")) / name


class ProcessGroup:
    """Children in one process group with a guard, and a private directory; all end with the learner.

    The event loop's thread must live as long as the group.
    """

    def __init__(self) -> None:
        self._guard: asyncio.subprocess.Process | None = None
        self._children: list[ChildProcess] = []
        self.directory = _private(Path(tempfile.gettempdir()))

    async def start(self) -> None:
        """Start the guard, which makes the directory. Raises BackendError."""
        self._guard = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(_GUARD), str(self.directory)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            process_group=0,
        )
        assert self._guard.stdout is not None
        try:
            async with asyncio.timeout(_GUARD_SECONDS):
                line = await self._guard.stdout.readline()
        except TimeoutError:
            line = b""
        if line != b"ready\n":
            await self.close()
            raise BackendError(f"cannot make the private directory {self.directory}")

    async def spawn(
        self,
        name: str,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        on_line: Callable[[str], None] | None = None,
        *,
        inherited: Mapping[str, str] = os.environ,
    ) -> ChildProcess:
        """Start a child in the group.

        Args:
            environment: variables of the child's own.
            on_line: gets its lines of standard output and error.
            inherited: variables that it has besides; this process's own unless the caller says otherwise.

        Raises:
            BackendError: it cannot be started at all.
        """
        assert self._guard is not None, "the group is not started"
        try:
            process = await asyncio.create_subprocess_exec(
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env={**inherited, **environment},
                process_group=self._guard.pid,
            )
        except OSError as error:
            raise BackendError(f"cannot start {name} ({arguments[0]}): {error}") from error
        child = ChildProcess(name, process, on_line)
        self._children = [other for other in self._children if other.alive] + [child]
        return child

    async def close(self) -> None:
        """Kill whatever of the group is left and remove the directory."""
        guard, self._guard = self._guard, None
        if guard is None:
            return
        # Until the guard is reaped, no other process can get its id.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if guard.returncode is None:
                os.killpg(guard.pid, signal.SIGKILL)
        await guard.wait()
        if guard.stdin is not None:
            guard.stdin.close()
        await asyncio.gather(*(child.stop() for child in self._children))
        shutil.rmtree(self.directory, ignore_errors=True)
