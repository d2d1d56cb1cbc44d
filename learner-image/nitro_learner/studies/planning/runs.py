"""Runs in place of a probe: their measured rounds, and when they reached a return."""

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nitro_api import JobSpec, resolve_stored
from nitro_learner.run.metrics_file import read_metrics
from nitro_learner.run.rundir import RunDir
from nitro_learner.studies.planning.fitting import ObservedRound
from nitro_learner.studies.profiling import CORE_MIB


@dataclass(frozen=True)
class PastRun:
    """A run to plan by.

    Attributes:
        spec: of its job, resolved.
        rounds: in order.
        rows: of its metrics.csv.
    """

    path: Path
    spec: JobSpec
    rounds: Sequence[ObservedRound]
    rows: Sequence[dict[str, float | None]]

    @classmethod
    def read(cls, path: Path) -> "PastRun":
        """A run folder; the run may still go on.

        Raises:
            RunDirError: it is no run folder, or has no round.
        """
        folder = RunDir(path)
        spec = resolve_stored(folder.read_job()).spec
        rows = read_metrics(folder.metrics)
        paid = {int(line["round"]): line["details"] for line in _lines(folder.ledger)}
        detected = {
            int(line["round"]): float(line.get("detector_seconds") or 0.0)
            for line in _lines(folder.log)
            if line.get("message") == "round done"
        }
        return cls(path, spec, [*_rounds(spec, rows, paid, detected)], rows)


def _rounds(
    spec: JobSpec,
    rows: Sequence[dict[str, float | None]],
    paid: dict[int, dict[str, Any]],
    detected: dict[int, float],
) -> Iterator[ObservedRound]:
    before = 0.0
    # A function with less than a core's memory is slower than the actor on a core that the model begins with.
    speed = 1.0
    if spec.backend.type == "Lambda":
        speed = min(1.0, 1024 * spec.pricing.actor_memory_gb / CORE_MIB)
    for row in rows:
        number, steps = int(row["round"] or 0), row["env_steps"] or 0.0
        learned = max(1, round((steps - before) / spec.environment.rollout_length))
        before = steps
        actor, details = row["seconds_actor"] or 0.0, paid.get(number, {})
        evaluated = row["evaluation_mean"] is not None
        played = max(0.0, details.get("billedSeconds", 0.0) - learned * actor) if evaluated else 0.0
        yield ObservedRound(
            actors=int(row["actors"] or 1),
            learned=learned,
            seconds=row["seconds_total"] or 0.0,
            sample=row["seconds_sample"] or 0.0,
            update=row["seconds_update"] or 0.0,
            detect=row["seconds_detect"] or 0.0,
            evaluate=row["seconds_evaluate"] or 0.0,
            actor=speed * actor,
            detector=detected.get(number - 1, 0.0),
            evaluation=speed * played,
        )


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The whole lines of a file of JSON lines; the last one may be being written."""
    if not path.exists():
        return
    for line in path.read_bytes().rpartition(b"\n")[0].splitlines():
        with contextlib.suppress(ValueError):  # a line that a crash cut
            yield json.loads(line)


@dataclass(frozen=True)
class Reached:
    """When a run's evaluation reached a return, or where the run stood when it had not.

    Attributes:
        best: highest mean return of an evaluation; None without any.
    """

    run: str
    reached: bool
    env_steps: int
    seconds: float
    dollars: float
    best: float | None

    @classmethod
    def of(cls, run: PastRun, target: float) -> "Reached":
        """When a run reached the return `target`."""
        played = [(row["evaluation_mean"], row) for row in run.rows]
        means = [(mean, row) for mean, row in played if mean is not None]
        at = next((row for mean, row in means if mean >= target), None)
        row = at or run.rows[-1]
        return cls(
            str(run.path),
            at is not None,
            int(row["env_steps"] or 0),
            row["wall_seconds"] or 0.0,
            row["cost_total"] or 0.0,
            max((mean for mean, _ in means), default=None),
        )


def chance(runs: int) -> float:
    """The probability that the median of all seeds lies between the least and the most of so many runs."""
    return 1 - 2.0 ** (1 - runs)
