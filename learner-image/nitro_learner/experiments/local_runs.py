"""Runs as `nitro train` processes on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any, Self

from nitro_learner.backends.processes import ChildProcess, ProcessGroup
from nitro_learner.experiments.folder import ExperimentDir, machine
from nitro_learner.experiments.places import Columns, Ending, columns_in
from nitro_learner.experiments.plan import PlannedRun
from nitro_learner.training.waiting import Interrupted, unless

# A run that gets a signal to stop ends its update and writes a checkpoint.
_GRACE_SECONDS = 120.0
# Exit codes of a stopped run: after a checkpoint, before its first one, or when a checkpoint took too long.
_RESUMABLE = 75
_STOPPED = (_RESUMABLE, -signal.SIGTERM, -signal.SIGKILL)


class LocalRuns:
    """Processes of this machine. They end with this process, however that dies.

    Args:
        folder: of the experiment.
    """

    def __init__(self, folder: ExperimentDir) -> None:
        self._folder = folder
        self._group = ProcessGroup()

    async def __aenter__(self) -> Self:
        await self._group.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._group.close()

    async def train(self, run: PlannedRun, advanced: Callable[[], None], *stops: asyncio.Event) -> Ending:
        def heard(line: str) -> None:
            event: Any = None
            with contextlib.suppress(ValueError):
                event = json.loads(line)
            if isinstance(event, dict) and event.get("event") == "round":
                advanced()

        folder = self._folder.run(run)
        self._folder.add_machine(machine())
        child = await self._group.spawn(
            run.label,
            [sys.executable, "-m", "nitro_learner", "train", "--resume", str(folder.path), "--json"],
            {"OMP_NUM_THREADS": "1"},
            heard,
        )
        code = await _end(child, stops)
        if code == 0:
            return Ending("done")
        if code in _STOPPED and any(stop.is_set() for stop in stops):
            return Ending("stopped")
        again = f"nitro train --resume {shlex.quote(str(folder.path))}"
        message = f"exit code {code}{child.last_words()}\n  alone: {again}"
        return Ending("failed", message, again=code == _RESUMABLE)

    def columns(self, run: PlannedRun) -> Columns | None:
        return columns_in(self._folder, run)

    async def discard(self, run: PlannedRun) -> None:
        """Do nothing: a process that has ended leaves nothing."""


async def _end(child: ChildProcess, stops: Sequence[asyncio.Event]) -> int:
    """Wait for the child's end; stop it when one of the events is set. Return its exit code."""
    try:
        return await unless(child.wait(), *stops)
    except Interrupted:
        await child.stop(_GRACE_SECONDS)
        return await child.wait()
