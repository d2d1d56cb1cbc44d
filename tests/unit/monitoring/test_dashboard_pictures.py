"""The dashboards as pictures: chosen rows, and whole numbers of what is counted."""

from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from dashboard_support import board
from nitro_monitoring.picture import draw


@pytest.fixture
def saved(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    found: list[Figure] = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: found.append(figure))
    return found


def ones(_: str) -> list[dict[str, Any]]:
    """Any query's answer: one, then none, then one."""
    labels = {"phase": "Running", "namespace": "a", "job_name": "hopper"}
    return [{"metric": labels, "values": [[60.0 * k, "0" if k == 1 else "1"] for k in range(3)]}]


def test_chosen_rows_are_drawn_without_gaps(tmp_path: Path, saved: list[Figure]) -> None:
    dashboard = board("nitro-platform")
    rows = ["What runs, and what waits?", "What does it cost, and who spends it?"]
    draw(dashboard, ones, {"namespace": ".*", "window": "1m"}, tmp_path / "one.png", "a run", rows)
    (figure,) = saved
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == [
        "Running",
        "Pending",
        "Failed",
        "Jobs by phase",
        "Jobs",
        "Cost per hour by job",
        "Cost so far by job",
    ]
    draw(dashboard, ones, {"namespace": ".*", "window": "1m"}, tmp_path / "two.png", "a run", rows[:1])
    both, first = (figure.get_size_inches()[1] for figure in saved)
    assert both / first == pytest.approx((2 + 21 + 9) / (2 + 21)), "the rows between them leave no room"


def test_a_row_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no row Costs; there are What runs, and what waits"):
        draw(board("nitro-platform"), ones, {}, tmp_path / "one.png", "a run", ["Costs"])


def test_jobs_are_counted_in_whole_numbers_and_steps(tmp_path: Path, saved: list[Figure]) -> None:
    draw(
        board("nitro-platform"), ones, {"namespace": ".*", "window": "1m"}, tmp_path / "one.png", "a run",
        ["What runs, and what waits?"],
    )  # fmt: skip
    (axes,) = (axes for axes in saved[0].axes if axes.get_title(loc="left") == "Jobs by phase")
    ticks = axes.get_yticks()
    assert (ticks == ticks.round()).all()
    heights = {float(y) for area in axes.collections for y in area.get_paths()[0].vertices[:, 1]}
    assert heights == {0.0, 1.0}
