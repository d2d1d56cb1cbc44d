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
        machines, seeds_told: see `ExperimentDir`.
    """

    runs: list[Reading]
    priced: list[tuple[PriceList, list[Reading]]]
    machines: list[dict[str, Any]]
    seeds_told: list[dict[str, Any]]


def read_all(folder: ExperimentDir, planned: Sequence[PlannedRun], prices: Sequence[PriceList]) -> Readings:
    """Read each file of the folder once.

    Raises:
        RunDirError: a folder holds a run of another job, or a file is damaged.
    """
    runs = [Reading(one, read(folder.run(one), one.job) if folder.finished(one) else None) for one in planned]

    def by(prices: PriceList, reading: Reading) -> Reading:
        one, run = reading.planned, reading.run
        return Reading(one, run and priced(run, folder.run(one), one.job, prices))

    by_list = [(one, [by(one, reading) for reading in runs]) for one in prices]
    return Readings(runs, by_list, folder.machines(), folder.seeds_told())
