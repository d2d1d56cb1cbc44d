"""The check of an environment in a process of its own: it may hang, crash, print or leave processes"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO

BUILD_SECONDS = 120.0
"""The longest time that an environment may take to be built; a start has as much for it."""
GRACE_SECONDS = 10.0
"""For what a check is at when its time is over, such as a slow step."""
_END_SECONDS = 2.0
"""For what is left after the process: its end, and what it has written before."""
_LAST_LINES = 3
_LAST = ('{"end"', '{"error"')
"""How the last line of a check begins."""
_CALL_BYTES = 96


@dataclass(frozen=True)
class Record:
    """What a check has told when it ended, or was ended.

    Attributes:
        lines: that it has written, see `nitro_actor.check.findings`.
        died: how its process ended in the midst of the check; empty where it did not.
        call: of the environment, or of a checker, that had not returned when the process was ended; empty
            where there was none.
        seconds: that this call had taken until then.
    """

    lines: list[str]
    died: str = ""
    call: str = ""
    seconds: float = 0.0


class Calls:
    """The call in which a check is, in a file that the parent process reads when the check hangs in it.

    Args:
        file: descriptor; None where nobody reads.
    """

    def __init__(self, file: int | None) -> None:
        self._file = file

    @contextlib.contextmanager
    def during(self, name: str) -> Iterator[None]:
        """Tell that the block is this call, as a sentence names it."""
        self._write(f"{time.monotonic():.3f} {name}")
        try:
            yield
        finally:
            self._write("")

    def _write(self, text: str) -> None:
        if self._file is not None:
            os.pwrite(self._file, text.ljust(_CALL_BYTES).encode(), 0)


class CheckProcess:
    """A running check.

    Args:
        settings: of the environment, as `EnvironmentConfig.from_json` takes them.
        seconds: that it may take, once the environment is built.
    """

    def __init__(self, settings: str, seconds: float, variables: Mapping[str, str]) -> None:
        self._seconds = seconds
        self._lines: list[str] = []
        self._closed = False
        self._last_output: deque[str] = deque(maxlen=_LAST_LINES)
        self._built, self._ended = threading.Event(), threading.Event()
        self._call = tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes it
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "nitro_actor.check", str(seconds), str(self._call.fileno())],
                # An environment that computes on a GPU must leave room for the actors' copies.
                env={"XLA_PYTHON_CLIENT_PREALLOCATE": "false", **variables, "NITRO_ENVIRONMENT": settings},
                stdin=subprocess.PIPE,  # its end tells the process that this one has ended
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,  # Ctrl-C is for the training
                pass_fds=[self._call.fileno()],
            )
        except BaseException:
            self._call.close()
            raise
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._threads = [
            threading.Thread(target=self._read, args=[self._process.stdout], daemon=True),
            threading.Thread(target=self._hear, args=[self._process.stderr], daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        """The number of its process."""
        return self._process.pid

    def record(self, seconds: float) -> Record:
        """What it has told: at its end, or after so many seconds, when it is ended."""
        if not self._ended.wait(seconds):
            call, taken = self._standing()
            self.close()
            return Record(list(self._lines), call=call, seconds=taken)
        with contextlib.suppress(subprocess.TimeoutExpired):  # its last line is written, so it may be ended
            self._process.wait(_END_SECONDS)
        code = self._process.poll()
        self.close()
        end = time.monotonic() + _END_SECONDS
        for thread in self._threads:  # a process that the environment has started may hold its output
            thread.join(max(0.0, end - time.monotonic()))
        if any(line.startswith(_LAST) for line in self._lines):
            return Record(list(self._lines))
        last = "; ".join(line.strip() for line in self._last_output)
        return Record(
            list(self._lines), f"its process ended with code {code}" + (f": {last}" if last else "")
        )

    def final_record(self) -> Record:
        """What it has told, once it had all of its time."""
        if not self._built.wait(BUILD_SECONDS):
            self.close()
            return Record([json.dumps({"error": f"it is not built within {BUILD_SECONDS:g} s"})])
        return self.record(self._seconds + GRACE_SECONDS)

    def close(self) -> None:
        """End the process, with those that the environment has started."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):  # a device may hold it in the kernel
            self._process.wait(_END_SECONDS)
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._call.close()

    def _standing(self) -> tuple[str, float]:
        """The call that has not returned, and the seconds since it began."""
        since, _, name = os.pread(self._call.fileno(), _CALL_BYTES, 0).decode().strip().partition(" ")
        return (name, time.monotonic() - float(since)) if name else ("", 0.0)

    def _read(self, out: IO[str]) -> None:
        with out:
            for line in out:
                self._lines.append(line)
                self._built.set()
                if line.startswith(_LAST):  # a process that the environment forked may hold the output longer
                    self._ended.set()
        self._built.set()
        self._ended.set()

    def _hear(self, errors: IO[str]) -> None:
        with errors:
            self._last_output.extend(errors)
