"""Groups over time in the picture and in the report, and the report's section about sharing."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from nitro_learner.run.views import charts, plot, run_report
from nitro_learner.run.views.agent_groups import edges_of, groups_of, rows_of
from nitro_learner.run.views.plot import panels_of
from nitro_learner.run.views.plot_groups import read_run
from shared_runs import TOGGLES, shared_run


def test_each_agent_has_the_colour_of_its_policy(tmp_path: Path) -> None:
    groups = groups_of(shared_run(tmp_path), 5)
    assert groups
    axes = Figure().add_subplot()
    groups.draw(axes, edges_of(np.arange(1.0, 6.0), rounds=True), ("red", "green", "blue"))
    spans = [
        (bar.get_paths()[0].get_extents().intervalx.tolist(), bar.get_facecolor()[0][:3].round(1).tolist())
        for bar in axes.collections
    ]
    red, green, blue = [1, 0, 0], [0, 0.5, 0], [0, 0, 1]
    assert spans == [
        ([0.5, 5.5], red),
        ([0.5, 2.5], green),
        ([2.5, 4.5], blue),
        ([4.5, 5.5], green),
        ([0.5, 5.5], blue),
    ]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["agent_0", "agent_1", "agent_2"]


def test_a_toggle_is_marked_at_the_end_of_its_round(tmp_path: Path) -> None:
    groups = groups_of(shared_run(tmp_path), 5)
    assert groups
    assert groups.marks(edges_of(np.array([100.0, 200, 300, 400, 500]), rounds=False)).tolist() == [200, 400]
    assert groups.marks(edges_of(np.arange(1.0, 6.0), rounds=True)).tolist() == [2.5, 4.5]


@pytest.mark.parametrize("x", ["steps", "round", "dollars"])
def test_every_chart_of_the_report_marks_the_toggles(tmp_path: Path, x: str) -> None:
    run = read_run(shared_run(tmp_path))
    plain = dict(charts.charts(run.columns, x))
    for title, svg in charts.charts(run.columns, x, run.groups):
        dotted = svg.count("stroke-dasharray") - plain.get(title, "").count("stroke-dasharray")
        assert dotted == len(TOGGLES), title


def test_a_toggle_says_what_happened_with_whom_and_why() -> None:
    assert rows_of(TOGGLES[0]) == (
        "2",
        "sharing began: the slope of the returns, -0.0294, is below 0",
        "agent_1, agent_2 by the policy of agent_2 (convexity ratio)",
        "0.125 to 0.5",
    )
    assert rows_of(TOGGLES[1]) == (
        "4",
        "sharing ended: the round was drawn",
        "each agent has its own policy",
        "-",
    )


def test_the_picture_of_a_run_has_a_row_of_groups(tmp_path: Path) -> None:
    folder = shared_run(tmp_path / "run")
    run = read_run(folder)
    assert [panel.column for panel in panels_of([run], "steps")].count("groups") == 1
    both = panels_of([run, run], "steps")
    assert "groups" not in [panel.column for panel in both], "several runs have no common groups"
    for x in ("steps", "round", "dollars"):
        assert plot.draw([folder.path], tmp_path / f"{x}.png", x).stat().st_size > 20_000


def test_the_report_says_what_was_shared_when_and_what_it_saved(tmp_path: Path) -> None:
    page = run_report.of_run(shared_run(tmp_path).path).html()
    assert "<h2>Sharing</h2>" in page
    assert page.count("Policy of each agent") >= 1
    assert "agent_1, agent_2 by the policy of agent_2 (convexity ratio)" in page
    assert "13 updates of policies in 5 rounds; with a policy for each agent there would be 15" in page
    assert "sharing saved 13%" in page
    assert "Modelled as serverless learner functions" in page
    assert "learner functions (modelled, not in the total)" in page
