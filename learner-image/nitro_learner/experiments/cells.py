"""How numbers, intervals and verdicts are written in a report's tables."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nitro_learner.experiments.statistics import Interval

# With fewer seeds the resamples hardly differ: with two seeds, half of them hold one seed twice.
SEEDS_FOR_A_VERDICT = 5


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


def interval(found: Interval, *, sign: bool = False, digits: int | None = None, unit: str = "") -> str:
    """Value and limits, `3.0 [2.0, 4.0]`; the value alone where there are no limits."""

    def shown(value: float) -> str:
        return number(value, sign=sign) if digits is None else f"{value:.{digits}f}"

    if math.isnan(found.low):
        return f"{shown(found.value)}{unit}"
    return f"{shown(found.value)}{unit} [{shown(found.low)}, {shown(found.high)}]"


def verdict(difference: Interval, seeds: int, *, more: str = "better", less: str = "worse") -> str:
    """What the interval of a difference says: `more` or `less` where it excludes 0."""
    if seeds < SEEDS_FOR_A_VERDICT:
        return "too few seeds"
    if not difference.excludes_zero:
        return "no difference shown"
    return more if difference.value > 0 else less
