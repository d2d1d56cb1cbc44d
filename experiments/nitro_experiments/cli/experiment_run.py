"""What `nitro experiment run` does: train the runs, or search and then compare, and write the report."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import shlex
import signal
import sys
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from nitro_api import JobInvalid
from nitro_experiments.planning.plan import PlannedRun, plan
from nitro_experiments.planning.spec import Experiment
from nitro_experiments.reading.folder import ExperimentDir, machine
from nitro_experiments.running import progress
from nitro_experiments.running.local_runs import LocalRuns
from nitro_experiments.running.places import Place
from nitro_experiments.running.runner import Runner, Watcher, follow
from nitro_experiments.search import comparison
from nitro_experiments.search.search_progress import SearchProgress
from nitro_experiments.search.searcher import Searcher, SearchFailed
from nitro_experiments.search.study import SearchStudy
from nitro_learner.backends.base import BackendError
from nitro_learner.cli import interrupts
from nitro_learner.cli.common import cluster_asked, refused, writing
from nitro_learner.cli.exits import ABORTED, DONE, FAILED, INTERRUPTED, CommandError
from nitro_learner.run.rundir import OtherJob, RunDir

if TYPE_CHECKING:
    from nitro_learner.cluster.jobs import NamespaceJobs

_GOES_ON = "The same command goes on."
_JOBS_OF_A_CLUSTER = 4
"""Runs at a time on a cluster."""


class _Interruptible(Protocol):
    @property
    def interrupted(self) -> bool: ...

    def interrupt(self) -> None: ...


def run_experiment(arguments: argparse.Namespace, experiment: Experiment, runs: Sequence[PlannedRun]) -> int:
    """Run an experiment in its folder.

    Raises:
        CommandError: it cannot be run, or some of its runs failed.
    """
    folder = ExperimentDir(arguments.dir or Path("runs") / experiment.name)
    interrupts.orderly()
    jobs = _jobs_of_cluster(arguments, experiment) if arguments.cluster else None
    try:
        folder.check_ours()
        with contextlib.ExitStack() as stack:
            with writing("--dir", folder.path, "Name a folder that you may write to."):
                stack.enter_context(RunDir(folder.path).locked())
            session = _Session(arguments, folder, jobs)
            if experiment.search:
                return session.search(experiment)
            return session.compare(experiment, runs)
    except OtherJob as error:
        raise CommandError(f"{error}\nTo train the changed job, name another folder by --dir.") from None
    except BackendError as error:
        raise CommandError(str(error), FAILED) from None
    except SearchFailed as error:
        again = "The same command tries it again, and goes on with the search."
        raise CommandError(f"The search has stopped. {error}\n{again}", FAILED) from None
    except OSError as error:
        raise CommandError(f"{error.filename or folder.path}: {error.strerror}", FAILED) from None


def _jobs_of_cluster(arguments: argparse.Namespace, experiment: Experiment) -> NamespaceJobs:
    """The jobs of the namespace.

    Raises:
        CommandError: the cluster does not list them, or the experiment's jobs cannot run on a cluster.
    """
    from nitro_experiments.running.on_cluster import cluster_runs
    from nitro_learner.cluster.jobs import NamespaceJobs

    if not (experiment.variants or experiment.search):
        raise CommandError(f"--cluster: {arguments.spec} has no runs, only commands; leave --cluster out")
    try:
        cluster_runs.check(experiment)
    except JobInvalid as error:
        raise refused(f"{arguments.spec} cannot run on a cluster:", error) from None
    with cluster_asked():
        jobs = NamespaceJobs(arguments.namespace)
        jobs.list()
    return jobs


class _Session:
    """One call of the command."""

    def __init__(
        self, arguments: argparse.Namespace, folder: ExperimentDir, jobs: NamespaceJobs | None
    ) -> None:
        self._json: bool = arguments.json
        self._at_a_time: int = arguments.jobs or (_JOBS_OF_A_CLUSTER if jobs else machine()["cores"])
        self._folder = folder
        self._jobs = jobs

    def compare(self, experiment: Experiment, runs: Sequence[PlannedRun]) -> int:
        """Train the variants' runs, and report."""
        # The runner first: it refuses runs of other jobs, and what is refused must not change the folder.
        runner = self._runner(experiment, runs) if runs else None
        self._open(experiment)
        code = asyncio.run(self._train(runner, experiment)) if runner else DONE
        return code or self._finish(experiment)

    def search(self, experiment: Experiment) -> int:
        """Train the trials, then the best one's settings and the job's own over the seeds, and report."""
        study = comparison.open_study(self._folder, experiment) if self._folder.search.exists() else None
        self._open(experiment)
        study = study or comparison.open_study(self._folder, experiment)
        searcher = Searcher(self._folder, experiment, study, self._place(experiment), jobs=self._at_a_time)
        if code := asyncio.run(self._try(searcher, study, experiment)):
            return code
        compared = comparison.compared(experiment, study)
        if compared is not None:
            runner = self._runner(compared, plan(compared))
            if code := asyncio.run(self._train(runner, compared)):
                return code
        return self._finish(experiment)

    def _runner(self, experiment: Experiment, runs: Sequence[PlannedRun]) -> Runner:
        assert experiment.budget is not None
        return Runner(self._folder, runs, experiment.budget, self._place(experiment), jobs=self._at_a_time)

    def _open(self, experiment: Experiment) -> None:
        self._folder.open(experiment)
        self._folder.machines()  # a damaged list is found now, not after the first run

    def _place(self, experiment: Experiment) -> Place:
        if self._jobs is None:
            return LocalRuns(self._folder)
        from nitro_experiments.running.on_cluster.cluster_runs import ClusterRuns

        return ClusterRuns(self._folder, experiment, self._jobs)

    async def _try(self, searcher: Searcher, study: SearchStudy, experiment: Experiment) -> int:
        assert experiment.search is not None
        total, left = experiment.search.trials, searcher.left()
        self._announce(experiment, f"{total} trials, {max(0, left)} to do")
        searcher.ended = SearchProgress(study, total, as_json=self._json).ended
        await self._until_done(searcher, searcher.search())
        if searcher.interrupted:
            print(f"stopped. {_GOES_ON}", file=sys.stderr)
            return INTERRUPTED
        return DONE

    async def _train(self, runner: Runner, experiment: Experiment) -> int:
        left = sum(state.status == "waiting" for state in runner.states)
        self._announce(experiment, f"{len(runner.states)} runs, {left} to do")
        with contextlib.ExitStack() as stack:
            runner.watcher = self._watcher(runner, stack) if left else Watcher()
            await self._until_done(runner, runner.train())
        if runner.interrupted:
            print(f"stopped. {_GOES_ON}", file=sys.stderr)
            return INTERRUPTED
        failed = [state for state in runner.states if state.status == "failed"]
        if failed:
            messages = "\n".join(f"{state.run.label}: {state.message}" for state in failed[:3])
            more = f"\nand {len(failed) - 3} more" if len(failed) > 3 else ""
            report = f"nitro experiment report {shlex.quote(str(self._folder.path))}"
            rest = f"The same command tries them again. Without them: {report}"
            raise CommandError(
                f"{len(failed)} of {len(runner.states)} runs failed.\n{messages}{more}\n{rest}", FAILED
            )
        return DONE

    def _announce(self, experiment: Experiment, count: str) -> None:
        if self._json:
            return
        shows = f": {experiment.figure}" if experiment.figure else ""
        takes = f", about {experiment.core_hours:g} core-hours in all" if experiment.core_hours else ""
        where = f"\n{self._jobs_line(experiment)}" if self._jobs else ""
        print(f"{experiment.name}{shows}\n{count}{takes}\nfolder: {self._folder.path}{where}", flush=True)

    def _jobs_line(self, experiment: Experiment) -> str:
        from nitro_experiments.running.on_cluster.manifests import LABEL

        assert self._jobs is not None
        return f"jobs: kubectl get ntj --namespace {self._jobs.namespace} -l {LABEL}={experiment.name}"

    def _watcher(self, runner: Runner, stack: contextlib.ExitStack) -> Watcher:
        if self._json:
            return progress.ProgressJson(runner.states)
        if sys.stdout.isatty():
            return stack.enter_context(progress.ProgressTable(runner.states))
        return progress.ProgressLines(runner.states)

    async def _until_done(self, work: _Interruptible, done: Coroutine[None, None, None]) -> None:
        """Await it. SIGINT and SIGTERM: once = stop after checkpoints, twice = break off."""
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def handle() -> None:
            if work.interrupted:
                task.cancel()
            else:
                print("stopping after checkpoints; once more aborts", file=sys.stderr)
                work.interrupt()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, handle)
        try:
            await done
        except asyncio.CancelledError:
            raise CommandError(f"aborted. {_GOES_ON}", ABORTED) from None

    def _finish(self, experiment: Experiment) -> int:
        """The report, and then what the experiment's commands make."""
        if experiment.variants or experiment.search:
            comparison.report(self._folder, experiment)
            print(f"report: {self._folder.report}", file=sys.stderr)
        failed = asyncio.run(follow(experiment.commands, self._folder)) if experiment.commands else None
        if failed:
            raise CommandError(f"this command failed: {failed}", FAILED)
        return DONE
