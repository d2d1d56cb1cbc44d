"""What a run prints: aligned lines, the time left, JSON that every parser reads."""

import io
import json

from nitro_api.costs.prices import RoundCost
from nitro_learner.run.views.table import JsonLines, LiveTable, PlainLines, clock
from nitro_learner.training.round_report import Outcome
from nitro_learner.training.stop import Forecast
from report_support import report


def test_plain_lines_are_aligned_and_show_the_remaining_time() -> None:
    stream = io.StringIO()
    lines = PlainLines(stream)
    lines.on_run_started(round=0, rounds=10, history=[])
    lines.on_round_done(report(1, forecast=Forecast("rounds", 0.1, 11.25)))
    lines.on_round_done(report(2, reward_mean=None, boosting_score=None))
    heading, first, note, second = stream.getvalue().splitlines()
    assert note == "- in reward: no training episode has ended yet"
    assert len(heading) == len(first) == len(second)
    assert "1/10" in first
    assert "8→12" in first
    assert first.endswith("  0:11")
    assert second.endswith("  -")
    assert second.split()[2] == "-"


def test_a_training_return_of_short_episodes_is_marked_and_explained_once() -> None:
    stream = io.StringIO()
    lines = PlainLines(stream)
    lines.on_round_done(report(1, cut_share=0.4))
    for number in (2, 3):
        lines.on_round_done(report(number, cut_share=0.9, reward_mean=42.71 if number == 2 else None))
    heading, first, note, second, third = stream.getvalue().splitlines()
    assert [line.split()[2] for line in (first, second, third)] == ["20.0", "42.7*", "-*"]
    assert note.startswith("* training return of short episodes only")
    assert len(heading) == len(second) == len(third)


def test_json_has_null_where_there_is_no_number() -> None:
    stream = io.StringIO()
    lines = JsonLines(stream)
    lines.on_round_done(report(1, kl=float("nan"), boosting_score=None))
    lines.on_run_ended(Outcome("RoundsDone", "all done", True, 1, RoundCost(0.2, 0.1), 0.0))
    first, last = (json.loads(line) for line in stream.getvalue().splitlines())
    assert first["kl"] is None
    assert first["boosting_score"] is None
    assert last == {"event": "end", "reason": "RoundsDone", "message": "all done", "finished": True}


def test_live_table_renders_its_last_rounds() -> None:
    from rich.console import Console

    table = LiveTable()
    table.on_run_started(round=0, rounds=30, history=[])
    for number in range(1, 20):
        table.on_round_done(report(number))
    table.on_stage_started(round=20, stage="sample", actors=12)
    console = Console(file=io.StringIO(), width=120)
    console.print(table.render())
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "19/30" in text
    assert " 7/30" not in text
    assert "round 20: 12 actors sample" in text
    table.on_round_done(report(20, cut_share=0.9))
    console.print(table.render())
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "400.0*" in text
    assert "* training return of short episodes only" in text


def test_clock() -> None:
    assert [clock(None), clock(5), clock(65), clock(3723)] == ["-", "0:05", "1:05", "1:02:03"]
