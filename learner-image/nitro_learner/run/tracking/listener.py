"""The learner's side of the trackers: a listener, and the process that it has for each of them."""

import asyncio
import contextlib
import json
import logging
import os
import platform
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Self

from nitro_api import JobSpec
from nitro_api.spec.tracking import TRACKING_PREFIX
from nitro_learner.run.tracking.availability import trackers_of
from nitro_learner.training.failures import TrainingFailed
from nitro_learner.training.listeners import Listeners
from nitro_learner.training.round_report import Listener, Outcome, Row

logger = logging.getLogger(__name__)

MOST_STARTS = 4
"""Of the process, in one sitting."""
_TITLES = {"wandb": "Weights & Biases", "mlflow": "MLflow"}
_LOGGED_EVERY = 10
FINISH_SECONDS = 60.0
"""How long a run that has finished waits for its trackers."""
STOP_SECONDS = 10.0
"""The same for a run that was interrupted, or failed."""


class TrackerProcess:
    """A process that records a run in a tracker; see follower.py. A process that has died is started again
    after the next checkpoint.

    Args:
        told: what the process is told of the run.
        on_failed: called with the tracker's name after each failure, in a thread of this object.

    Attributes:
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


class Trackers(Listener):
    """The trackers of one sitting of a run; none if the job names none.

    Nothing here waits for a tracker but `end`, and that not for long.
    """

    def __init__(
        self,
        spec: JobSpec,
        folder: Path,
        run: str,
        versions: Mapping[str, str],
        listeners: Sequence[Listener] = (),
    ) -> None:
        self._listeners = Listeners(listeners)
        self._folder = folder
        tags = {"environment": spec.environment.id or spec.environment.entry_point}
        tags |= {"algorithm": spec.algorithm.name, "python": platform.python_version(), **versions}
        told = {"folder": str(folder.absolute()), "run": run, "tags": tags}
        self._processes = [
            TrackerProcess(tracker, told | {"tracker": tracker}, self._failed)
            for tracker in trackers_of(spec)
        ]
        self._left = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._round = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Have the trackers record a failure. Whoever aborts a run does not wait for them."""
        if kind is not None:
            await self._conclude("FAILED", STOP_SECONDS if issubclass(kind, TrainingFailed) else 0.0)

    def on_run_started(self, *, round: int, rounds: int | None, history: Sequence[Row]) -> None:  # noqa: ARG002
        self._loop = asyncio.get_running_loop()
        self._round = round
        for process in self._processes:
            process.start()
            if round:
                process.tell(round)

    def on_checkpoint_saved(self, *, round: int, location: str) -> None:  # noqa: ARG002
        self._round = round
        for process in self._processes:
            process.tell(round)

    async def end(self, outcome: Outcome) -> None:
        """Have the trackers record the end of the run, and wait for them for a bounded time."""
        seconds = FINISH_SECONDS if outcome.finished else STOP_SECONDS
        await self._conclude("FINISHED" if outcome.finished else "KILLED", seconds)

    def leave(self) -> None:
        """Have `end` wait no longer."""
        self._left.set()

    async def _conclude(self, status: str, seconds: float) -> None:
        for process in self._processes:
            process.conclude(status)
        if not self._processes or not seconds:
            return
        ended = asyncio.gather(*(asyncio.wrap_future(process.ended) for process in self._processes))
        leaving = asyncio.ensure_future(self._left.wait())
        await asyncio.wait((ended, leaving), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        leaving.cancel()
        late = [process for process in self._processes if not process.ended.done()]
        for process in self._processes:
            process.stop()
        await asyncio.wait((ended,), timeout=1.0)
        for process in self._processes:
            if self._round and not process.finished:
                why = "its process ended"
                if process in late:
                    took = f"it took longer than {seconds:.0f} s"
                    why = "it was not waited for" if self._left.is_set() else took
                self._lost(process, process.failure or why)

    def _lost(self, process: TrackerProcess, why: str) -> None:
        """Warn of a tracker that has not said that it has the end of the run, and count that as a failure."""
        has, remedy = "has", "A resumed run records what is missing."
        if process.tracker == "wandb":
            has = "was given"  # what it was given waits in its files until its server has it
            if any((self._folder / "wandb").glob("*run-*")):
                files = f"{shlex.quote(str(self._folder / 'wandb'))}/*run-*"
                remedy += f" Or upload the rounds in W&B's files: wandb sync --include-online {files}"
        logger.warning(
            "%s lacks the end of the run (%s); it %s the rounds up to %d of %d. %s",
            process.title,
            why,
            has,
            process.recorded,
            self._round,
            remedy,
        )
        self._tell_failure(process.tracker)

    def _failed(self, tracker: str) -> None:
        """Tell the listeners in the learner's loop; a tracker's thread calls this."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._tell_failure, tracker)

    def _tell_failure(self, tracker: str) -> None:
        self._listeners.tell(lambda listener: listener.on_tracking_failed(tracker=tracker))
