"""A real Prometheus reads a real `nitro train`: every panel of the job's dashboard that needs no operator has
data, and so has what every alert on a learner watches.
"""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from chart_support import find_helm
from dashboard_support import assert_all_filled, board, empty_queries
from local_support import until
from nitro_monitoring.alerts import JOB_ALERTS, Alert
from prometheus_support import Prometheus, find, running
from scrape_support import with_files, write_targets
from train_support import LOADING, start, write_job

VARIABLES = {"namespace": "local", "job": "small", "window": "5m"}
OPERATOR = "the operator tells it, and there is none"
ONE_AGENT = "the job has a single agent"
RIGHTLY_EMPTY = {
    "Phase: {{phase}}": OPERATOR,
    "Rounds: of": OPERATOR,
    "Progress: done": OPERATOR,
    "Since the last report: age": OPERATOR,
    "Budget spent: spent": OPERATOR,
    "Return of training episodes: target": OPERATOR,
    "Actors requested, granted, ready: requested": OPERATOR,
    "Actors requested, granted, ready: granted": OPERATOR,
    "Actors requested, granted, ready: ready": OPERATOR,
    "Actors requested, granted, ready: provisioned": OPERATOR,
    **{
        f"Pods beside the phases: {name}": OPERATOR
        for name in ("awake", "asleep", "starting", "draining", "needed now", "deferred")
    },
    "Actors paid and used: paid": OPERATOR,
    "Actors paid and used: paid CPU": OPERATOR,
    "Actors paid and used: pods that are going": OPERATOR,
    "Pods started: pods per minute": OPERATOR,
    "Boosting score by policy: {{policy}}": ONE_AGENT,
    "Groups of agents: {{policy}}": ONE_AGENT,
    "Sharing: policies": ONE_AGENT,
    "Sharing: shared": ONE_AGENT,
}


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Prometheus, float]]:
    """A Prometheus that has seen a few rounds of a run, and the time at which it began."""
    find("prometheus")
    folder = tmp_path_factory.mktemp("prometheus")
    job = write_job(folder, stop={"rounds": 5000})
    began = time.time()
    process = start("train", job, "--run-dir", folder / "run", "--metrics-port", "0")
    try:
        assert process.stderr is not None
        assert process.stderr.readline() == LOADING
        found = re.search(r"localhost:(\d+)", process.stderr.readline())
        assert found
        config = {
            "global": {"scrape_interval": "250ms"},
            "scrape_configs": [
                {
                    "job_name": "learner",
                    "honor_labels": True,
                    "static_configs": [{"targets": [f"localhost:{found[1]}"]}],
                }
            ],
        }
        with running(folder / "prometheus", config) as prometheus:
            end = time.monotonic() + 280
            while not prometheus.instant("changes(nitro_round[1m]) >= 4"):
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < end, "no progress"
                time.sleep(0.1)
            yield prometheus, began
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=280)


def test_every_panel_of_the_job_has_data(scraped: tuple[Prometheus, float]) -> None:
    prometheus, began = scraped
    found = empty_queries(prometheus, board("nitro-job"), VARIABLES, began, time.time())
    assert_all_filled(found, RIGHTLY_EMPTY)
    assert set(found) == set(RIGHTLY_EMPTY), "the list names some that have data"


@pytest.mark.parametrize("alert", JOB_ALERTS, ids=lambda alert: alert.name)
def test_every_series_of_an_alert_exists(scraped: tuple[Prometheus, float], alert: Alert) -> None:
    prometheus, _ = scraped
    for_operator = "nitro_job_" in alert.value
    assert bool(prometheus.instant(alert.value)) is not for_operator
    assert prometheus.instant(alert.expr) == [], "a healthy run"


def test_prometheus_reports_no_error(scraped: tuple[Prometheus, float]) -> None:
    prometheus, _ = scraped

    def healthy() -> bool:
        """By the last scrape; one that a busy machine did not answer in a quarter of a second is no error."""
        (target,) = prometheus.targets()
        return (target["health"], target["lastError"]) == ("up", "")

    until(healthy)
    assert prometheus.instant("count({__name__=~'.+_created'})") == []


FORGED = """\
nitro_round{namespace="theirs",job_name="small"} 7
nitro_job_status_phase{namespace="theirs",job_name="small",phase="Failed"} 1
nitro_jobs{phase="Running"} 99
nitro_operator_resync_timestamp_seconds 9e9
"""


def test_a_learner_cannot_speak_for_another_namespace_or_the_operator(tmp_path: Path) -> None:
    """A tenant chooses the learner's image, so its page may say anything."""
    find("prometheus")
    values = ["metrics.scrapeConfig.enabled=true", "metrics.podMonitor.interval=1s"]
    (text,) = [
        document["data"]["nitro.scrape.yaml"]
        for document in find_helm().render(set=values)
        if "nitro.scrape.yaml" in document.get("data", {})
    ]
    config = with_files(yaml.safe_load(text), tmp_path)
    with serving(FORGED) as port:
        metrics = {"name": "metrics", "containerPort": port}
        pod = {
            "metadata": {"namespace": "mine", "name": "small-learner-x"},
            "spec": {"containers": [{"name": "learner", "ports": [metrics]}]},
            "status": {"phase": "Running", "podIP": "127.0.0.1"},
        }
        write_targets(tmp_path / "nitro-learners.json", [pod])
        with running(tmp_path / "prometheus", config) as prometheus:
            until(lambda: prometheus.instant("nitro_round"))
            (found,) = prometheus.instant("nitro_round")
            assert found["metric"].items() >= {"namespace": "mine", "job_name": "small"}.items()
            assert "exported_namespace" not in found["metric"]
            assert prometheus.instant('{__name__=~"nitro_(job|operator).*"}') == []
            assert prometheus.instant("absent(nitro_operator_resync_timestamp_seconds)")


@contextmanager
def serving(page: str) -> Iterator[int]:
    """A server that answers with this page of metrics; its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
