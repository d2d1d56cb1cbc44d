"""The run folder: job.yaml, metrics.csv, ledger.jsonl, log.jsonl, summary.json, result.png, checkpoints/ and
tensorboard/.
"""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from nitro_learner.report import COLUMNS, STATISTICS, Listener, RoundReport, Row

# Of every round; what else is measured depends on the job.
_ALWAYS = ("env_steps", "wall_seconds", "actors", "cost_total")


class RunDirError(Exception):
    """The run folder cannot be used; the message says why and what to do."""


class RunDirBusy(RunDirError):  # noqa: N818
    """Another learner is training in it."""


@contextmanager
def naming(what: Path | str) -> Iterator[None]:
    """Gives an OSError of the block the name of what is written there: that of a full disk has none."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(what)
        raise


class RunDir:
    """Paths of one run and what is written to them by hand.

    Args:
        path: the folder; `create` makes it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.job = path / "job.yaml"
        self.metrics = path / "metrics.csv"
        self.ledger = path / "ledger.jsonl"
        self.log = path / "log.jsonl"
        self.summary = path / "summary.json"
        self.plot = path / "result.png"
        self.checkpoints = path / "checkpoints"
        self.tensorboard = path / "tensorboard"

    @staticmethod
    def fresh(base: Path, name: str) -> RunDir:
        """A new folder base/NAME-DATE-TIME; a second run in the same second gets a suffix."""
        stem = f"{name}-{datetime.now():%Y%m%d-%H%M%S}"
        for suffix in ("", *(f"-{number}" for number in range(2, 100))):
            path = base / f"{stem}{suffix}"
            try:
                path.mkdir(parents=True)
            except FileExistsError:
                continue
            return RunDir(path)
        raise RunDirError(f"{base}: no free name for {stem}")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps a second learner out of the folder while the context is open; the lock goes with the process,
        however it dies.

        Raises:
            RunDirBusy: another learner holds it.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / ".lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RunDirBusy(
                    f"{self.path}: another nitro process is training in this folder. "
                    "Wait for it, or choose another folder."
                ) from None
            yield

    def has_run(self) -> bool:
        """Whether the folder holds anything of a run: a round, a checkpoint, or a cost. Without them it only
        knows a job, which failed before it began."""
        rows = self.metrics.read_bytes().splitlines()[1:] if self.metrics.exists() else []
        paid = self.ledger.exists() and self.ledger.stat().st_size > 0
        return bool(rows) or paid or any(self.checkpoints.glob("round-*.safetensors"))

    def write_text(self, path: Path, text: str) -> None:
        """Writes a small file atomically."""
        temporary = path.with_name(f".{path.name}.partial")
        with naming(path):
            temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)

    def read_job(self) -> dict[str, Any]:
        """What job.yaml says, as it stands there: environment, algorithm and scaling at least.

        Raises RunDirError where it is missing or damaged.
        """
        if not self.job.exists():
            raise RunDirError(f"{self.path}: no job.yaml in it, so it is no run folder.")
        try:
            found = yaml.safe_load(self.job.read_text(encoding="utf-8"))
        except (yaml.YAMLError, UnicodeDecodeError):
            found = None
        spec = found.get("spec") if isinstance(found, dict) else None
        if not isinstance(spec, dict) or not {"environment", "algorithm", "scaling"} <= spec.keys():
            raise RunDirError(f"{self.job} is damaged: it holds no job.")
        return dict(found)

    def read_summary(self) -> dict[str, Any]:
        """What summary.json says; nothing while the run has not ended, or when it was broken off.

        Raises RunDirError where it is damaged.
        """
        found: dict[str, Any] = {}
        if self.summary.exists():
            try:
                found = json.loads(self.summary.read_text(encoding="utf-8"))
            except ValueError as error:
                raise RunDirError(f"{self.summary} is damaged: {error}.") from None
        return found

    def write_summary(self, summary: dict[str, Any]) -> None:
        self.write_text(self.summary, json.dumps(summary, indent=2) + "\n")


class CsvMetrics(Listener):
    """metrics.csv, one row per round, flushed to disk with each so that a checkpoint never knows more than
    the CSV.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def started(self, *, round: int, rounds: int | None, history: Sequence[Row]) -> None:  # noqa: ARG002
        """Drops rows after `round` (they will be made again) and a last line that was cut."""
        kept = [row for row in read_rows(self.path) if int(row["round"]) <= round]
        buffer = io.StringIO()
        writer = csv.DictWriter(buffer, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for row in kept:
            writer.writerow({name: row.get(name, "") for name in COLUMNS})
        RunDir(self.path.parent).write_text(self.path, buffer.getvalue())

    def round_done(self, report: RoundReport) -> None:
        buffer = io.StringIO()
        csv.DictWriter(buffer, COLUMNS, lineterminator="\n").writerow(
            {name: _cell(value) for name, value in report.row().items()}
        )
        with naming(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(buffer.getvalue())
            file.flush()
            os.fsync(file.fileno())


class TensorBoard(Listener):
    """TensorBoard scalars of every numeric column, by round."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._writer: Any = None

    def started(self, *, round: int, rounds: int | None, history: Sequence[Row]) -> None:  # noqa: ARG002
        # The light half of the tensorboard package: torch.utils.tensorboard takes a second more to import.
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._writer = EventFileWriter(str(self.directory))
        if round:
            # Tells TensorBoard to hide the points after `round` that an earlier sitting wrote.
            self._writer.add_event(Event(step=round + 1, session_log=SessionLog(status=SessionLog.START)))

    def round_done(self, report: RoundReport) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        values = [
            Summary.Value(tag=tag(name), simple_value=float(value))
            for name, value in report.row().items()
            if name != "round" and value is not None
        ]
        event = Event(step=report.round, summary=Summary(value=values))
        event.wall_time = datetime.now().timestamp()
        self._writer.add_event(event)
        self._writer.flush()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def tag(column: str) -> str:
    """TensorBoard's name of a column: seconds_update becomes seconds/update, so that a group folds."""
    for group in ("seconds", "cost", "reward", "evaluation"):
        if column.startswith(f"{group}_"):
            return f"{group}/{column.removeprefix(f'{group}_')}"
    losses = ("kl", "entropy", "value_loss", "policy_loss", "explained_variance", "advantage_std")
    scaling = ("actors", "next_actors", "boosting_score", *STATISTICS)
    return (
        f"update/{column}"
        if column in losses
        else f"scaling/{column}"
        if column in scaling
        else f"run/{column}"
    )


def read_rows(path: Path) -> list[dict[str, str]]:
    """The whole rows of a metrics.csv, in order; a last line cut by a crash is left out. Empty when there is
    no file.
    """
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    if text and not text.endswith("\n"):
        lines = lines[:-1]
    return [
        row for row in csv.DictReader(lines) if None not in row and None not in row.values() and row["round"]
    ]


def read_metrics(path: Path) -> list[dict[str, float | None]]:
    """The rows as numbers, an empty cell as None, and so a column that an older version did not write.

    Raises:
        RunDirError: there is no such file, it holds no rounds, something else than numbers, or not what every
            round has.
    """
    rows = read_numbers(path)
    if not rows:
        raise RunDirError(
            f"{path}: no rounds in it. Give the folder of a run that finished at least one round."
        )
    lacking = [name for name in _ALWAYS if any(row[name] is None for row in rows)]
    if lacking:
        raise RunDirError(f"{path} is damaged: it lacks {', '.join(lacking)}. Restore the file.")
    return rows


def read_numbers(path: Path) -> list[dict[str, float | None]]:
    """As `read_metrics`, but without a round it is empty."""
    try:
        return [
            dict.fromkeys(COLUMNS) | {name: float(value) if value else None for name, value in row.items()}
            for row in read_rows(path)
        ]
    except (ValueError, KeyError) as error:
        raise RunDirError(f"{path} is damaged: {error}.") from None


def columns_of(rows: Sequence[Mapping[str, float | None]]) -> dict[str, NDArray[np.float64]]:
    """Rows as columns, f64 [rows], by the names of the first row; NaN where a row has no such number."""
    return {
        name: np.array([np.nan if row.get(name) is None else row[name] for row in rows], np.float64)
        for name in (rows[0] if rows else {})
    }


def _cell(value: float | None) -> str | int:
    if value is None:
        return ""
    # repr: the shortest text that reads back as the same number.
    return repr(float(value)) if isinstance(value, float) else value
