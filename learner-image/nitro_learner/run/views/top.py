"""The table of a cluster's jobs, for a terminal of any width."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from rich.console import Group, JustifyMethod
from rich.table import Table
from rich.text import Text

from nitro_learner.training.short_episodes import short

_BARS = "▁▂▃▄▅▆▇█"
_TREND = 16
_STYLES = {
    "Running": "green",
    "Starting": "yellow",
    "Pending": "yellow",
    "Stopping": "yellow",
    "Suspended": "dim",
    "Deleting": "dim",
    "Failed": "red",
    "Succeeded": "cyan",
}
_COLUMNS = (
    # Title, and the least width of a terminal that shows it. The least important columns are left out first.
    ("NAMESPACE", 100),
    ("JOB", 0),
    ("PHASE", 0),
    ("ROUND", 0),
    ("PROGRESS", 95),
    ("ETA", 85),
    ("STEPS", 120),
    ("RETURN", 0),
    ("TREND", 90),
    ("SCORE", 75),
    ("POLICIES", 110),
    ("ACTORS", 0),
    ("AWAKE", 130),
    ("ASLEEP", 130),
    ("DEFERRED", 160),
    ("STARTING", 160),
    ("DRAINING", 160),
    ("COST", 0),
    ("AGE", 75),
)
_SHORT = "* of the last evaluation: rollouts cut long episodes, so training returns are of short ones only"
_GAP, _SHORTEST_NAME = 2, 8
_STATES = ("AWAKE", "ASLEEP", "DEFERRED", "STARTING", "DRAINING")
"""Of actors, as the fields of status.actors are named. Shown where some job's actors can sleep."""
_NUMBERS = {
    "ROUND",
    "PROGRESS",
    "ETA",
    "STEPS",
    "RETURN",
    "SCORE",
    "POLICIES",
    "ACTORS",
    *_STATES,
    "COST",
    "AGE",
}


@dataclass(frozen=True)
class Row:
    """A job as the table shows it. None means: not known yet.

    `percent` is done of the stop condition that ends the run, and `eta_seconds` are left until it holds.

    `ready`, `granted`, `awake`, `asleep` and `deferred` count actors; `starting` and `draining` pods.

    `policies`: those of several agents; `shared`: whether agents share them now. None with a single agent.
    `short`: training returns are those of short episodes only, so the return is the last evaluation's.
    """

    namespace: str
    job: str
    phase: str
    round: int | None
    percent: float | None
    eta_seconds: int | None
    env_steps: int | None
    mean_return: float | None
    short: bool
    history: tuple[float, ...]
    score: float | None
    policies: int | None
    shared: bool | None
    ready: int | None
    granted: int | None
    awake: int | None
    asleep: int | None
    deferred: int | None
    starting: int | None
    draining: int | None
    cost: float | None
    age_seconds: float

    @classmethod
    def of(cls, job: Mapping[str, Any], now: datetime) -> Self:
        """The row of a NitroTrainingJob, which is as the API server has it."""
        status = job.get("status") or {}
        training, actors = status.get("training") or {}, status.get("actors") or {}
        sharing, progress = status.get("sharing") or {}, status.get("progress") or {}
        cut = short(training.get("cutShare"))
        mean = "evaluationMean" if cut else "rewardMean"
        means = [entry.get(mean) for entry in training.get("history") or []]
        return cls(
            namespace=job["metadata"]["namespace"],
            job=job["metadata"]["name"],
            phase=status.get("phase") or "Pending",
            round=training.get("round"),
            percent=progress.get("percent"),
            eta_seconds=progress.get("etaSeconds"),
            env_steps=training.get("envSteps"),
            mean_return=training.get(mean),
            short=cut,
            history=tuple(mean for mean in means if mean is not None),
            score=training.get("boostingScore"),
            policies=sharing.get("groups"),
            shared=sharing.get("shared"),
            ready=actors.get("ready"),
            granted=actors.get("granted"),
            **{state.lower(): actors.get(state.lower()) for state in _STATES},
            cost=(status.get("cost") or {}).get("total"),
            age_seconds=(now - datetime.fromisoformat(job["metadata"]["creationTimestamp"])).total_seconds(),
        )

    def cells(self) -> dict[str, str]:
        """The text of each column."""
        return {
            "NAMESPACE": self.namespace,
            "JOB": self.job,
            "PHASE": self.phase,
            "ROUND": _known(self.round, "{}"),
            "PROGRESS": _known(self.percent, "{:.0f}%"),
            "ETA": "-" if self.eta_seconds is None else age(self.eta_seconds),
            "STEPS": _known(self.env_steps, "{:,}"),
            "RETURN": _known(self.mean_return, "{:,.1f}") + ("*" if self.short else ""),
            "TREND": sparkline(self.history),
            "SCORE": _known(self.score, "{:.2f}"),
            "POLICIES": _known(self.policies, "{}") + (" shared" if self.shared else ""),
            "ACTORS": f"{self.ready or 0}/{self.granted}" if self.granted is not None else "-",
            **{state: _known(getattr(self, state.lower()), "{}") for state in _STATES},
            "COST": _known(self.cost, "${:,.4f}"),
            "AGE": age(self.age_seconds),
        }


def table(rows: Sequence[Row], width: int, note: str = "") -> Group:
    """The table of the jobs, with running jobs first, and a line of totals."""
    shown = [title for title, least in _COLUMNS if width >= least]
    if not any(row.policies for row in rows):  # no job has several agents
        shown = [title for title in shown if title != "POLICIES"]
    if all(row.asleep is None for row in rows):  # no job's actors can sleep
        shown = [title for title in shown if title not in _STATES]
    ordered = sorted(rows, key=lambda row: (row.phase != "Running", row.namespace, row.job))
    cells = [row.cells() for row in ordered]
    widths = _widths(shown, cells, width)
    grid = Table(box=None, padding=(0, _GAP, 0, 0), header_style="bold", pad_edge=False)
    for title in shown:
        side: JustifyMethod = "right" if title in _NUMBERS else "left"
        grid.add_column(title, justify=side, no_wrap=True, overflow="ellipsis", width=widths[title])
    for row in cells:
        styles = {"PHASE": _STYLES.get(row["PHASE"], "")}
        grid.add_row(*(Text(row[title], styles.get(title, "")) for title in shown))
    lines: list[Any] = [grid, Text(totals(rows), "dim")]
    if any(row.short for row in rows):
        lines.append(Text(_SHORT, "dim"))
    if note:
        lines.append(Text(note, "yellow"))
    return Group(*lines)


def _widths(shown: Sequence[str], cells: Sequence[Mapping[str, str]], width: int) -> dict[str, int]:
    """The columns' widths. Only names are cut: a cut number would be another number."""
    widths = {title: max(len(title), *(len(row[title]) for row in cells), 0) for title in shown}
    excess = sum(widths.values()) + _GAP * (len(shown) - 1) - width
    for title in ("JOB", "NAMESPACE"):
        if title in widths and excess > 0:
            cut = min(excess, widths[title] - _SHORTEST_NAME)
            widths[title] -= cut
            excess -= cut
    return widths


def totals(rows: Sequence[Row]) -> str:
    """Jobs by phase, actors and cost, in one line."""
    if not rows:
        return "no jobs"
    phases = Counter(row.phase for row in rows)
    jobs = ", ".join(f"{number} {phase}" for phase, number in phases.most_common())
    actors = sum(row.granted or 0 for row in rows)
    cost = sum(row.cost or 0.0 for row in rows)
    noun = "job" if len(rows) == 1 else "jobs"
    return f"{len(rows)} {noun}: {jobs}; {actors} actors granted; ${cost:,.4f} in all"


def sparkline(values: Sequence[float], width: int = _TREND) -> str:
    """The last `width` values as bars. The lowest value has the lowest bar; equal values have middle bars."""
    last = values[-width:]
    if not last:
        return ""
    low, high = min(last), max(last)
    if high == low:
        return _BARS[3] * len(last)
    return "".join(_BARS[round((value - low) / (high - low) * (len(_BARS) - 1))] for value in last)


def age(seconds: float) -> str:
    """A time as kubectl writes an age: 45s, 12m, 3h, 2d."""
    for unit, length in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= length:
            return f"{int(seconds // length)}{unit}"
    return f"{max(0, int(seconds))}s"


def _known(value: float | None, pattern: str) -> str:
    return "-" if value is None else pattern.format(value)
