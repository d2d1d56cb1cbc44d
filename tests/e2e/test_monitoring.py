"""A real Prometheus with the chart's own configuration, beside real runs: every panel of both dashboards and
what every alert watches has data.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from harness import Cluster, Object
from jobs import hopper, spread
from monitoring import samples, scraping, until
from namespaces import Start

from dashboard_support import assert_all_filled, board, empty_queries
from nitro_monitoring.alerts import ALERTS
from nitro_monitoring.picture import draw
from prometheus_support import Prometheus

NAME, AGENTS = "watched", "agents"
"""Two jobs: of a single agent, and of several."""
OTHER = "default"
"""A namespace with another job of the same name, which is suspended."""
STOP = {"rounds": 12, "budgetDollars": 1, "targetReward": 1000}
"""A budget and a target that it comes near to but does not reach."""
SHOWN = {
    "nitro-job": (
        "Is it running, and how far is it?",
        "Does it learn?",
        "Does it get its actors?",
        "What does it cost?",
    ),
    "nitro-platform": ("What runs, and what waits?", "Are there enough actors for all?"),
}
"""The rows of each dashboard that the documentation has a picture of."""
RIGHTLY_EMPTY = {
    "Requests to AWS: {{code}}": "this operator has had no job on Lambda, unless another test had one",
    "Actors requested, granted, ready: provisioned": "the job runs on Knative",
}
"""Queries of panels: "panel: legend" -> why a healthy run has nothing to show."""


@dataclass(frozen=True)
class Run:
    """What was seen of the jobs from their start to their end."""

    prometheus: Prometheus
    namespace: str
    start: float
    end: float


@pytest.fixture
def run(
    cluster: Cluster, namespace: str, start: Start, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Run]:
    changes = {"evaluation": {"episodes": 2, "everyRounds": 2}, "stop": STOP}
    with scraping(cluster, tmp_path_factory.mktemp("prometheus")) as prometheus:
        began = time.time()
        cluster.create_job(OTHER, NAME, hopper(suspend=True))
        try:
            start(NAME, hopper(actors=(3, 4, 10), **changes))
            start(AGENTS, spread())
            for name in (NAME, AGENTS):
                cluster.until_phase(namespace, name, "Succeeded")
            ended = f'nitro_job_status_phase{{namespace="{namespace}",phase="Succeeded"}} == 1'
            until(lambda: len(prometheus.instant(ended)) == 2, "Prometheus knows the ends")
            yield Run(prometheus, namespace, began, time.time())
        finally:
            cluster.jobs.delete(namespace=OTHER, name=NAME)


def test_every_panel_and_alert_has_data(cluster: Cluster, run: Run, report_folder: Path) -> None:
    prometheus = run.prometheus
    platform = _empty(run, "nitro-platform", {"namespace": ".*"}, report_folder / "nitro-platform.png")
    single, several = (
        _empty(run, "nitro-job", {"namespace": run.namespace, "job": name}, report_folder / f"{name}.png")
        for name in (NAME, AGENTS)
    )
    both = {name: expr for name, expr in single.items() if name in several}
    assert_all_filled(platform | both, RIGHTLY_EMPTY)

    for alert in ALERTS:
        watched = prometheus.range(alert.value, run.start, run.end, 1)
        assert bool(watched) is not bool(alert.absent), f"{alert.name} watches {alert.value}"
    fired = prometheus.range('ALERTS{alertstate="firing"}', run.start, run.end, 1)
    assert [one["metric"]["alertname"] for one in fired] == [], "a healthy run"

    _assert_jobs_are_told_apart(run)
    _assert_series_go_with_the_job(cluster, run)


def _empty(run: Run, name: str, variables: dict[str, str], picture: Path) -> dict[str, str]:
    """The queries of a dashboard that give nothing. Its picture is kept, and
    that of the rows that the documentation shows."""
    variables = {**variables, "window": "1m"}

    def ask(expr: str) -> list[Object]:
        return run.prometheus.range(expr, run.start, run.end, 1)

    caption = (
        f"{run.end - run.start:.0f} s of a run on a cluster; drawn by matplotlib from the panels' own queries"
    )
    draw(board(name), ask, variables, picture, caption)
    few = picture.with_name(f"{picture.stem}-few.png")
    draw(board(name), ask, variables, few, caption, SHOWN[name])
    return empty_queries(run.prometheus, board(name), variables, run.start, run.end)


def _assert_jobs_are_told_apart(run: Run) -> None:
    phases = samples(
        run.prometheus, f'max by (namespace, phase) (nitro_job_status_phase{{job_name="{NAME}"}})'
    )
    assert phases.keys() == {(run.namespace, "Succeeded"), (OTHER, "Suspended")}
    other = {"namespace": OTHER, "job": NAME, "window": "1m"}
    empty = empty_queries(run.prometheus, board("nitro-job"), other, run.start, run.end)
    assert "Phase: {{phase}}" not in empty
    assert "Return of training episodes: mean of 20 episodes" in empty, "it shows another job's return"


def _assert_series_go_with_the_job(cluster: Cluster, run: Run) -> None:
    cluster.jobs.delete(namespace=run.namespace, name=NAME)
    series = f'{{job_name="{NAME}",namespace="{run.namespace}"}}'
    until(lambda: not run.prometheus.instant(series), "no series of the deleted job is left")
