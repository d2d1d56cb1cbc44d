"""The learner's side of the trackers: a listener that has a process for each of them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import platform
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from nitro_api import JobSpec
from nitro_learner.run.tracking.availability import trackers_of
from nitro_learner.run.tracking.process import TrackerProcess
from nitro_learner.training.failures import TrainingFailed
from nitro_learner.training.guarded import guarded
from nitro_learner.training.round_report import Listener, Outcome, Row

logger = logging.getLogger(__name__)

FINISH_SECONDS = 60.0
"""How long a run that has finished waits for its trackers."""
STOP_SECONDS = 10.0
"""The same for a run that was interrupted, or failed."""


class Trackers(Listener):
    """The trackers of one sitting of a run; none if the job names none.

    Nothing here waits for a tracker but `end`, and that not for long.

    Args:
        spec: of the resolved job.
        folder: of the run; the trackers read it.
        run: identity of the run.
        versions: of the packages that compute.
        listeners: are told of failures.
    """

    def __init__(
        self,
        spec: JobSpec,
        folder: Path,
        run: str,
        versions: Mapping[str, str],
        listeners: Sequence[Listener] = (),
    ) -> None:
        self._listeners = guarded(listeners)
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

    async def __aenter__(self) -> Trackers:
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
        for listener in self._listeners:
            listener.on_tracking_failed(tracker=process.tracker)

    def _failed(self, tracker: str) -> None:
        """Tell the listeners in the learner's loop; a tracker's thread calls this."""

        def tell() -> None:
            for listener in self._listeners:
                listener.on_tracking_failed(tracker=tracker)

        with contextlib.suppress(RuntimeError):  # the loop has ended
            if self._loop is not None:
                self._loop.call_soon_threadsafe(tell)
