"""The cost ledger: an append-only journal beside the checkpoints, one JSON line for each round that was paid
for."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from nitro_api.costs.prices import RoundCost


class LedgerCorrupt(ValueError):  # noqa: N818
    """A line of the journal, not the last, cannot be read."""


@dataclass(frozen=True)
class Entry:
    """One paid round."""

    round: int
    """The round, counted from 1. 0 is for costs that belong to no round: the evaluation at the end, and work
    that was interrupted."""

    cost: RoundCost
    """What it cost. Unit: US dollars."""

    repeated: bool
    """Whether it had been paid for before: a crash lost its result, so it was done again."""

    details: dict[str, Any]
    """What else was written down: actors, seconds, invocations, ..."""


class Ledger:
    """Journal of what a run has cost. A crash loses at most the line that was being written.

    with Ledger(run_dir / "ledger.jsonl") as ledger:
        ledger.append(round, serverless_cost(pricing, seconds, billed), actors=8, seconds=seconds)
        ledger.total.total, ledger.repeated_cost.total
    """

    def __init__(self, path: Path) -> None:
        """Open or create the journal and read it; a cut last line is removed. Raises LedgerCorrupt,
        OSError."""
        self.path = path
        self.entries: list[Entry] = []
        self._paid: set[int] = set()
        created = not path.exists()
        # Unbuffered: otherwise close() would write the rest of a failed write.
        self._file = path.open("ab", buffering=0)
        try:
            self._replay()
            if created:
                _sync_directory(path.parent)
        except BaseException:
            self._file.close()
            raise

    def append(self, round: int, cost: RoundCost, **details: Any) -> Entry:
        """Write down a paid round; it is on the disk on return. `details` are JSON values.

        Raises ValueError for a cost that is negative or not finite, and OSError, with nothing written, when
        the disk is full.
        """
        line = {"round": round, "learner": cost.learner, "actors": cost.actors, "details": details}
        entry = self._parse(line)
        data = json.dumps(line, separators=(",", ":"), allow_nan=False).encode() + b"\n"
        size = os.fstat(self._file.fileno()).st_size
        try:
            while data:
                data = data[self._file.write(data) :]
            os.fsync(self._file.fileno())
        except OSError:
            self._file.truncate(size)
            raise
        self._add(entry)
        return entry

    @property
    def total(self) -> RoundCost:
        """Everything that was paid, repeated rounds included. Unit: US dollars."""
        return _sum(self.entries)

    @property
    def repeated_cost(self) -> RoundCost:
        """The part of `total` that paid for rounds repeated after a crash. Unit: US dollars."""
        return _sum([entry for entry in self.entries if entry.repeated])

    @property
    def estimated(self) -> float:
        """The part of `total` that has not happened yet: the drain that the end of the run leaves. Unit: US
        dollars."""
        last = self.entries[-1:]
        return last[0].cost.actors if last and "estimatedPodSeconds" in last[0].details else 0.0

    def close(self) -> None:
        """Close the journal. Everything is on the disk already."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def _replay(self) -> None:
        data = self.path.read_bytes()
        complete, _, cut = data.rpartition(b"\n")
        if cut:
            os.truncate(self.path, len(data) - len(cut))
        for number, line in enumerate(complete.splitlines(), start=1):
            try:
                self._add(self._parse(json.loads(line)))
            except (ValueError, KeyError, TypeError) as error:
                raise LedgerCorrupt(
                    f"{self.path}: line {number} is not a ledger entry ({error}); restore the file, or "
                    "remove the line and with it the cost that it recorded"
                ) from error

    def _parse(self, line: dict[str, Any]) -> Entry:
        cost = RoundCost(float(line["learner"]), float(line["actors"]))
        if not (math.isfinite(cost.total) and cost.learner >= 0 and cost.actors >= 0):
            raise ValueError(f"cost of round {line['round']} is {cost}; it must be finite and not negative")
        number = int(line["round"])
        return Entry(number, cost, number > 0 and number in self._paid, dict(line["details"]))

    def _add(self, entry: Entry) -> None:
        self.entries.append(entry)
        self._paid.add(entry.round)


def _sum(entries: list[Entry]) -> RoundCost:
    return RoundCost(
        math.fsum(entry.cost.learner for entry in entries), math.fsum(entry.cost.actors for entry in entries)
    )


def _sync_directory(folder: Path) -> None:
    """Make a new file's name durable too."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
