"""A Prometheus beside the cluster that scrapes it by the chart's own plain configuration."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from harness import Cluster, LateError, Object, is_ready

from chart_support import CHART, KUBE_VERSION, find_helm
from prometheus_support import Prometheus, find, running
from scrape_support import with_files, write_targets

INTERVAL = "1s"
"""Of scrapes: a short run must leave enough samples."""
OPERATOR = "nitro_operator_resync_timestamp_seconds"


@contextlib.contextmanager
def scraping(cluster: Cluster, folder: Path) -> Iterator[Prometheus]:
    """A Prometheus that reads the operator and all learners, with the chart's alerts, while the block runs.

    The configuration comes from the values of the installed release, but for the interval. Debian's
    Prometheus cannot ask Kubernetes, so watches of this process tell it which pods it selects.
    """
    find("prometheus")
    data = _rendered(cluster)
    config: Object = yaml.safe_load(data["nitro.scrape.yaml"])
    watched = [(job["job_name"], job["kubernetes_sd_configs"][0]) for job in config["scrape_configs"]]
    config = with_files(config, folder)
    (folder / "nitro.rules.yaml").write_text(data["nitro.rules.yaml"])
    config |= {"global": {"evaluation_interval": INTERVAL}, "rule_files": ["nitro.rules.yaml"]}
    _require_reachable_pods(cluster)
    ended = threading.Event()
    for name, discovery in watched:
        arguments = (cluster, discovery, folder / f"{name}.json", ended)
        threading.Thread(target=_discover, args=arguments, daemon=True).start()
    try:
        with running(folder, config) as prometheus:
            until(lambda: bool(prometheus.instant(OPERATOR)), "the operator is scraped")
            yield prometheus
    finally:
        ended.set()


def _rendered(cluster: Cluster) -> dict[str, str]:
    helm = find_helm()
    release = (cluster.release, "--namespace", cluster.namespace)
    values = helm.run("get", "values", *release, "--output", "yaml")
    settings = [
        "scrapeConfig.enabled=true",
        *(f"{name}Monitor.interval={INTERVAL}" for name in ("service", "pod")),
    ]
    command = [helm.program, "template", cluster.release, str(CHART), *release[1:]]
    command += [
        "--kube-version",
        KUBE_VERSION,
        "--values",
        "-",
        "--show-only",
        "templates/scrape-config.yaml",
    ]
    for setting in settings:
        command += ["--set", f"metrics.{setting}"]
    done = subprocess.run(command, input=values, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = yaml.safe_load(done.stdout)["data"]
    return found


def _discover(cluster: Cluster, discovery: Object, file: Path, ended: threading.Event) -> None:
    """What Kubernetes' service discovery of role pod does: follow the pods that the configuration selects."""
    assert discovery["role"] == "pod"
    (namespace,) = discovery.get("namespaces", {}).get("names", [None])
    (selector,) = discovery["selectors"]
    pods = cluster.kind("v1", "Pod")
    for found in cluster.follow(
        pods,
        namespace,
        end=lambda: 0.0 if ended.is_set() else time.monotonic() + 30,
        selector=selector["label"],
    ):
        if ended.is_set():
            return
        write_targets(file, found.values())


def _require_reachable_pods(cluster: Cluster) -> None:
    """Prometheus runs here, not in the cluster: without a route to its pods there is nothing to test."""

    def ready(found: list[Object]) -> str | None:
        return next((pod["status"]["podIP"] for pod in found if is_ready(pod)), None)

    address = cluster.until(
        cluster.kind("v1", "Pod"),
        ready,
        namespace=cluster.namespace,
        selector=cluster.operator,
        what="the operator is ready",
    )
    try:
        socket.create_connection((address, 8080), timeout=60).close()
    except OSError as error:
        pytest.skip(f"the cluster's pods cannot be reached from here ({error}): run this on a node")


def until(check: Callable[[], bool], what: str, timeout: float = 280) -> None:
    """Look again and again, a scrape's interval apart: Prometheus tells of no change.

    Raises:
        LateError: `check` was not true within `timeout` seconds.
    """
    end = time.monotonic() + timeout
    while not check():
        if time.monotonic() > end:
            raise LateError(f"{what}: not within {timeout:.0f} s")
        time.sleep(0.5)


def samples(prometheus: Prometheus, expr: str) -> dict[tuple[str, ...], float]:
    """The vector of an expression now: the values of its labels, sorted by label -> value."""

    def key(metric: dict[str, Any]) -> tuple[str, ...]:
        return tuple(value for _, value in sorted(metric.items()))

    return {key(one["metric"]): float(one["value"][1]) for one in prometheus.instant(expr)}
