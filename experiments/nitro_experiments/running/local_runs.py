"""Runs as `nitro train` processes on this machine, forked from one that has imported what trains."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from nitro_experiments.planning.plan import PlannedRun
from nitro_experiments.reading.folder import ExperimentDir, machine
from nitro_experiments.running.places import Columns, Ending, columns_in
from nitro_learner.backends.processes import ChildProcess, ProcessGroup
from nitro_learner.training.waiting import Interrupted, unless

_CLIENT = Path(__file__).with_name("fork_client.py")
_VARIABLES = {"OMP_NUM_THREADS": "1"}
_START_SECONDS = 60.0
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
        self._forks: Path | None = None
        self._forking: ChildProcess | None = None
        self._starting = asyncio.Lock()

    async def __aenter__(self) -> Self:
        await self._group.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._group.close()

    async def train(self, run: PlannedRun, advanced: Callable[[], None], *stops: asyncio.Event) -> Ending:
        def on_line(line: str) -> None:
            event: Any = None
            with contextlib.suppress(ValueError):
                event = json.loads(line)
            if isinstance(event, dict) and event.get("event") == "round":
                advanced()

        folder = self._folder.run(run)
        self._folder.add_machine(machine(run.job.spec.learner.device))
        command = await self._command("train", "--resume", str(folder.path), "--json")
        child = await self._group.spawn(run.label, command, _VARIABLES, on_line)
        code = await _end(child, stops)
        if code == 0:
            return Ending("done")
        if code in _STOPPED and any(stop.is_set() for stop in stops):
            return Ending("stopped")
        again = f"nitro train --resume {shlex.quote(str(folder.path))}"
        message = f"exit code {code}{child.last_output()}\n  alone: {again}"
        return Ending("failed", message, again=code == _RESUMABLE)

    async def _command(self, *words: str) -> list[str]:
        """What runs `nitro` with these words, as a fork of a process that has imported what trains.

        Raises:
            BackendError: that process does not start.
        """
        if sys.platform == "darwin":  # whose system libraries do not work on in a fork
            return [sys.executable, "-m", "nitro_learner", *words]
        async with self._starting:
            if self._forking is None or not self._forking.alive:
                await self._start_forking()
        return [sys.executable, "-I", "-S", str(_CLIENT), str(self._forks), *words]

    async def _start_forking(self) -> None:
        ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def on_line(line: str) -> None:
            if line == "ready" and not ready.done():
                ready.set_result(None)

        self._forks = self._group.directory / f"forks-{secrets.token_hex(4)}"
        command = [sys.executable, "-m", "nitro_experiments.running.forks", str(self._forks)]
        self._forking = await self._group.spawn("the process that starts runs", command, _VARIABLES, on_line)
        await self._forking.until(ready, _START_SECONDS)

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
