"""How numbers, intervals and verdicts are written in a report's tables, and the same rows in CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nitro_experiments.statistics.few_seeds import Floats, Interval, holm

SEEDS_FOR_A_VERDICT = 10
"""With fewer seeds an interval is wide, and it leans on the assumption that differences are normal."""

LEVEL = 0.05


@dataclass(frozen=True)
class Difference:
    """A difference of two variants that gets a verdict: `more` or `less`, where one is shown."""

    interval: Interval
    seeds: int
    more: str = "better"
    less: str = "worse"


def line(cells: Sequence[str]) -> str:
    """A row of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def head(titles: Sequence[str], texts: int = 1) -> list[str]:
    """The first two lines of a table, whose first `texts` columns hold text and the others numbers."""
    return [line(titles), line([*["---"] * texts, *["---:"] * (len(titles) - texts)])]


def number(value: float, *, sign: bool = False) -> str:
    """The value as a short text; a dash for NaN."""
    if math.isnan(value):
        return "-"
    plus = "+" if sign else ""
    return f"{value:{plus},.0f}" if abs(value) >= 1000 else f"{value:{plus}.1f}"


def interval(estimate: Interval, *, sign: bool = False, unit: str = "") -> str:
    """Value and limits, such as `3.0 [2.0, 4.0]`; the value alone where there are no limits."""
    value, low, high = (number(bound, sign=sign) for bound in (estimate.value, estimate.low, estimate.high))
    between = " to " if "," in low + high else ", "  # a comma would look like one of the thousands
    return f"{value}{unit}" if math.isnan(estimate.low) else f"{value}{unit} [{low}{between}{high}]"


def price(prices: Floats) -> str:
    """The mean price of what was reached, and how many of the runs reached it, f64 [runs] with NaN."""
    reached = prices[np.isfinite(prices)]
    if not len(reached):
        return f"0 of {len(prices)}"
    return f"{dollars(float(reached.mean()))} ({len(reached)} of {len(prices)})"


def dollars(value: float) -> str:
    """An amount, with three digits at least; a dash for NaN."""
    if math.isnan(value):
        return "-"
    return f"${value:.4f}" if value >= 0.01 or value == 0 else f"${value:.3g}"


def verdicts(differences: Sequence[Difference]) -> list[str]:
    """What each difference of a table says. Those with enough seeds are corrected together."""
    judged = [i for i, difference in enumerate(differences) if difference.seeds >= SEEDS_FOR_A_VERDICT]
    texts = ["too few seeds"] * len(differences)
    for i, p in zip(judged, holm([differences[i].interval.p for i in judged]), strict=True):
        difference = differences[i]
        shown = difference.more if difference.interval.value > 0 else difference.less
        texts[i] = shown if p < LEVEL else "no difference shown"
    return texts


def csv_text(rows: Iterable[Mapping[str, Any]]) -> str:
    """The rows as CSV, with the names of the first row's columns above them; empty without a row."""
    buffer = io.StringIO()
    writer: csv.DictWriter[str] | None = None
    for row in rows:
        if writer is None:
            writer = csv.DictWriter(buffer, list(row), lineterminator="\n")
            writer.writeheader()
        writer.writerow(row)
    return buffer.getvalue()
