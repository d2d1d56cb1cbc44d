"""An experiment on screen: a live table on a terminal, a line per run otherwise, JSON lines for programs."""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from nitro_experiments.running.runner import RunState, Watcher
from nitro_learner.run.views.table import clock
from nitro_learner.training.stop import seconds_left

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

_BAR = 20


class Pace:
    """Estimate the time left from the share of the runs that this process has done."""

    def __init__(self, states: Sequence[RunState]) -> None:
        self._states = states
        self._begin = time.monotonic()
        self._before = self.done

    @property
    def done(self) -> float:
        """Runs done, parts of runs included."""
        return sum(1.0 if state.status in ("done", "failed") else state.fraction for state in self._states)

    def eta(self) -> float | None:
        """Seconds left; None before anything is known."""
        begin = {"seconds": self._begin, "runs": self._before}
        now = {"seconds": time.monotonic(), "runs": self.done}
        return seconds_left([begin, now], {"runs": len(self._states)})


class ProgressLines(Watcher):
    """Print a line when a run ends."""

    def __init__(self, states: Sequence[RunState], stream: TextIO | None = None) -> None:
        self._states = states
        self._stream = stream or sys.stdout
        self._pace = Pace(states)

    def changed(self, state: RunState) -> None:
        if state.status in ("waiting", "running"):
            return
        ended = sum(other.status in ("done", "failed") for other in self._states)
        score = "-" if state.score is None else f"{state.score:.1f}"
        print(
            f"{ended:>4}/{len(self._states)}  {_name(state):<36} {state.status:<8}"
            f"{state.round:>4} rounds  return {score:>8}  ${state.cost:.4f}  left {clock(self._pace.eta())}",
            file=self._stream,
            flush=True,
        )


class ProgressJson(Watcher):
    """Print one JSON object, on a line of its own, for each change: {"event": "run", ...}."""

    def __init__(self, states: Sequence[RunState]) -> None:
        self._pace = Pace(states)

    def changed(self, state: RunState) -> None:
        event = {
            "event": "run",
            "environment": state.run.environment,
            "variant": state.run.variant,
            "seed": state.run.seed,
            "status": state.status,
            "round": state.round,
            "fraction": state.fraction,
            "rewardMean": state.score,
            "cost": state.cost,
            "etaSeconds": self._pace.eta(),
        }
        print(json.dumps(event), flush=True)


@dataclass
class _Row:
    """A variant's runs."""

    states: list[RunState]

    @property
    def fraction(self) -> float:
        return sum(1.0 if s.status == "done" else s.fraction for s in self.states) / len(self.states)

    def cells(self) -> list[str]:
        count = {
            status: sum(s.status == status for s in self.states) for status in ("done", "running", "failed")
        }
        scores = [s.score for s in self.states if s.status == "done" and s.score is not None]
        filled = round(_BAR * self.fraction)
        return [
            "━" * filled + "╌" * (_BAR - filled),
            f"{count['done']}/{len(self.states)}",
            str(count["running"] or ""),
            str(count["failed"] or ""),
            f"{sum(scores) / len(scores):.1f}" if scores else "-",
        ]


class ProgressTable(Watcher):
    """Draw a table with a row per variant, again and again in place."""

    def __init__(self, states: Sequence[RunState]) -> None:
        from rich.console import Console
        from rich.live import Live

        self._pace = Pace(states)
        self._total = len(states)
        grouped: dict[tuple[str, str], list[RunState]] = defaultdict(list)
        for state in states:
            grouped[state.run.environment, state.run.variant].append(state)
        self._rows = {key: _Row(members) for key, members in grouped.items()}
        self._live: Live = Live(console=Console(), get_renderable=self._render, refresh_per_second=2)

    def __enter__(self) -> ProgressTable:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def _render(self) -> Table:
        from rich import box
        from rich.table import Table

        caption = f"{self._pace.done:.1f} of {self._total} runs, {clock(self._pace.eta())} left"
        table = Table(box=box.SIMPLE_HEAD, caption=caption, caption_justify="left", padding=(0, 1, 0, 0))
        several = len({environment for environment, _ in self._rows}) > 1
        titles = ("variant", "progress", "done", "running", "failed", "return")
        for title in (("environment",) if several else ()) + titles:
            left = title in ("environment", "variant", "progress")
            table.add_column(title, justify="left" if left else "right", no_wrap=True)
        for (environment, variant), row in self._rows.items():
            table.add_row(*([environment] if several else []), variant, *row.cells())
        return table


def _name(state: RunState) -> str:
    return f"{state.run.environment} {state.run.variant} seed {state.run.seed}"
