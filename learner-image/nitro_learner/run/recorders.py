"""Listeners that record every round in the run folder: metrics.csv and TensorBoard's events."""

import contextlib
import csv
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from nitro_learner.run.event_file import EventFile
from nitro_learner.run.metrics_file import read_rows
from nitro_learner.run.rundir import naming, write_text
from nitro_learner.training.round_report import COLUMNS, OF_UPDATES, STATISTICS, Listener, RoundReport, Row


class CsvMetrics(Listener):
    """metrics.csv, one row per round, flushed to disk with each so that a checkpoint never knows more than
    the CSV.
    """

    essential = True

    def __init__(self, path: Path, extra: Iterable[str] = ()) -> None:
        """`extra` are the columns that the job adds."""
        self.path = path
        self._columns = (*COLUMNS, *extra)

    def on_run_started(self, *, round: int, rounds: int | None, history: Sequence[Row]) -> None:  # noqa: ARG002
        """Drop rows after `round` (they will be made again) and a last line that was cut."""
        kept = [row for row in read_rows(self.path) if int(row["round"]) <= round]
        write_text(self.path, csv_lines(self._columns, kept, head=True))

    def on_round_done(self, report: RoundReport) -> None:
        append(self.path, csv_lines(self._columns, [report.row()]))


class TensorBoard(Listener):
    """TensorBoard scalars of every numeric column. Their step is the number of environment steps so far, as
    other libraries have it; the round is a scalar.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._file: EventFile | None = None

    def on_run_started(self, *, round: int, rounds: int | None, history: Sequence[Row]) -> None:  # noqa: ARG002
        self._file = EventFile(self.directory)
        # Tell TensorBoard to hide the points that an earlier session wrote for rounds that are done again. A
        # session that ended before its first checkpoint leaves such points, too.
        done = int(history[-1]["env_steps"] or 0) if history else 0
        self._file.session_begins(done + 1)

    def on_round_done(self, report: RoundReport) -> None:
        if self._file is None:  # it could not be made, which was told
            return
        values = {
            tag(name): float(value)
            for name, value in report.row().items()
            if name != "env_steps" and value is not None
        }
        self._file.scalars(report.env_steps, values)

    def close(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):  # each round was flushed, and told if that failed
                self._file.close()


def tag(column: str) -> str:
    """TensorBoard's name of a column: seconds_update becomes seconds/update, so that a group folds."""
    for group in ("seconds", "cost", "reward", "evaluation", "episode", "info"):
        if column.startswith(f"{group}_"):
            return f"{group}/{column.removeprefix(f'{group}_')}"
    if column in OF_UPDATES:
        return f"update/{column}"
    if column in ("actors", "next_actors", "boosting_score", *STATISTICS):
        return f"scaling/{column}"
    return f"run/{column}"


def append(path: Path, text: str) -> None:
    """Append whole lines to a file and wait until they are on the disk."""
    with naming(path), path.open("a", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def csv_lines(columns: Sequence[str], rows: Iterable[Mapping[str, Any]], *, head: bool = False) -> str:
    """Rows as lines of a CSV file; cells of other columns are left out, and missing ones are empty."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    if head:
        writer.writerow(columns)
    writer.writerows([_cell(row.get(name)) for name in columns] for row in rows)
    return buffer.getvalue()


def _cell(value: str | float | None) -> str | int:
    """A value as the cell of a CSV file; None is an empty one."""
    if value is None:
        return ""
    # repr: the shortest text that reads back as the same number.
    return repr(float(value)) if isinstance(value, float) else value
