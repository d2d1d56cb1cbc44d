"""Reading of metrics.csv, one row per round."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nitro_learner.run.rundir import RunDirError
from nitro_learner.training.round_report import COLUMNS

# Columns of every round. The other columns depend on the job.
_ALWAYS = ("env_steps", "wall_seconds", "actors", "cost_total")


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
    """The rows as numbers. An empty cell is None, and so is a column that is missing.

    Raises:
        RunDirError: the file is missing, holds no rounds, holds something other than numbers, or lacks a
            value that every round has.
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
    """As `read_metrics`, but empty where there is no round, and without a check for missing values."""
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
