"""One session of a run in its folder: build the trainer and its listeners, handle signals, write the summary
and the picture.
"""

import asyncio
import contextlib
import logging
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from nitro_api.costs.pod_prices import pod_vcpu
from nitro_api.costs.pod_use import PodUse
from nitro_api.spec.stop import Stop
from nitro_learner.backends.base import ActorBackend
from nitro_learner.run import logs
from nitro_learner.run.check_listener import Check, CheckListener
from nitro_learner.run.checking.report import Report
from nitro_learner.run.policy_files import PolicyFiles
from nitro_learner.run.recorders import CsvMetrics, TensorBoard
from nitro_learner.run.rundir import RunDirError
from nitro_learner.run.runs import OpenRun, open_ledger, package_versions, summary
from nitro_learner.run.tracking.listener import Trackers
from nitro_learner.training import failures
from nitro_learner.training.costs import Meter
from nitro_learner.training.drafting import columns_of
from nitro_learner.training.round_report import Listener, Outcome, RoundReport, Row
from nitro_learner.training.trainer import Trainer

logger = logging.getLogger(__name__)


class Aborted(Exception):  # noqa: N818
    """A second signal came, and the run was stopped at once."""


class _LastRow(Listener):
    """A listener that keeps the newest row of metrics, for the summary. A session that ends before it has
    started leaves the row of the session before."""

    def __init__(self, history: Sequence[Row]) -> None:
        self.row: dict[str, Any] | None = dict(history[-1]) if history else None

    def on_round_done(self, report: RoundReport) -> None:
        self.row = report.row()


async def train(
    run: OpenRun,
    backend: ActorBackend,
    listeners: Sequence[Listener] = (),
    *,
    draw: Callable[[list[Path], Path], object],
    on_interrupt: Callable[[], None] = lambda: None,
    controlled: Callable[[Trainer], None] = lambda _: None,
    pods: Callable[[], PodUse | None] | None = None,
    drain: Callable[[], PodUse | None] = lambda: None,
    provisioned: Callable[[], int] = lambda: 0,
    limits: Callable[[], Stop | None] = lambda: None,
    check: Check | None = None,
    checked: Callable[[Report], None] = lambda _: None,
) -> tuple[Outcome, dict[str, Any]]:
    """Train in an open run folder until the end or an interruption, and return the outcome with its
    summary.

    `draw` takes run folders and a path, and draws their picture to that path. `limits` returns spec.stop as
    it is now, which may have changed since the run began. The first SIGINT or SIGTERM stops the run after a
    checkpoint, and `on_interrupt` is called. The second stops it at once.
    `controlled` gets the trainer before it begins, which can end or interrupt the run.
    `check` is told and ended here; `checked` gets what it has found.

    Raises:
        TrainingFailed, Aborted, OSError
        RunDirError: the folder's ledger cannot be read.
    """
    folder = run.folder
    # The CSV first: what a checkpoint or the status says is then on disk already.
    last, board = _LastRow(run.history), TensorBoard(folder.tensorboard)
    files: list[Listener] = [CsvMetrics(folder.metrics, columns_of(run.job.spec))]
    if run.job.spec.algorithm.record.agents == "several":
        files.append(PolicyFiles(folder))
    trackers = Trackers(run.job.spec, folder.path, run.id, package_versions(), listeners)
    new = run.checkpoint is None and run.source is None
    checking = CheckListener(check, run.job.spec, new=new, told=checked)
    async with trackers:
        with (
            failures.as_training_failure(),
            logs.to_file(folder.log),
            contextlib.closing(board),
            open_ledger(folder) as ledger,
        ):
            trainer = Trainer(
                run,
                backend,
                Meter(
                    ledger,
                    run.job.spec.pricing,
                    pods,
                    provisioned,
                    drain,
                    pod_vcpu(run.job.spec.actor),
                    run.job.metadata.uid,
                ),
                listeners=[*files, *listeners, board, last, trackers, checking],
                limits=limits,
            )
            controlled(trainer)
            checking.environment = lambda: trainer.environment
            async with checking:
                with signals(trainer.interrupt, on_interrupt):
                    try:
                        outcome = await trainer.run()
                    except asyncio.CancelledError:
                        raise Aborted from None
            result = summary(run, outcome, last.row)
            folder.write_summary(result)
            with _harmless(f"The picture {folder.plot} could not be drawn"), contextlib.suppress(RunDirError):
                await asyncio.to_thread(draw, [folder.path], folder.plot)
            with signals(trackers.leave, lambda: None), _harmless("The trackers lack the end of the run"):
                await trackers.end(outcome)
    return outcome, result


@contextlib.contextmanager
def _harmless(what: str) -> Iterator[None]:
    """Have an error of the block be a warning that begins with `what`."""
    try:
        yield
    except Exception as error:  # of a library; the run itself is on the disk
        why = (error.strerror if isinstance(error, OSError) else None) or f"{type(error).__name__}: {error}"
        logger.warning("%s: %s", what, why, extra={"fields": {"traceback": traceback.format_exc()}})


@contextlib.contextmanager
def signals(interrupt: Callable[[], None], on_first: Callable[[], None]) -> Iterator[None]:
    """SIGINT and SIGTERM: once = interrupt, twice = cancel this task, three times = leave at once.

    In a thread they have no effect here: Python gives signals to the main thread only.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None
    count = 0

    def handle() -> None:
        nonlocal count
        count += 1
        if count == 1:
            interrupt()
            with contextlib.suppress(OSError):  # nobody may read what it prints
                on_first()
        elif count == 2:
            task.cancel()
        else:
            os._exit(130)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, handle)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
