"""The dashboards: every panel explained and in a unit, every query about what is really exposed."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from nitro_monitoring import exposition, files, job_dashboard, platform_dashboard
from nitro_monitoring.alerts import ALERTS
from nitro_monitoring.queries import filled, panels, queries
from prometheus_support import promtool

ROOT = Path(__file__).parents[3]
VARIABLES = {"namespace": "team", "job": "hopper", "window": "5m", "datasource": "prometheus"}
BOARDS = {
    path.stem: json.loads(path.read_text()) for path in sorted((ROOT / files.DASHBOARDS).glob("*.json"))
}
EACH = pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
Board = dict[str, Any]
NOT_SHOWN = {
    "nitro_job_info": "the lists of namespaces and jobs are made from it",
    "nitro_job_status_convexity_ratio": "panels show the learner's own series, which has more points",
    "nitro_job_status_env_steps": "the same",
    "nitro_job_status_evaluation_mean": "the same",
    "nitro_jobs": "it has no namespace, which the platform's dashboard chooses by",
    "nitro_job_status_invalid": "it says why other series of a job are missing",
}
"""Metrics that no panel and no alert asks for -> why they are there all the same."""


def exposed() -> dict[str, set[str]]:
    """Series name -> its labels."""
    found: dict[str, set[str]] = {}
    with exposition.operator() as operator:
        for collector in (operator, exposition.learner()):
            for family in collector.collect():
                for sample in family.samples:
                    found.setdefault(sample.name, set()).update(sample.labels)
    return found


def test_there_are_two_dashboards() -> None:
    assert set(BOARDS) == {"nitro-platform", "nitro-job"}
    assert {board["uid"] for board in BOARDS.values()} == set(BOARDS)


@EACH
def test_every_panel_explains_itself(board: Board) -> None:
    titles = [panel["title"] for panel in panels(board)]
    assert len(titles) == len(set(titles))
    for panel in panels(board):
        assert len(panel["description"]) > 20, panel["title"]
        defaults = panel["fieldConfig"]["defaults"]
        assert defaults["unit"], panel["title"]
        assert defaults["thresholds"]["steps"], panel["title"]
        assert panel["targets"], panel["title"]
        assert panel["datasource"]["uid"] == "${datasource}"


@EACH
def test_every_row_is_a_question_with_panels(board: Board) -> None:
    kinds = [panel["type"] for panel in board["panels"]]
    assert kinds[0] == "row"
    assert kinds[-1] != "row"
    assert ("row", "row") not in itertools.pairwise(kinds)
    for panel in board["panels"]:
        if panel["type"] == "row":
            assert panel["title"].endswith("?")


@EACH
def test_panels_do_not_overlap(board: Board) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        place = panel["gridPos"]
        cells = set(
            itertools.product(
                range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
            )
        )
        assert place["x"] + place["w"] <= 24
        assert not taken & cells, panel["title"]
        taken |= cells


def test_the_platform_shows_the_chosen_namespaces() -> None:
    """All but what the operator says of itself, such as the actors that all jobs share."""
    for query in queries(BOARDS["nitro-platform"]):
        metrics = re.findall(r"\bnitro_\w+", query.expr)
        if not all(metric.startswith("nitro_operator_") for metric in metrics):
            assert query.expr.count('namespace=~"$namespace"') == len(metrics), query


@EACH
def test_queries_use_defined_variables_and_are_promql(board: Board, tmp_path: Path) -> None:
    names = {variable["name"] for variable in board["templating"]["list"]}
    assert {"datasource", "namespace"} <= names
    texts = [query.expr for query in queries(board)]
    texts += [annotation["expr"] for annotation in board["annotations"]["list"]]
    for text in texts:
        assert set(re.findall(r"\$(\w+)", text)) <= names, text
    rules = [
        {"record": "x", "expr": filled(text, VARIABLES), "labels": {"n": str(n)}}
        for n, text in enumerate(texts)
    ]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    promtool("check", "rules", file)


@EACH
def test_queries_are_about_series_and_labels_that_exist(board: Board) -> None:
    known = exposed()
    for query in queries(board):
        text = filled(query.expr, VARIABLES)
        used = set(re.findall(r"\bnitro_\w+", text))
        assert used <= set(known), f"{query.panel}: {used - set(known)}"
        labels = set().union(*(known[name] for name in used))
        grouped = re.findall(r"\b(?:by|on|group_left) \(([^)]*)\)", text)
        named = {label.strip() for group in grouped for label in group.split(",") if label.strip()}
        named |= set(re.findall(r'(\w+)(?:=|=~|!=)"', text))
        named |= set(re.findall(r"{{(\w+)}}", query.legend))
        assert named <= labels, f"{query.panel}: {named - labels}"


@EACH
def test_a_single_number_is_the_present_one(board: Board) -> None:
    """A query over time also gives what ended within the dashboard's last hour, such as earlier phases."""
    shown = [panel for panel in panels(board) if panel["type"] == "stat"]
    assert shown
    for panel in shown:
        for target in panel["targets"]:
            assert (target["instant"], target.get("range", False)) == (True, False), panel["title"]


@pytest.mark.parametrize(("phase", "age"), [("Running", [{"labels": "{}", "value": 40}]), ("Succeeded", [])])
def test_a_job_that_changes_phase_has_the_new_one_alone(
    phase: str, age: list[dict[str, Any]], tmp_path: Path
) -> None:
    """The learner of a job that has ended reports no more, and is not late."""
    job = 'namespace="team",job_name="hopper"'
    values = {
        f'nitro_job_status_phase{{{job},phase="Pending"}}': "1 1 stale",
        f'nitro_job_status_phase{{{job},phase="{phase}"}}': "_ _ 1 1 1",
        f"nitro_job_status_heartbeat_timestamp_seconds{{{job}}}": "_ _ 120 200 200",
    }
    expected = {"Phase": [{"labels": f'{{phase="{phase}"}}', "value": 1}], "Since the last report": age}
    found = {query.panel: query.expr for query in queries(BOARDS[job_dashboard.UID])}
    asked = [
        {"expr": filled(found[title], VARIABLES), "eval_time": "4m", "exp_samples": samples}
        for title, samples in expected.items()
    ]
    ask_prometheus(values, asked, tmp_path)


def ask_prometheus(values: dict[str, str], asked: list[dict[str, Any]], folder: Path) -> None:
    """Assert the answers of promtool, which has these series, one value a minute."""
    series = [{"series": name, "values": value} for name, value in values.items()]
    test = {"interval": "1m", "input_series": series, "promql_expr_test": asked}
    file = folder / "test.yaml"
    file.write_text(yaml.safe_dump({"tests": [test]}))
    promtool("test", "rules", file)


def test_several_operators_are_added_up_and_the_one_that_is_behind_is_seen(tmp_path: Path) -> None:
    """Each of two serves its own namespaces, and the first has a successor that waits for its Lease."""
    values = {
        f'nitro_operator_{name}{{pod="{pod}"}}': f"{value}x2"
        for pod, found in {
            "one": {"granted_actors": 20, "platform_limit_actors": 64, "queued_jobs": 3},
            "other": {"granted_actors": 8, "platform_limit_actors": 32, "queued_jobs": 2},
            "waiting": {"granted_actors": 0, "platform_limit_actors": 64, "queued_jobs": 0},
        }.items()
        for name, value in found.items()
    }
    values |= {
        f'nitro_operator_resync_timestamp_seconds{{pod="{pod}"}}': f"{seconds}x2"
        for pod, seconds in (("one", 100), ("other", 20))
    }
    expected = {
        ("Actors granted, against the limit", "granted"): 28,
        ("Actors granted, against the limit", "limit"): 96,
        ("Queue", "jobs waiting"): 5,
        ("Since the last resync", "age"): 100,
    }
    found = {(query.panel, query.legend): query.expr for query in queries(BOARDS[platform_dashboard.UID])}
    asked = [
        {"expr": found[panel], "eval_time": "2m", "exp_samples": [{"labels": "{}", "value": value}]}
        for panel, value in expected.items()
    ]
    ask_prometheus(values, asked, tmp_path)


def test_no_metric_is_forgotten() -> None:
    texts = [query.expr for board in BOARDS.values() for query in queries(board)]
    used = set(re.findall(r"\bnitro_\w+", "\n".join([*texts, *(alert.expr for alert in ALERTS)])))
    with exposition.operator() as operator:
        families = [*operator.collect(), *exposition.learner().collect()]
    unused = {one.name for one in families if not used & {sample.name for sample in one.samples}}
    assert unused == set(NOT_SHOWN)


def test_the_job_dashboard_never_mixes_two_jobs_of_one_name() -> None:
    for query in queries(BOARDS[job_dashboard.UID]):
        for selector in re.findall(r"\bnitro_\w+(\{[^}]*\})?", query.expr):
            assert 'namespace="$namespace"' in selector, query
            assert 'job_name="$job"' in selector, query


def test_the_platform_dashboard_names_jobs_by_both_labels() -> None:
    for query in queries(BOARDS["nitro-platform"]):
        for labels in re.findall(r"by \(([^)]*)\)", query.expr):
            assert ("job_name" in labels) == ("namespace" in labels), query
