"""The table of jobs: what it says of a job, and that it fits the terminal."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console

from nitro_learner.run.views.top import Row, age, sparkline, table, totals

NOW = datetime(2026, 1, 2, tzinfo=UTC)


def job(name: str, namespace: str = "team-a", **status: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "creationTimestamp": "2026-01-01T23:00:00Z"}
    return {"metadata": metadata, "spec": {}, "status": status}


RUNNING = job(
    "hopper",
    phase="Running",
    training={
        "round": 12,
        "envSteps": 49_152,
        "rewardMean": 1234.56,
        "boostingScore": 0.25,
        "history": [{"round": k, "rewardMean": float(k)} for k in range(1, 13)],
    },
    progress={"percent": 35.2, "by": "envSteps", "etaSeconds": 725},
    actors={"granted": 8, "ready": 6},
    cost={"total": 1.5},
)


def rendered(rows: list[Row], width: int) -> list[str]:
    text = io.StringIO()
    Console(file=text, width=width).print(table(rows, width))
    return text.getvalue().splitlines()


def test_a_job_is_shown_with_its_reported_values() -> None:
    header, line, total = rendered([Row.of(RUNNING, NOW)], 140)
    assert dict(zip(header.split(), line.split(), strict=True)) == {
        "NAMESPACE": "team-a",
        "JOB": "hopper",
        "PHASE": "Running",
        "ROUND": "12",
        "PROGRESS": "35%",
        "ETA": "12m",
        "STEPS": "49,152",
        "RETURN": "1,234.6",
        "TREND": "▁▂▂▃▄▄▅▅▆▇▇█",
        "SCORE": "0.25",
        "ACTORS": "6/8",
        "COST": "$1.5000",
        "AGE": "1h",
    }
    assert total.strip() == "1 job: 1 Running; 8 actors granted; $1.5000 in all"


def test_the_return_is_that_of_the_last_evaluation_when_rollouts_cut_episodes() -> None:
    history = [{"round": 1, "evaluationMean": 1.0}, {"round": 2}, {"round": 3, "evaluationMean": 9.0}]
    training = {"rewardMean": 42.7, "evaluationMean": 500.0, "cutShare": 0.9, "history": history}
    lines = rendered([Row.of(RUNNING, NOW), Row.of(job("own", training=training), NOW)], 140)
    own = next(line for line in lines if " own " in line)
    assert "500.0*" in own
    assert "▁█" in own
    assert "42.7" not in own
    assert lines[-1].strip().startswith("* of the last evaluation: rollouts cut long episodes")
    for width in (60, 100):
        assert max(map(len, rendered([Row.of(job("own", training=training), NOW)], width))) <= width


@pytest.mark.parametrize(
    ("sharing", "shown"),
    [({"groups": 6, "shared": False}, "6"), ({"groups": 2, "shared": True}, "2 shared"), ({}, "-")],
)
def test_policies_are_shown_where_a_job_has_several_agents(sharing: dict[str, Any], shown: str) -> None:
    spread = Row.of(job("spread", sharing=sharing), NOW)
    assert spread.cells()["POLICIES"] == shown
    assert ("POLICIES" in rendered([Row.of(RUNNING, NOW), spread], 140)[0]) == bool(sharing)
    assert "POLICIES" not in rendered([spread], 100)[0], "it gives way"


def test_a_job_without_a_status_is_shown_as_pending() -> None:
    new = job("new")
    del new["status"]
    cells = Row.of(new, NOW).cells()
    assert cells["PHASE"] == "Pending"
    assert {
        cells[name] for name in ("ROUND", "PROGRESS", "ETA", "STEPS", "RETURN", "SCORE", "ACTORS", "COST")
    } == {"-"}


@pytest.mark.parametrize("width", [60, 80, 100, 140])
def test_no_line_is_wider_than_the_terminal_and_numbers_stay_whole(width: int) -> None:
    rows = [Row.of(RUNNING, NOW), Row.of(job("a-very-long-name-of-a-job-for-a-narrow-terminal"), NOW)]
    lines = rendered(rows, width)
    assert max(map(len, lines)) <= width
    shown = next(line for line in lines if "hopper" in line or "Running" in line)
    assert "1,234.6" in shown
    assert "$1.5000" in shown


def test_jobs_are_sorted_by_running_then_namespace_and_name() -> None:
    jobs = [
        job("b", phase="Succeeded"),
        job("c", phase="Running"),
        job("b", "team-b", phase="Running"),
        job("b", phase="Running"),
    ]
    lines = rendered([Row.of(each, NOW) for each in jobs], 140)[1:-1]
    assert [tuple(line.split()[:3]) for line in lines] == [
        ("team-a", "b", "Running"),
        ("team-a", "c", "Running"),
        ("team-b", "b", "Running"),
        ("team-a", "b", "Succeeded"),
    ]


def test_sparkline() -> None:
    assert sparkline([]) == ""
    assert sparkline([3.0]) == "▄"
    assert sparkline([0.0, 7.0]) == "▁█"
    assert sparkline([float(k) for k in range(100)], 8) == "▁▂▃▄▅▆▇█"


@pytest.mark.parametrize(
    ("seconds", "text"), [(-3, "0s"), (59, "59s"), (60, "1m"), (7199, "1h"), (200_000, "2d")]
)
def test_ages_are_written_as_kubectl_writes_them(seconds: float, text: str) -> None:
    assert age(seconds) == text


def test_an_empty_cluster_is_reported() -> None:
    assert totals([]) == "no jobs"


SLEEPING = job(
    "swimmer",
    **{
        **RUNNING["status"],
        "actors": {
            "granted": 8,
            "ready": 7,
            "awake": 4,
            "asleep": 3,
            "deferred": 2,
            "starting": 1,
            "draining": 0,
        },
    },
)


def test_states_of_actors_are_columns_where_some_can_sleep() -> None:
    rows = [Row.of(each, NOW) for each in (SLEEPING, RUNNING)]
    header, other, line, _ = rendered(rows, 180)
    states = ["ACTORS", "AWAKE", "ASLEEP", "DEFERRED", "STARTING", "DRAINING"]
    told = dict(zip(header.split(), line.split(), strict=True))
    assert {name: told[name] for name in states} == dict(
        zip(states, ["7/8", "4", "3", "2", "1", "0"], strict=True)
    )
    assert dict(zip(header.split(), other.split(), strict=True))["ASLEEP"] == "-"
    assert "ASLEEP" not in rendered([Row.of(RUNNING, NOW)], 180)[0], "nobody sleeps: no columns of dashes"


@pytest.mark.parametrize("width", [130, 140, 160, 180])
def test_columns_of_states_cut_no_number(width: int) -> None:
    several = {"sharing": {"groups": 2, "shared": True}}
    row = Row.of({**SLEEPING, "status": {**SLEEPING["status"], **several}}, NOW)
    _, line, _ = rendered([row], width)
    assert "…" not in line.replace("team-a", "").split("Running")[1]
