"""The run on screen: a live table on a terminal, aligned lines otherwise, JSON lines for programs."""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TextIO

from nitro_learner.run.logs import finite
from nitro_learner.training.round_report import Listener, Outcome, RoundReport, Row
from nitro_learner.training.short_episodes import NOTE, short

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

    from nitro_api import JobStatus
    from nitro_api.spec.learner_status import HistoryEntry
    from nitro_learner.training.sharing.toggles import Regrouping

# title, width in plain output
_HEADINGS = (
    ("round", 9),
    ("env steps", 10),
    ("reward", 8),
    ("eval", 8),
    ("score", 6),
    ("actors", 7),
    ("cost $", 8),
    ("sample", 7),
    ("update", 7),
    ("wait", 6),
    ("s/round", 8),
    ("ETA", 8),
)
_SHOWN_ROUNDS = 12
_WIDE = 100
_STAGES = ("sample", "update", "wait")


def cells(report: RoundReport, rounds: int | None) -> list[str]:
    """A round as the texts of the table's columns."""
    waited = (
        report.seconds_detect + report.seconds_evaluate + report.seconds_checkpoint + report.seconds_dispatch
    )
    ahead = report.counters.forecast
    return [
        f"{report.round}/{rounds}" if rounds else str(report.round),
        f"{report.env_steps:,}",
        _number(report.reward_mean, ".1f") + ("*" if short(report.cut_share) else ""),
        _number(report.evaluation_mean, ".1f"),
        _number(report.boosting_score, ".3f"),
        f"{report.actors}→{report.next_actors}",
        f"{report.cost_total:.4f}",
        f"{report.seconds_sample:.2f}",
        f"{report.seconds_update:.2f}",
        f"{waited:.2f}",
        f"{report.seconds_total:.2f}",
        clock(ahead.seconds if ahead else None),
    ]


def reported(entry: HistoryEntry, status: JobStatus, rounds: int | None) -> list[str]:
    """A round that a job's status tells of, as the same texts. It has no times of stages; of its newest round
    alone it says what comes next."""
    training, progress = status.training, status.progress
    newest = training is not None and training.round == entry.round
    following = training.requested_actors if training and newest else None
    cut = short(training.cut_share) if training and newest else False
    return [
        f"{entry.round}/{rounds}" if rounds else str(entry.round),
        _number(entry.env_steps, ",d"),
        _number(entry.reward_mean, ".1f") + ("*" if cut else ""),
        _number(entry.evaluation_mean, ".1f"),
        _number(entry.score, ".3f"),
        _number(entry.actors, "d") + ("" if following is None else f"→{following}"),
        _number(entry.cost, ".4f"),
        *("-" for _ in _STAGES),
        _number(entry.seconds, ".2f"),
        clock(progress.eta_seconds if progress and newest else None),
    ]


def note(reward_mean: float | None, cut_share: float | None) -> str | None:
    """What a reader should know of a round's reward."""
    if short(cut_share):
        return f"* {NOTE}"
    return "- in reward: no training episode has ended yet" if reward_mean is None else None


def _columns(*, stages: bool) -> list[int]:
    """The columns, with the times of stages or without."""
    return [index for index, (title, _) in enumerate(_HEADINGS) if stages or title not in _STAGES]


def clock(seconds: float | None) -> str:
    """1:05 or 2:03:04; a dash for None."""
    if seconds is None:
        return "-"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class PlainLines(Listener):
    """One aligned line per round, the headings again every 20 rounds.

    Args:
        stages: whether the times of a round's stages are known.
    """

    def __init__(self, stream: TextIO | None = None, *, stages: bool = True) -> None:
        self.stream = stream or sys.stdout
        self._columns = _columns(stages=stages)
        self._rounds: int | None = None
        self._lines = 0
        self._notes: set[str] = set()

    def on_run_started(self, *, round: int, rounds: int | None, history: Sequence[Row]) -> None:  # noqa: ARG002
        self._rounds = rounds

    def on_round_done(self, report: RoundReport) -> None:
        self.show(cells(report, self._rounds), note(report.reward_mean, report.cut_share))

    def show(self, texts: list[str], said: str | None) -> None:
        """Print a round, given as the texts of its columns; what is said of it is printed once."""
        if self._lines % 20 == 0:
            self._print([title for title, _ in _HEADINGS])
        self._lines += 1
        if said and said not in self._notes:
            self._notes.add(said)
            print(said, file=self.stream, flush=True)
        self._print(texts)

    def does(self, what: str) -> None:
        """Print what is done from now on."""
        if what:
            print(what, file=self.stream, flush=True)

    def on_policies_regrouped(self, regrouping: Regrouping) -> None:
        print(regrouping.sentence, file=self.stream, flush=True)

    def _print(self, texts: list[str]) -> None:
        line = " ".join(texts[index].rjust(_HEADINGS[index][1]) for index in self._columns)
        print(line, file=self.stream, flush=True)


class JsonLines(Listener):
    """One JSON object per line: {"event": "round", ...columns} and at the end {"event": "end", ...}."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stdout

    def on_run_started(self, *, round: int, rounds: int | None, history: Sequence[Row]) -> None:  # noqa: ARG002
        self._print({"event": "start", "round": round, "rounds": rounds})

    def on_round_done(self, report: RoundReport) -> None:
        self._print({"event": "round", **report.row()})

    def on_policies_regrouped(self, regrouping: Regrouping) -> None:
        self._print(
            {
                "event": "sharing",
                "round": regrouping.round,
                "shared": regrouping.shared,
                "groups": {policy: list(agents) for policy, agents in regrouping.groups.items()},
                "reason": regrouping.reason,
            }
        )

    def on_run_ended(self, outcome: Outcome) -> None:
        self._print(
            {
                "event": "end",
                "reason": outcome.reason,
                "message": outcome.message,
                "finished": outcome.finished,
            }
        )

    def _print(self, entry: dict[str, Any]) -> None:
        print(json.dumps(finite(entry)), file=self.stream, flush=True)


class LiveTable(Listener):
    """The last rounds in a table that is drawn again in place, with what the loop is doing now below it.

    Args:
        stages: whether the times of a round's stages are known.
    """

    def __init__(self, *, stages: bool = True) -> None:
        from rich.console import Console
        from rich.live import Live

        self._stages = stages
        self._console = Console()
        self._rounds: int | None = None
        self._shown: deque[list[str]] = deque(maxlen=_SHOWN_ROUNDS)
        self._note: str | None = None
        self._sharing: str | None = None
        self._doing = "starting actors"
        self._since = time.monotonic()
        self._live: Live = Live(console=self._console, get_renderable=self.render, refresh_per_second=4)

    def __enter__(self) -> LiveTable:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def on_run_started(self, *, round: int, rounds: int | None, history: Sequence[Row]) -> None:  # noqa: ARG002
        self._rounds = rounds

    def on_stage_started(self, *, round: int, stage: str, actors: int) -> None:
        words = {
            "sample": f"{actors} actors sample",
            "update": "updating the policy",
            "final": "final evaluation",
        }
        self.does(f"round {round}: {words.get(stage, stage)}")

    def does(self, what: str) -> None:
        """Say what is done from now on; nothing by an empty text."""
        self._doing = what
        self._since = time.monotonic()

    def on_round_done(self, report: RoundReport) -> None:
        self.show(cells(report, self._rounds), note(report.reward_mean, report.cut_share))

    def show(self, texts: list[str], said: str | None) -> None:
        """Show a round, given as the texts of its columns, and what is said of it."""
        self._note = said
        self._shown.append(texts)

    def on_policies_regrouped(self, regrouping: Regrouping) -> None:
        self._sharing = regrouping.sentence

    def on_run_ended(self, outcome: Outcome) -> None:  # noqa: ARG002
        self._doing = ""

    def render(self) -> Table:
        """The table as it stands now."""
        from rich import box
        from rich.table import Table

        doing = f"{self._doing} ({time.monotonic() - self._since:.0f} s)" if self._doing else None
        caption = "\n".join(filter(None, (self._note, self._sharing, doing))) or None
        # A narrow terminal shows no stages, so that the other columns keep all their digits.
        shown = _columns(stages=self._stages and self._console.width >= _WIDE)
        table = Table(box=box.SIMPLE_HEAD, caption=caption, caption_justify="left", padding=(0, 1, 0, 0))
        for index in shown:
            table.add_column(_HEADINGS[index][0], justify="right", no_wrap=True)
        for number, texts in enumerate(self._shown):
            style = "bold" if number == len(self._shown) - 1 else ""
            table.add_row(*(texts[index] for index in shown), style=style)
        return table


def _number(value: float | None, spec: str) -> str:
    return "-" if value is None else format(value, spec)
