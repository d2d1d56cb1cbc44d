"""The check of an environment in a process of its own, which can hang, crash, print and leave what it likes.

    check = EnvironmentCheck(spec.environment, seconds=1)       # at once, before anything slow is imported
    ...
    report = check.report(1)                                    # what it found; it is ended after a second

Its processor time is 0.04 (CartPole-v1), 0.06 (Hopper-v5) and 0.05 (ALE/Pong-v5) of that of a whole `nitro
train` with two rounds of 64 steps, which is nearly all its start; most of the check's time is imports.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping
from typing import IO

from nitro_api.spec.environment import Environment
from nitro_learner.checking.report import Report, read

BUILD_SECONDS = 120.0
"""The longest time that an environment may take to be built; a start has as much for it."""
START_SECONDS = 1.0
"""Beside a start: the time of the check itself, and the time that it has once the learner is ready."""
_GRACE_SECONDS = 10.0
"""For what a check is at when its time is over, such as a slow step."""
_LAST_LINES = 3
_LAST = ('{"end"', '{"error"')
"""How the last line of a check begins."""


class EnvironmentCheck:
    """A running check.

    Args:
        environment: of a job.
        seconds: that it may take, once the environment is built.
        inherited: the variables that its process has; all of this process by default.
    """

    def __init__(
        self, environment: Environment, seconds: float, *, inherited: Mapping[str, str] = os.environ
    ) -> None:
        self._seconds = seconds
        self._lines: list[str] = []
        self._closed = False
        self._words: deque[str] = deque(maxlen=_LAST_LINES)
        self._built, self._ended = threading.Event(), threading.Event()
        settings = json.dumps({**environment.to_actor(), "envs": 1})
        self._process = subprocess.Popen(
            [sys.executable, "-m", "nitro_actor.check", str(seconds)],
            # An environment that computes on a GPU must leave room for the actors' copies.
            env={"XLA_PYTHON_CLIENT_PREALLOCATE": "false", **inherited, "NITRO_ENVIRONMENT": settings},
            stdin=subprocess.PIPE,  # its end tells the process that this one has ended
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,  # Ctrl-C is for the training
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._threads = [
            threading.Thread(target=self._read, args=[self._process.stdout], daemon=True),
            threading.Thread(target=self._words.extend, args=[self._process.stderr], daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        """The number of its process."""
        return self._process.pid

    def report(self, seconds: float) -> Report:
        """What it has found: at its end, or after so many seconds, when it is ended."""
        ended = self._ended.wait(seconds)
        if not ended:
            self.close()
            return read(list(self._lines))
        code = self._process.wait()
        self.close()
        for thread in self._threads:  # a process that the environment has started may hold its output
            thread.join(_GRACE_SECONDS)
        last = "; ".join(line.strip() for line in self._words)
        died = f"its process ended with code {code}" + (f": {last}" if last else "")
        report = read(list(self._lines), died)
        if not report.ended:
            report.unchecked = {}
            if report.environment is None:
                report.error = died
            else:
                report.faults.append(f"{died}, while it was checked")
        return report

    def whole(self) -> Report:
        """What it has found, once it had all of its time."""
        if not self._built.wait(BUILD_SECONDS):
            self.close()
            return Report(error=f"it is not built within {BUILD_SECONDS:g} s", ended=True)
        return self.report(self._seconds + _GRACE_SECONDS)

    def close(self) -> None:
        """End the process, with those that the environment has started."""
        if not self._closed:
            self._closed = True
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _read(self, out: IO[str]) -> None:
        for line in out:
            self._lines.append(line)
            self._built.set()
            if line.startswith(_LAST):  # a process that the environment forked may hold the output longer
                self._ended.set()
        self._built.set()
        self._ended.set()
