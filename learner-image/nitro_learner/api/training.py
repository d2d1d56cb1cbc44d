"""Training from a script or a notebook."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nitro_api import NitroTrainingJob
from nitro_learner.api.run import Run
from nitro_learner.run.check_listener import begin_beside
from nitro_learner.run.rundir import RunDir
from nitro_learner.run.runs import OpenRun, open_run
from nitro_learner.run.session import Aborted
from nitro_learner.run.session import train as train_session
from nitro_learner.run.source import Start
from nitro_learner.run.views import plot
from nitro_learner.studies.resolved_job import BEGUN_HERE, backend_overrides, resolved_job
from nitro_learner.training.builder import make_backend
from nitro_learner.training.failures import TrainingFailed
from nitro_learner.training.round_report import Listener, RoundReport
from nitro_learner.training.stop import StopReason
from nitro_learner.training.trainer import Trainer

if TYPE_CHECKING:
    from nitro_learner.run.check_listener import EnvironmentCheck


def train(
    job: NitroTrainingJob | Mapping[str, Any] | str | Path,
    *,
    on_round: Callable[[RoundReport], object] | None = None,
    run_dir: str | Path | None = None,
    start: Run | str | Path | None = None,
    check: bool = True,
) -> Run:
    """Train a job on this machine with actors as local processes, whatever backend it names.

    Where an event loop runs already, as in Jupyter, the training has a thread of its own. This function
    returns when the run has ended, or was interrupted (Ctrl-C) and has saved a checkpoint. `resume` goes on
    with such a run.

    Args:
        job: a model, a mapping as in a job file, YAML text, or the path of a job file.
        on_round: called with the report of each round. It must return at once, and may be called in the
            thread of the training. If it returns False, the run ends as if a stop condition held, with its
            last evaluation. If it raises an error, the run is interrupted after a checkpoint, with summary
            and picture, and this function raises that error. KeyboardInterrupt aborts it at once.
        run_dir: a new or empty folder for the run; runs/NAME-DATE-TIME by default.
        start: a run with whose policies this one begins: a run or its folder, a checkpoint file of it, or
            s3://BUCKET/PREFIX/RUN. Weights, the optimisers' state and statistics are taken over, and all
            else begins anew. Networks, algorithm and spaces must be equal. None begins anew.
        check: whether the environment is checked beside the start; what is found is a warning.

    Raises:
        JobInvalid: lists every mistake in the job, or all in which `start` does not fit it.
        RunDirError: the folder holds something else.
        CheckpointError: the checkpoints of `start` are damaged, or its bucket cannot be read.
        TrainingFailed: actors, the environment or the disk failed. The run folder stays.
        Exception: what `on_round` raised.
        KeyboardInterrupt: the training was interrupted at once, without a checkpoint of its own. It always
            is where an event loop ran already.
    """
    source: Any = job.to_dict() if isinstance(job, NitroTrainingJob) else job
    if isinstance(source, Mapping):
        source = dict(source)
    begun = None if start is None else Start.given(start.path if isinstance(start, Run) else start, "start=")
    resolved = resolved_job(source, [*backend_overrides("Local"), *(BEGUN_HERE if begun else ())])
    if run_dir is not None:
        RunDir(Path(run_dir)).check_free()
    folder = RunDir(Path(run_dir)) if run_dir else RunDir.fresh(Path("runs"), resolved.metadata.name)
    with folder.locked():
        try:
            opened = open_run(folder, resolved, resume=False, start=begun)
            checking = begin_beside(resolved.spec) if check else None
            _finish(lambda: _session(opened, on_round, checking))
        except TrainingFailed:
            raise  # the log says where
        except BaseException:
            if not folder.has_run():
                folder.discard()
            raise
    return Run(folder.path)


def resume(
    run: Run | str | Path,
    *,
    rounds: int | None = None,
    on_round: Callable[[RoundReport], object] | None = None,
) -> Run:
    """Go on with a run from its last checkpoint, as `train` trains, and return it.

    Args:
        run: a run, or its folder. A run that has ended is returned as it is, unless `rounds` extends it.
        rounds: where to stop, in rounds from the run's beginning; what the run's job says by default.
        on_round: see `train`.

    Raises:
        JobInvalid: `rounds` is not allowed, or spec.learner.device is cuda and there is no GPU.
        RunDirError: the folder holds no run of nitro; or the learning rate falls to zero over the rounds, so
            that their number cannot change.
        CheckpointError: all checkpoints are damaged.
        TrainingFailed, KeyboardInterrupt: see `train`.
    """
    folder = RunDir(run.path if isinstance(run, Run) else Path(run))
    if folder.job.exists():
        folder.check_ours(f"nitro.train({str(folder.job)!r})")
    saved = folder.read_job()
    more = [] if rounds is None else [f"spec.stop.rounds={rounds}"]
    resolved = resolved_job(dict(saved), [*backend_overrides("Local"), *more], saved)
    with folder.locked():
        opened = open_run(folder, resolved, resume=True)
        if not opened.ended:
            _finish(lambda: _session(opened, on_round))
    return Run(folder.path)


class OnRound(Listener):
    """A listener that calls a function after each round, and ends the run if that asks for it.

    Attributes:
        error: what the function raised.
    """

    essential = True  # so its own handling of errors is the only one

    def __init__(self, function: Callable[[RoundReport], object]) -> None:
        self.error: Exception | None = None
        self._function = function
        self._trainer: Trainer | None = None

    def control(self, trainer: Trainer) -> None:
        """Take the trainer of the run."""
        self._trainer = trainer

    def on_round_done(self, report: RoundReport) -> None:
        assert self._trainer is not None
        if self.error is not None:
            return
        try:
            answer = self._function(report)
        except Exception as error:
            self.error = error
            self._trainer.interrupt(f"on_round raised {type(error).__name__}: {error}; interrupted")
            return
        if isinstance(answer, bool | np.bool_) and not answer:
            self._trainer.end(
                StopReason("CallbackStopped", f"on_round returned False after round {report.round}")
            )


async def _session(
    run: OpenRun, on_round: Callable[[RoundReport], object] | None, check: EnvironmentCheck | None = None
) -> None:
    backend = make_backend(run.job.spec, run.id, output=run.folder.actors)
    if on_round is None:
        await train_session(run, backend, draw=plot.draw, check=check)
        return
    callback = OnRound(on_round)
    await train_session(run, backend, [callback], draw=plot.draw, controlled=callback.control, check=check)
    if callback.error is not None:
        raise callback.error


def _finish(session: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a session to its end: here, or in a thread if an event loop runs here."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        try:
            asyncio.run(session())
        except Aborted:
            raise KeyboardInterrupt from None
        return
    begun: Future[asyncio.Task[None]] = Future()

    async def told() -> None:
        task = asyncio.current_task()
        assert task is not None
        begun.set_result(task)
        await session()

    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="nitro-train") as threads:
        ended = threads.submit(lambda: asyncio.run(told()))
        try:
            ended.result()
        except KeyboardInterrupt:
            task = begun.result()
            with contextlib.suppress(RuntimeError):  # it has just ended
                task.get_loop().call_soon_threadsafe(task.cancel)
            raise
