"""Training of an experiment's runs, some at a time, in the place that is given.

Everything that matters is in the run folders. After a kill -9 the same command goes on where it was, and does
not repeat finished runs.
"""

from __future__ import annotations

import asyncio
import logging
import math
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nitro_experiments.planning.plan import PlannedRun
from nitro_experiments.planning.spec import Budget
from nitro_experiments.reading.curves import SPENT
from nitro_experiments.reading.folder import ExperimentDir
from nitro_experiments.running.places import Place
from nitro_learner.backends.processes import ProcessGroup
from nitro_learner.run.rundir import RunDirError

logger = logging.getLogger(__name__)


@dataclass
class RunState:
    """Where one run stands.

    Attributes:
        status: `waiting`, `running`, `done`, `failed` or `stopped` (it can go on).
        fraction: share of its budget that the run has spent, at most 1.
        score: newest mean return of the last 20 training episodes.
        message: why the run failed.
    """

    run: PlannedRun
    status: str = "waiting"
    round: int = 0
    fraction: float = 0.0
    score: float | None = None
    cost: float = 0.0
    message: str = ""


class Watcher:
    """Receive the runs' progress. By default the methods do nothing."""

    def changed(self, state: RunState) -> None:
        """Handle that a run started, ended or finished a round."""


class Runner:
    """Train runs.

        runner = Runner(folder, runs, budget, jobs=2)
        runner.watcher = ProgressLines(runner.states)
        loop.add_signal_handler(signal.SIGINT, runner.interrupt)
        await runner.train()

    Args:
        place: what trains the runs.
        jobs: number of runs that train at a time.

    Attributes:
        states: states of all runs, in the order of `runs`; runs that were done before are included.

    Raises:
        RunDirError: a folder holds a run of another job.
    """

    def __init__(
        self,
        folder: ExperimentDir,
        runs: Sequence[PlannedRun],
        budget: Budget,
        place: Place,
        *,
        jobs: int,
    ) -> None:
        self._folder = folder
        self._place = place
        self._budget = budget
        self._jobs = jobs
        self.watcher = Watcher()
        self._stop = asyncio.Event()
        self._warned = False
        self._ended = {run.folder: asyncio.Event() for run in runs}
        self._impossible: dict[tuple[str, str], str] = {}
        self.states = [RunState(run) for run in runs]
        for state in self.states:
            if folder.finished(state.run):
                state.status = "done"
                self._ended[state.run.folder].set()
            self._look(state)

    def interrupt(self) -> None:
        """Stop all runs after a checkpoint."""
        self._stop.set()

    @property
    def interrupted(self) -> bool:
        return self._stop.is_set()

    async def train(self) -> None:
        """Train until every run is done or has failed, or until `interrupt` is called.

        Raises:
            BackendError: no run can be trained.
            OSError: a run's folder cannot be written.
        """
        waiting = iter([state for state in self.states if state.status == "waiting"])
        async with self._place:
            try:
                async with asyncio.TaskGroup() as tasks:
                    for _ in range(self._jobs):
                        tasks.create_task(self._work(waiting))
            except BaseExceptionGroup as failures:
                raise failures.exceptions[0] from None

    async def _work(self, waiting: Any) -> None:
        for state in waiting:
            if self._stop.is_set():
                return
            failed = self._impossible.get((state.run.environment, state.run.variant))
            for source in state.run.sources if failed is None else ():
                failed = failed or await self._source_failed(source)
                if self._stop.is_set():
                    return
            if failed is None:
                await self._train(state)
            else:
                state.message = f"not tried, because {failed}"
                self._change(state, "failed")

    async def _source_failed(self, source: PlannedRun) -> str | None:
        """Wait until a source of a control has ended. Return a message where it has failed.

        The source has begun already, because it comes before its control.
        """
        await self._ended[source.folder].wait()
        (state,) = (state for state in self.states if state.run.folder == source.folder)
        return None if state.status == "done" else f"its source {source.label} has not ended"

    async def _train(self, state: RunState) -> None:
        try:
            self._folder.prepare(state.run)
        except RunDirError as error:
            if state.run.control is None:
                raise
            state.message = str(error)  # for example, its source has more rounds than a schedule can have
            self._change(state, "failed")
            return
        self._change(state, "running")

        def advanced() -> None:
            self._look(state)
            self._tell(state)

        ending = await self._place.train(state.run, advanced, self._stop)
        self._look(state)
        if ending.status == "failed":
            state.message = ending.message
            # An environment that cannot be built, an agent that is missing.
            if not state.round and not ending.again:
                why = f"{state.run.label} failed before its first round"
                self._impossible[state.run.environment, state.run.variant] = why
        self._change(state, ending.status)

    def _look(self, state: RunState) -> None:
        """Take over how far the run is."""
        columns = self._place.columns(state.run)
        if columns is None:
            return
        state.round = int(columns["round"][-1])
        state.fraction = min(1.0, float(columns[SPENT[self._budget.unit]][-1]) / self._budget.amount)
        state.cost = float(columns["cost_total"][-1])
        reward = float(columns["reward_mean"][-1])
        state.score = None if math.isnan(reward) else reward

    def _change(self, state: RunState, status: str) -> None:
        state.status = status
        if status != "running":
            self._ended[state.run.folder].set()
        self._tell(state)

    def _tell(self, state: RunState) -> None:
        try:
            self.watcher.changed(state)
        except Exception as error:  # raised here, it would end the reading of the child, which would hang
            if not self._warned:
                self._warned = True
                logger.warning("The progress cannot be shown (%r). The runs go on.", error)


async def follow(commands: Sequence[str], folder: ExperimentDir) -> str | None:
    """Run an experiment's commands one after the other, and show their output.

    Returns:
        The first command that failed; None where all succeeded.

    Raises:
        BackendError: a command cannot be started.
    """
    group = ProcessGroup()
    await group.start()
    try:
        for command in commands:
            program, *rest = shlex.split(command.replace("{dir}", shlex.quote(str(folder.path))))
            module = ["-m", "nitro_learner"] if program == "nitro" else []
            arguments = [sys.executable, *module, *rest]
            child = await group.spawn(command, arguments, {}, lambda line: print(line, flush=True))
            if await child.wait():
                return command
        return None
    finally:
        await group.close()
