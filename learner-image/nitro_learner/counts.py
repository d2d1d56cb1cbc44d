"""What happens on the way to a round's fragments, as it is counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from nitro_learner.plans import DispatchStats


@dataclass
class Counts:
    """Counts and times of a round in the making; see DispatchStats."""

    retries: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    cold_starts: int = 0
    bytes: int = 0
    billed_seconds: list[float] = field(default_factory=list)
    estimated: int = 0
    slot_seconds: dict[int, float] = field(default_factory=dict)
    deadline_misses: int = 0
    overhead_seconds: list[float] = field(default_factory=list)

    def bill(self, seconds: float, *, estimated: bool) -> None:
        """Takes in one invocation."""
        self.billed_seconds.append(seconds)
        self.estimated += estimated

    def add(self, other: Counts) -> None:
        """Takes in what happened elsewhere. Of a slot that both have, both times stay, one renumbered."""
        self.retries += other.retries
        self.dropped += other.dropped
        self.cold_starts += other.cold_starts
        self.bytes += other.bytes
        self.billed_seconds += other.billed_seconds
        self.estimated += other.estimated
        for slot, seconds in other.slot_seconds.items():
            key = slot if slot not in self.slot_seconds else max(self.slot_seconds) + 1
            self.slot_seconds[key] = seconds
        self.deadline_misses += other.deadline_misses
        self.overhead_seconds += other.overhead_seconds

    def stats(self, seconds: float, at_once: int) -> DispatchStats:
        """Of a round that took `seconds`, with at most `at_once` requests at a time."""
        # What the actors' own times would take, packed without gaps; the rest is queueing and transfer.
        times = list(self.slot_seconds.values()) or [0.0]
        sample = min(seconds, max(max(times), sum(times) / at_once))
        return DispatchStats(
            retries=dict(self.retries),
            dropped=dict(self.dropped),
            cold_starts=self.cold_starts,
            bytes=self.bytes,
            billed_seconds=list(self.billed_seconds),
            estimated=self.estimated,
            slot_seconds=dict(self.slot_seconds),
            deadline_misses=self.deadline_misses,
            overhead_seconds=list(self.overhead_seconds),
            seconds={"total": seconds, "sample": sample, "dispatch": seconds - sample},
        )
