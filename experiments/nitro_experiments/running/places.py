"""Where an experiment's runs are trained: this machine's processes, or a cluster's jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from nitro_experiments.planning.plan import PlannedRun
from nitro_experiments.reading.curves import read
from nitro_experiments.reading.folder import ExperimentDir
from nitro_learner.run.rundir import RunDirError

Columns = Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True)
class Ending:
    """How a sitting of a run ended.

    Attributes:
        status: `done`, `failed`, or `stopped` (it can go on).
        message: why it failed.
        again: whether a failed run may go on when the same is tried again: the disk was full, say.
    """

    status: str
    message: str = ""
    again: bool = False


class Place(Protocol):
    """What trains runs. Use as an asynchronous context manager."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...

    async def train(self, run: PlannedRun, advanced: Callable[[], None], *stops: asyncio.Event) -> Ending:
        """Begin a run whose folder is prepared, or go on with it, until it ends.

        Args:
            run: what to train. It has not ended yet.
            advanced: called after each round.
            stops: when one of them is set, the run stops after a checkpoint.

        Raises:
            BackendError: no run can be trained here.
            OSError: the run's folder cannot be written.
        """

    def columns(self, run: PlannedRun) -> Columns | None:
        """The columns of metrics.csv of the run's rounds so far; None before the first round."""

    async def discard(self, run: PlannedRun) -> None:
        """Remove what a run that will not go on holds outside of its folder.

        Raises:
            BackendError: it cannot be removed.
        """


def columns_in(folder: ExperimentDir, run: PlannedRun) -> Columns | None:
    """The columns of the metrics.csv in the run's folder; None where there is no round in it."""
    try:
        return read(folder.run(run), run.job).columns
    except RunDirError:
        return None
