"""Statistics of tasks: retries, drops, bytes and times."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self


@dataclass
class Counts:
    """What a group of tasks has taken so far: counts by reason, bytes, billed seconds, also those of failed
    tasks.

    ``estimated``: invocations whose billed time was not reported, so that it is an estimate.

    ``task_seconds``: the worker's own time per task.

    ``late``: answered tasks that had to wait for a worker, because none was ready and free, or because the
    first request failed.

    ``overhead_seconds``: of each answered request, what it took beyond the worker's own time: queueing in
    front of the worker, a cold start, transfer.
    """

    retries: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    cold_starts: int = 0
    bytes: int = 0
    billed_seconds: list[float] = field(default_factory=list)
    estimated: int = 0
    task_seconds: dict[int, float] = field(default_factory=dict)
    deadline_misses: int = 0
    overhead_seconds: list[float] = field(default_factory=list)
    late: int = 0

    def bill(self, seconds: float, *, estimated: bool) -> None:
        """Count one invocation."""
        self.billed_seconds.append(seconds)
        self.estimated += estimated

    def add(self, other: Self) -> None:
        """Add other counts. If both have a task, both times are kept, one with a new number."""
        self.retries += other.retries
        self.dropped += other.dropped
        self.cold_starts += other.cold_starts
        self.bytes += other.bytes
        self.billed_seconds += other.billed_seconds
        self.estimated += other.estimated
        for task, seconds in other.task_seconds.items():
            key = task if task not in self.task_seconds else max(self.task_seconds) + 1
            self.task_seconds[key] = seconds
        self.deadline_misses += other.deadline_misses
        self.overhead_seconds += other.overhead_seconds
        self.late += other.late

    def stats(self, seconds: float, at_once: int) -> "TaskStats":
        """Return the statistics of tasks that took `seconds`, with at most `at_once` requests at a time."""
        # What the workers' own times would take, packed without gaps; the rest is queueing and transfer.
        times = list(self.task_seconds.values()) or [0.0]
        sample = min(seconds, max(max(times), sum(times) / at_once))
        return TaskStats(
            **vars(self), seconds={"total": seconds, "sample": sample, "dispatch": seconds - sample}
        )


@dataclass
class TaskStats(Counts):
    """The counts of tasks that are done.

    ``seconds``: ``total`` = ``sample`` (what the workers' own times take, packed without gaps) + ``dispatch``
    (the rest: queueing, transfer, cold starts, retries).
    """

    seconds: Mapping[str, float] = field(default_factory=dict)
