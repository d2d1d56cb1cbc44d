"""Pictures of a job's actor pods over the phases of its learner: each pod as a bar, or the sums of rounds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nitro_learner.run.metrics_file import columns_of, read_metrics
from nitro_learner.run.rundir import RunDir, RunDirError
from nitro_learner.run.views.plot_groups import time_unit_of
from nitro_learner.run.views.plot_style import COLOURS, INK, MUTED, picture
from nitro_learner.run.views.pod_lives import STATES, PastNeed, Span, vcpu_seconds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOUR = {"starting": COLOURS[4], "awake": COLOURS[2], "asleep": COLOURS[5], "draining": COLOURS[3]}
"""Of the states of a pod."""
LEARNS = "#c9d1d9"
"""Behind the times in which nobody needs actors, because the learner learns."""
_WIDTH, _LOW, _BAR, _MOST_TALL = 11.0, 1.7, 0.16, 9.0
"""Inches: width, height of the upper panel, height of a bar, and height of all bars at most."""
_THIN, _THICK = 0.15, 0.85
"""Of a bar's place, what a pod takes that requests nothing, and one that requests most."""


def draw_lives(
    lives: Sequence[Sequence[Span]], needs: Sequence[PastNeed], title: str, out: Path, *, end: float
) -> Path:
    """Draw each pod as a bar, below the number of pods in each state and the actors that are needed.

    Args:
        lives: of each pod the spans of its life.
        needs: in order; where there are none, phases are not shown.
        end: Unix time to which the picture goes.

    Raises:
        ValueError: there was no pod, or no picture of that kind.
    """
    if not lives:
        raise ValueError("no actor's pod was seen")
    began = min(spans[0].began for spans in lives)
    scale, unit = time_unit_of(end - began)
    heights = (_LOW, min(_MOST_TALL, max(_LOW, _BAR * len(lives))))
    layout = {"figsize": (_WIDTH, sum(heights) + 0.9), "sharex": True, "height_ratios": heights}
    with picture(out, nrows=2, ncols=1, **layout) as (figure, (above, bars)):
        _stack(above, lives, lambda at: (at - began) * scale)
        if needs:
            shown = [(max(need.at, began) - began) * scale for need in needs] + [(end - began) * scale]
            numbers = [need.now for need in needs]
            above.step(shown, [*numbers, numbers[-1]], where="post", color=INK, lw=1.4, label="needed now")
        above.set_ylabel("Pods")
        above.set_ylim(bottom=0)
        for axis in (above, bars):
            _shade(axis, needs, began, end, scale)
        most = max((span.vcpu for spans in lives for span in spans), default=0.0) or 1.0
        for row, spans in enumerate(lives):
            for span in spans:
                left, wide = (span.began - began) * scale, span.seconds * scale
                high = _THIN + (_THICK - _THIN) * span.vcpu / most
                bars.barh(row, wide, left=left, height=high, color=COLOUR[span.state], lw=0)
        bars.set(xlabel=f"Time ({unit})", ylabel="Pods (thick: their whole CPU)", yticks=[])
        bars.grid(visible=False)
        bars.set_ylim(len(lives) - 0.4, -0.6)
        bars.set_xlim(0, (end - began) * scale)
        _head(figure, above, title, vcpu_seconds(lives), phases=bool(needs))
    return out


def draw_sums(run_dir: RunDir, out: Path) -> Path:
    """Draw what a run's ledger says of its pods: of each round the mean CPU that they requested, by state.

    Raises:
        RunDirError: the folder is no run folder, or its ledger has no CPU of pods.
        ValueError: there is no picture of that kind.
    """
    job, columns = run_dir.read_job(), columns_of(read_metrics(run_dir.metrics))
    sums = _sums(run_dir, columns["round"])
    ends, seconds = columns["wall_seconds"], columns["seconds_total"]
    scale, unit = time_unit_of(float(ends[-1]))
    begins, wide = (ends - seconds) * scale, seconds * scale
    name = job.get("metadata", {}).get("name", run_dir.path.name)
    with picture(out, nrows=1, ncols=1, figsize=(_WIDTH, 4.2)) as (figure, axis):
        under = np.zeros(len(ends))
        for state in STATES:
            high = np.array([by_state.get(state, 0.0) for by_state in sums]) / np.maximum(seconds, 1e-9)
            axis.bar(begins, high, wide, under, align="edge", color=COLOUR[state], lw=0)
            under += high
        sampled = np.nan_to_num(columns["seconds_dispatch"]) + np.nan_to_num(columns["seconds_sample"])
        for begin, learns in zip(ends - seconds + sampled, ends, strict=True):
            axis.axvspan(begin * scale, max(begin, learns) * scale, color=LEARNS, alpha=0.5, lw=0)
        axis.set(xlabel=f"Time ({unit})", ylabel="CPU that pods request (vCPU)")
        axis.margins(x=0.005)
        total = {state: sum(by_state.get(state, 0.0) for by_state in sums) for state in STATES}
        _head(figure, axis, name, total, phases=True)
    return out


def _sums(run_dir: RunDir, rounds: Iterable[float]) -> list[Mapping[str, float]]:
    """Of each round its vCPU-seconds by state; of one that was done again those of both times."""
    place = {int(number): index for index, number in enumerate(rounds)}
    by_round: list[dict[str, float]] = [{} for _ in place]
    for entry in _entries(run_dir.ledger):
        for state, more in (entry["details"].get("roundVCPUSeconds") or {}).items():
            if entry["round"] in place:
                sums = by_round[place[entry["round"]]]
                sums[state] = sums.get(state, 0.0) + float(more)
    if not any(by_round):
        raise RunDirError(
            f"{run_dir.path}: the ledger has no CPU of pods: the actors of this run were no pods"
        )
    return list(by_round)


def _entries(ledger: Path) -> list[dict[str, Any]]:
    """The whole lines of a ledger, which somebody else may be writing: `Ledger` would mend a line that is
    not complete yet."""
    text = ledger.read_bytes() if ledger.exists() else b""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith(b"\n")]


def _stack(axis: Axes, lives: Sequence[Sequence[Span]], place: Any) -> None:
    """The number of pods in each state over time."""
    spans = [span for life in lives for span in life]
    edges = np.unique([edge for span in spans for edge in (span.began, span.ended)])
    counts = {state: np.zeros(len(edges)) for state in STATES}
    for span in spans:
        first, last = np.searchsorted(edges, (span.began, span.ended))
        counts[span.state][first:last] += 1
    under = np.zeros(len(edges))
    for state in ("awake", "asleep", "starting", "draining"):
        high = under + counts[state]
        axis.fill_between(place(edges), under, high, step="post", color=COLOUR[state], lw=0)
        under = high


def _shade(axis: Axes, needs: Sequence[PastNeed], began: float, end: float, scale: float) -> None:
    """The darker, the fewer of its actors the learner uses."""
    for need, until in zip(needs, [*(later.at for later in needs[1:]), end], strict=False):
        idle = 1 - min(1.0, need.now / need.asked) if need.asked else 0.0
        left, right = ((max(at, began) - began) * scale for at in (need.at, until))
        if idle and right > left:
            axis.axvspan(left, right, color=LEARNS, alpha=0.6 * idle, lw=0, zorder=0)


def _head(figure: Any, axis: Axes, title: str, sums: Mapping[str, float], *, phases: bool) -> None:
    """Title, and a legend with the sums above the first panel."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [
        Patch(color=COLOUR[state], label=f"{state} {sums[state]:,.1f} vCPU-s") for state in STATES
    ]
    if axis.get_legend_handles_labels()[1]:
        handles.append(Line2D([], [], color=INK, lw=1.4, label="actors needed now"))
    if phases:
        handles.append(Patch(color=LEARNS, alpha=0.6, label="the learner learns"))
    axis.set_title(title, loc="left", fontsize=13, fontweight="bold", color=INK, pad=26)
    axis.legend(
        handles=handles, loc="lower left", bbox_to_anchor=(0, 1), ncols=len(handles), fontsize=8.5,
        borderaxespad=0.3, handlelength=1.2, columnspacing=1.2, labelcolor=MUTED,
    )  # fmt: skip
    figure.tight_layout()
