"""Does boosting pay? Four differences in return with their intervals, from the tables of experiments/results:

    python scripts/forest.py docs/forest.png

A difference is in per cent of the return of the fixed number of actors, so that environments can be compared.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

from nitro_learner.run.views.plot_style import COLOURS, INK, MUTED, picture

RESULTS = Path(__file__).parents[1] / "experiments" / "results"
ASKED = (
    # The page, its environment, the fixed number, and what the row is called.
    ("paper-rounds", "Hopper-v5", "fixed-16", "Hopper, preset paper,\n50 rounds, against 16 actors"),
    ("paper-rounds-walker2d", "Walker2d-v5", "fixed-16", "Walker2d, the same"),
    ("paper-rounds-humanoid", "Humanoid-v5", "fixed-16", "Humanoid, the same"),
    ("tuned-default", "Walker2d-v5", "fixed-4", "Walker2d, preset tuned,\nequal samples, against 4 actors"),
)
_NUMBER = r"([-+]?[\d,.]+)"


@dataclass(frozen=True)
class Row:
    """A difference in per cent, and the ends of its 95 % interval."""

    label: str
    difference: float
    low: float
    high: float
    seeds: int


def row(page: str, environment: str, fixed: str, label: str) -> Row:
    """What a page's table of training returns says of `nitro` against a fixed number.

    Raises:
        ValueError: the page has no such table, or no such row in it.
    """
    text = (RESULTS / f"{page}.md").read_text(encoding="utf-8")
    _, _, section = text.partition(f"\n## {environment}\n")
    seeds = re.search(r"^(\d+) paired seeds", section, re.MULTILINE)
    base = re.search(rf"^\| {fixed} \| {_NUMBER} \[", section, re.MULTILINE)
    found = re.search(rf"^\| nitro - {fixed} \| {_NUMBER} \[{_NUMBER}, {_NUMBER}\]", section, re.MULTILINE)
    if not (seeds and base and found):
        raise ValueError(
            f"experiments/results/{page}.md has no table of {environment} with `nitro - {fixed}`."
        )
    unit = _number(base[1]) / 100
    difference, low, high = (_number(found[i]) / unit for i in (1, 2, 3))
    return Row(label, difference, low, high, int(seeds[1]))


def rows() -> list[Row]:
    return [row(*asked) for asked in ASKED]


def draw(target: Path) -> None:
    drawn = rows()
    with picture(target, figsize=(9, 3.0)) as (figure, axes):
        axes.axvline(0, color=MUTED, lw=1)
        for place, one in enumerate(drawn):
            colour = COLOURS[0] if one.low > 0 or one.high < 0 else INK
            axes.plot([one.low, one.high], [place, place], color=colour, lw=2)
            axes.plot(one.difference, place, "o", color=colour, ms=7)
            text = f"{one.difference:+.1f} % ({one.low:+.1f} to {one.high:+.1f})"
            axes.annotate(text, (1.02, place), xycoords=("axes fraction", "data"), va="center", color=INK)
        axes.set_yticks(
            range(len(drawn)), [f"{one.label}, {one.seeds} seeds" for one in drawn], color=INK, ha="left"
        )
        axes.tick_params(axis="y", length=0, pad=222)
        axes.set_ylim(len(drawn) - 0.5, -0.5)
        axes.set_xlim(-60, 20)
        axes.grid(visible=False, axis="y")
        axes.spines["left"].set_visible(False)
        axes.set_xlabel("return with boosting, minus the return without, in % of the latter")
        figure.subplots_adjust(left=0.365, right=0.795, bottom=0.18, top=0.98)


def _number(text: str) -> float:
    return float(text.replace(",", ""))


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
