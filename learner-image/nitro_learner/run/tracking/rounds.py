"""The rounds of a run, read from its growing files."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from nitro_learner.run import policy_files
from nitro_learner.run.recorders import tag
from nitro_learner.run.rundir import RunDir
from nitro_learner.run.tracking.base import MeasuredRound

_OF_POLICIES = tuple(name for name in policy_files.COLUMNS if name not in ("round", "policy", "agents"))


class Rounds:
    """Reads metrics.csv and policies.csv once, from their beginning, as far as it is told.

    Only rounds that a checkpoint has are asked for: their rows are whole, and no resume makes them again.
    """

    def __init__(self, folder: RunDir) -> None:
        self._metrics = _Rows(folder.metrics)
        self._policies = _Rows(folder.policies)

    def up_to(self, last: int, at: float) -> Iterator[MeasuredRound]:
        """The rounds up to `last` that were not returned yet, in order.

        `at` is the time at which `last` was done. Those before it were done earlier by the training time that
        lies between; time between two sittings of the run does not count.
        """
        rows = list(self._metrics.up_to(last))
        for row in rows:
            round = int(row["round"])
            values = {tag(name): float(value) for name, value in row.items() if name != "env_steps" and value}
            before = float(rows[-1]["wall_seconds"]) - float(row["wall_seconds"])
            for own in self._policies.up_to(round):
                measured = {name: float(own[name]) for name in _OF_POLICIES if own.get(name)}
                values |= {f"policy/{own['policy']}/{name}": value for name, value in measured.items()}
            yield MeasuredRound(round, int(row["env_steps"]), at - before, values)


class _Rows:
    """The rows of a CSV file that grows, each once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: TextIO | None = None
        self._head: list[str] = []

    def up_to(self, last: int) -> Iterator[dict[str, str]]:
        """The next rows, as far as their round is at most `last`. None where there is no file."""
        if self._file is None:
            if not self._path.exists():
                return
            self._file = self._path.open(encoding="utf-8")
            self._head = next(csv.reader([self._file.readline()]))
        while True:
            place = self._file.tell()
            line = self._file.readline()
            row = dict(zip(self._head, next(csv.reader([line]), ()), strict=False))
            if not line.endswith("\n") or int(row["round"]) > last:
                self._file.seek(place)
                return
            yield row
