"""All that a report reads of an experiment's folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nitro_experiments.planning.plan import PlannedRun
from nitro_experiments.reading.curves import FinishedRun, read
from nitro_experiments.reading.folder import ExperimentDir
from nitro_experiments.reading.price_list import PriceList
from nitro_experiments.reading.priced_runs import priced


@dataclass(frozen=True)
class Reading:
    """A planned run, and what it measured; None while it has not reached its budget."""

    planned: PlannedRun
    run: FinishedRun | None


@dataclass(frozen=True)
class Readings:
    """What was planned in a folder, and what is in it.

    Attributes:
        runs: all that were planned.
        priced: price lists, each with the same runs and what they would have cost by it.
        machines, seed_history: see `ExperimentDir`.
    """

    runs: list[Reading]
    priced: list[tuple[PriceList, list[Reading]]]
    machines: list[dict[str, Any]]
    seed_history: list[dict[str, Any]]


def read_all(folder: ExperimentDir, planned: Sequence[PlannedRun], prices: Sequence[PriceList]) -> Readings:
    """Read each file of the folder once.

    Raises:
        RunDirError: a folder holds a run of another job, or a file is damaged.
    """
    runs = [Reading(run, read(folder.run(run), run.job) if folder.finished(run) else None) for run in planned]

    def by(prices: PriceList, reading: Reading) -> Reading:
        of, run = reading.planned, reading.run
        return Reading(of, run and priced(run, folder.run(of), of.job, prices))

    by_list = [(price_list, [by(price_list, reading) for reading in runs]) for price_list in prices]
    return Readings(runs, by_list, folder.machines(), folder.seed_history())
