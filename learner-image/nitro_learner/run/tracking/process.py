"""The process of one tracker, as the learner sees it."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from nitro_api.spec.tracking import TRACKING_PREFIX

logger = logging.getLogger(__name__)

MOST_STARTS = 4
"""Of the process, in one sitting."""
_TITLES = {"wandb": "Weights & Biases", "mlflow": "MLflow"}
_LOGGED_EVERY = 10


class TrackerProcess:
    """A process that records a run in a tracker; see follower.py. A process that has died is started again
    after the next checkpoint.

    Args:
        tracker: its name.
        told: what the process is told of the run.
        on_failed: called with the tracker's name after each failure, in a thread of this object.

    Attributes:
        tracker: its name.
        title: the name that people know.
        recorded: newest round that the tracker has. W&B's library only takes it, and sends it later.
        failure: the newest failure, as a sentence; None once a round was recorded after it.
        finished: whether the tracker has the end of the run, too.
        ended: is done when the process has ended after `conclude`.
    """

    def __init__(self, tracker: str, told: Mapping[str, Any], on_failed: Callable[[str], None]) -> None:
        self.title = _TITLES[tracker]
        self.recorded = 0
        self.failure: str | None = None
        self.finished = False
        self.ended: Future[None] = Future()
        self.tracker = tracker
        self._told = told
        self._on_failed = on_failed
        self._process: subprocess.Popen[str] | None = None
        self._starts = self._failures = 0
        self._concluded = False
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the process, which takes milliseconds; it loads the tracker's library by itself."""
        self._starts += 1
        program = ("-P", "-m", "nitro_learner.run.tracking.follower", json.dumps(self._told))
        try:
            process = subprocess.Popen(
                [sys.executable, *program],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=_variables(),
                text=True,
                start_new_session=True,  # Ctrl-C is for the learner alone
            )
        except OSError as error:
            self._fail(f"its process could not be started: {error.strerror}")
            return
        assert process.stdin is not None
        # A process that reads nothing must not hold up the training.
        os.set_blocking(process.stdin.fileno(), False)
        self._process = process
        threading.Thread(target=self._listen, args=(process,), name=self.tracker, daemon=True).start()

    def tell(self, round: int) -> None:
        """Name the newest round that a checkpoint has."""
        if self._process is None and self._starts < MOST_STARTS:
            self.start()
        self._send(round=round)

    def conclude(self, status: str) -> None:
        """Have the process record the run's end, and then end itself."""
        with self._lock:
            if self._concluded:
                return
            self._concluded = True
            process = self._process
            if process is None:
                self.ended.set_result(None)
                return
        self._send(end=status)
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()

    def stop(self) -> None:
        """Kill the process if it still runs."""
        if (process := self._process) is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def _send(self, **what: Any) -> None:
        """Write a line; where the pipe is full or broken, a later line or the process' end says as much."""
        if (process := self._process) is not None:
            assert process.stdin is not None
            with contextlib.suppress(OSError, ValueError):
                os.write(process.stdin.fileno(), (json.dumps(what) + "\n").encode())

    def _listen(self, process: subprocess.Popen[str]) -> None:
        """Take in what the process says, until it ends."""
        assert process.stdout is not None
        failures = self._failures
        for line in process.stdout:
            said = json.loads(line)
            if "opened" in said:
                logger.info("%s records the run: %s", self.title, said["opened"])
            if "recorded" in said:
                self.recorded, self.failure = said["recorded"], None
            self.finished = self.finished or "finished" in said
            if "failed" in said:
                self._fail(said["failed"])
        code = process.wait()
        if code != 0 and self._failures == failures and not self._concluded:
            self._fail(f"its process ended with {code}")
        with self._lock:
            self._process = None
            if self._concluded:
                self.ended.set_result(None)

    def _fail(self, sentence: str) -> None:
        self.failure = sentence
        self._failures += 1
        if self._failures % _LOGGED_EVERY == 1:
            logger.warning(
                "%s could not record the run (%s). The training goes on, and it is tried again.",
                self.title,
                sentence,
                extra={"fields": {"tracker": self.tracker, "failures": self._failures}},
            )
        self._on_failed(self.tracker)


def _variables() -> dict[str, str]:
    """The variables of the process: without the learner's own passwords, and with the trackers' keys under
    the names that their libraries look for."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NITRO_")}
    keys = {
        name.removeprefix(TRACKING_PREFIX): value
        for name, value in os.environ.items()
        if name.startswith(TRACKING_PREFIX)
    }
    return kept | keys
