"""Training of a search's trials, some at a time.

Everything that matters is in the study and the run folders. A trial that was interrupted goes on when the
same command is given again: it is neither lost nor proposed twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import numpy as np

from nitro_api import JobInvalid
from nitro_experiments.planning.plan import PlannedRun
from nitro_experiments.planning.spec import Experiment
from nitro_experiments.reading.folder import ExperimentDir
from nitro_experiments.running.places import Ending, Place
from nitro_experiments.search import scores
from nitro_experiments.search.study import STEPS, SearchStudy, Trial
from nitro_experiments.search.trials import own_settings, trial_runs


class SearchFailed(Exception):  # noqa: N818
    """No trial can be trained; the message says why."""


class Searcher:
    """Train the trials that are missing.

        searcher = Searcher(folder, experiment, study, LocalRuns(folder), jobs=2)
        searcher.ended = lambda trial: print(trial.number, trial.score)
        loop.add_signal_handler(signal.SIGINT, searcher.interrupt)
        await searcher.search()

    Args:
        place: what trains the trials' runs.
        jobs: trials at a time. With several of them a proposal knows fewer results.

    Attributes:
        ended: called with each trial that has ended.
    """

    def __init__(
        self,
        folder: ExperimentDir,
        experiment: Experiment,
        study: SearchStudy,
        place: Place,
        *,
        jobs: int,
    ) -> None:
        assert experiment.search is not None
        self._folder = folder
        self._experiment = experiment
        self._search = experiment.search
        self._study = study
        self._place = place
        self._jobs = jobs
        self._stop = asyncio.Event()
        self._begun: set[int] = set()
        self.ended: Callable[[Trial], None] = lambda _: None
        if settings := own_settings(experiment):
            study.begin_with(settings)

    def left(self) -> int:
        """Trials that have not ended."""
        return self._search.trials - sum(trial.state != "running" for trial in self._study.trials())

    def interrupt(self) -> None:
        """Stop all trials after a checkpoint."""
        self._stop.set()

    @property
    def interrupted(self) -> bool:
        return self._stop.is_set()

    async def search(self) -> None:
        """Train until all trials have ended, or until `interrupt` is called.

        Raises:
            SearchFailed: a trial failed in a way that others would, too, or may go on when it is tried again.
            BackendError: no run can be trained.
            OSError: a folder cannot be written, or `ended` raised it.
        """
        async with self._place:
            try:
                async with asyncio.TaskGroup() as tasks:
                    for _ in range(self._jobs):
                        tasks.create_task(self._work())
            except BaseExceptionGroup as failures:
                raise failures.exceptions[0] from None

    async def _work(self) -> None:
        while not self._stop.is_set() and (trial := self._next()):
            try:
                runs = trial_runs(self._experiment, trial.number, trial.settings)
            except JobInvalid as error:
                self._end(trial, "failed", message=f"not a valid job: {error.errors[0]}")
                continue
            await self._train(trial, runs)

    def _next(self) -> Trial | None:
        """A trial that was interrupted, else a new one; None when all have begun."""
        trials = self._study.trials()
        for trial in trials:
            if trial.state == "running" and trial.number not in self._begun:
                break
        else:
            if len(trials) >= self._search.trials:
                return None
            trial = self._study.ask()
        self._begun.add(trial.number)
        return trial

    async def _train(self, trial: Trial, runs: Sequence[PlannedRun]) -> None:
        """Train a trial's runs one after the other, and note what it came to."""
        scored: list[float] = []
        for run in runs:
            pruned = asyncio.Event()
            if scored and self._study.report(trial, STEPS * len(scored), float(np.mean(scored))):
                pruned.set()
            ending = await self._train_run(trial, run, scored, pruned)
            if pruned.is_set():
                await self._place.discard(run)
                self._end(trial, "pruned", runs)
                return
            if ending.status == "failed":
                message = f"{run.label}: {ending.message}"
                self._check_settings_fault(runs, message, again=ending.again)
                await self._place.discard(run)
                self._end(trial, "failed", runs, message=message)
            if ending.status != "done":
                return
            columns, summary = self._place.columns(run), self._folder.run(run).read_summary()
            score = scores.at_budget(self._experiment, columns, summary) if columns else None
            if score is None:
                message = f"{run.label} has no {self._experiment.score} at the budget"
                self._end(trial, "failed", runs, message=message)
                return
            scored.append(score)
        self._end(trial, "complete", runs, score=float(np.mean(scored)))

    async def _train_run(
        self, trial: Trial, run: PlannedRun, scored: Sequence[float], pruned: asyncio.Event
    ) -> Ending:
        """Train one of a trial's runs, after others with the scores `scored`, until it ends or is pruned."""

        def look() -> None:
            columns = self._place.columns(run)
            for step, score in scores.steps_reached(self._experiment, columns) if columns else ():
                mean = float(np.mean([*scored, score]))
                if not pruned.is_set() and self._study.report(trial, STEPS * len(scored) + step, mean):
                    pruned.set()

        look()  # an earlier sitting may have ended before its last rounds were looked at
        if self._folder.finished(run):
            return Ending("done")
        if pruned.is_set():
            return Ending("stopped")
        self._folder.prepare(run)
        ending = await self._place.train(run, look, pruned, self._stop)
        look()
        return ending

    def _check_settings_fault(self, runs: Sequence[PlannedRun], message: str, *, again: bool) -> None:
        """Check that a failure may be the settings' fault: a learning rate at which training diverges, say.

        Raises:
            SearchFailed: it has another cause. The search ends, and the trial stays as it is.
        """
        trained = any(self._place.columns(run) for run in runs) or any(
            trial.spent for trial in self._study.trials()
        )
        if again or not trained:
            raise SearchFailed(message)

    def _end(
        self,
        trial: Trial,
        state: str,
        runs: Sequence[PlannedRun] = (),
        *,
        score: float | None = None,
        message: str = "",
    ) -> None:
        spent = scores.spent([columns for run in runs if (columns := self._place.columns(run))])
        self._study.end(trial, state, score=score, spent=spent, message=message)
        (recorded,) = (candidate for candidate in self._study.trials() if candidate.number == trial.number)
        self.ended(recorded)
